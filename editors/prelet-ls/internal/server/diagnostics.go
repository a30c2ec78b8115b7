package server

import (
	"fmt"
	"maps"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/lab/repository"
	"github.com/prelet/prelet/internal/lab/testfile"
	"github.com/prelet/prelet/internal/plan/lang"
)

// codePages is where each code of a diagnostic is explained.
const codePages = "https://github.com/prelet/prelet/blob/main/docs/codes/"

// validation is the state of the running validations. Its mutex is held while one runs, so that there is one at a
// time; pending and shown are guarded by the server's.
type validation struct {
	running   sync.Mutex
	timer     *time.Timer
	pending   map[string]bool            // documents whose sites are to be validated
	shown     map[string]map[string]bool // by site: files that have diagnostics in the editor
	isStopped bool
}

// stop ends validation: a timer that fires later does nothing.
func (v *validation) stop() {
	v.running.Lock()
	defer v.running.Unlock()
	v.isStopped = true
}

// check reports the syntax errors of a text at once, and has its site validated later.
func (s *Server) check(file string) {
	d := s.documents[file]
	switch {
	case lang.IsTestFile(file):
		s.publish(file, convert(d.text, s.checkTest(file, d.text)))
	case isRepository(file):
		found, diags := repository.Parse(file, []byte(d.text))
		_, more := found.Machines()
		diags = append(diags, more...)
		s.publish(file, convert(d.text, diags))
		s.scheduleSites()
	case lang.IsNative(file):
		if _, diags := lang.ParseFile(file, []byte(d.text)); diags.HasErrors() {
			s.publish(file, convert(d.text, diags))
		}
	}
	s.schedule(file)
}

// checkTest returns the findings of `prelet test` in a test file before it runs.
func (s *Server) checkTest(file, text string) hcl.Diagnostics {
	files := newOverlay(s.texts())
	readBeside := func(name string) ([]byte, error) {
		return files.ReadFile(path.Join(path.Dir(file), name), lang.MaxBytes)
	}
	_, diags := testfile.Parse(file, []byte(text), readBeside)

	return diags
}

// schedule has the site of a file validated when the texts have not changed for a while.
func (s *Server) schedule(file string) {
	if isApart(file) {
		return // not a part of the site
	}
	v := &s.validation
	if v.pending == nil {
		v.pending = map[string]bool{}
	}
	v.pending[file] = true

	if v.timer != nil {
		v.timer.Stop()
	}
	v.timer = time.AfterFunc(s.options.Delay, s.validatePending)
}

// scheduleAll has the sites of all open documents validated, and of all files with diagnostics.
func (s *Server) scheduleAll() {
	s.scheduleSites()
	for _, files := range s.validation.shown {
		for file := range files {
			s.schedule(file)
		}
	}
}

// scheduleSites has the sites of all open documents validated.
func (s *Server) scheduleSites() {
	for file := range s.documents {
		s.schedule(file)
	}
}

// checkTests checks the open tests again, because a file that one reads may have changed.
func (s *Server) checkTests() {
	for _, file := range slices.Sorted(maps.Keys(s.documents)) {
		if lang.IsTestFile(file) {
			s.check(file)
		}
	}
}

// validatePending validates the sites of the documents that have changed, each site once.
func (s *Server) validatePending() {
	s.validation.running.Lock()
	defer s.validation.running.Unlock()
	if s.validation.isStopped {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			s.options.Log.Printf("validate: %v\n%s", p, debug.Stack())
		}
	}()

	s.mu.Lock()
	files := slices.Sorted(maps.Keys(s.validation.pending))
	s.validation.pending = nil
	s.mu.Unlock()

	done := map[string]bool{}
	for _, file := range files {
		s.mu.Lock()
		places := s.sitePaths(file)
		s.mu.Unlock()
		if site := strings.Join(places, "\n"); !done[site] {
			done[site] = true
			s.validateSite(file, site, places)
		}
	}
}

// validateSite validates a site with the open documents, and shows the result.
func (s *Server) validateSite(file, site string, places []string) {
	s.mu.Lock()
	r := Request{
		Version:        s.options.Version,
		File:           file,
		Places:         places,
		Texts:          s.texts(),
		KubeletVersion: s.settings.KubeletVersion,
	}
	s.mu.Unlock()

	found, err := s.options.Validate(s.ending, r)
	if err != nil {
		s.options.Log.Printf("validate %s: %v", file, err)
		found = Validated{file: {{
			Severity: severityError,
			Source:   "prelet",
			Message:  fmt.Sprintf("The site was not validated: %v", err),
		}}}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending.Err() != nil || !maps.Equal(r.Texts, s.texts()) {
		return // a newer validation is scheduled
	}
	s.show(site, found)
}

// show replaces the diagnostics of a site in the editor.
func (s *Server) show(site string, byFile Validated) {
	v := &s.validation
	if v.shown == nil {
		v.shown = map[string]map[string]bool{}
	}

	files := map[string]bool{}
	for file := range byFile {
		files[file] = true
	}
	for file := range s.documents { // also one whose syntax error is fixed
		if strings.Join(s.sitePaths(file), "\n") == site && !isApart(file) {
			files[file] = true
		}
	}
	for file := range v.shown[site] {
		files[file] = true
	}

	v.shown[site] = map[string]bool{}
	existing := newOverlay(s.texts())
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if _, err := existing.Lstat(file); err != nil {
			byFile[file] = nil // nothing is shown in a file that was removed
		}
		s.publish(file, append([]diagnostic{}, byFile[file]...)) // null is not a list
		if len(byFile[file]) > 0 {
			v.shown[site][file] = true
		}
	}
}

func (s *Server) publish(file string, found []diagnostic) {
	p := publishParams{URI: uriOf(file), Diagnostics: found}
	if d := s.documents[file]; d != nil {
		p.URI = d.uri
		p.Version = &d.version
	}
	s.notify("textDocument/publishDiagnostics", p)
}
