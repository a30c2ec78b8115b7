package sites

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/lab/repository"
	"github.com/prelet/prelet/internal/lab/testfile"
	"github.com/prelet/prelet/internal/lab/userfile"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// TestOptions are the tests to run.
type TestOptions struct {
	Paths []string // folders of sites, and files of tests; none is the current folder
	// Config is the site of all tests; none: each test is of the site in its folder. Kubelets is a binary in place of
	// the machine's kubelet, for runs that do not name a version.
	lab.Request
	Run    string // a regular expression that the names of runs must match
	Update bool   // write snapshots
}

// Tests are the tests of a command.
type Tests struct {
	Site        *lang.Site      // the sources of the sites and the test files, for Diagnostics
	Diagnostics hcl.Diagnostics // with errors, no test was run
	printer.TestSum
}

// Code returns the code of the command; "" if all tests passed.
func (t Tests) Code() fault.Code {
	if code := origin.Code(t.Diagnostics); code != "" {
		return code
	}
	if t.Failed > 0 {
		return fault.TestFailed
	}
	return ""
}

// Test runs the tests of sites, several at a time. show gets the sources and each result, in the order of the files,
// their runs and their machines; an error of show ends the command. Mistakes in a site or a test file are in Tests.
func Test(
	ctx context.Context, e *machine.Env, o TestOptions, show func(*lang.Site, testfile.MachineResult) error,
) (Tests, error) {
	start := time.Now()
	s, err := loadTests(e, o)
	if err != nil || s.tests.Diagnostics.HasErrors() {
		return s.tests, err
	}

	all, err := s.listCases(o)
	if err != nil {
		return s.tests, err
	}
	run := func(ctx context.Context, c testCase) testfile.MachineResult { return c.run(ctx) }
	err = lab.InOrder(ctx, e, all, run, func(r testfile.MachineResult) error {
		if r.Passed() {
			s.tests.Passed++
		} else {
			s.tests.Failed++
		}
		return show(s.tests.Site, r)
	})
	s.tests.Took = time.Since(start)

	return s.tests, err
}

// suite are the test files of a command with their sites, each loaded once.
type suite struct {
	env    *machine.Env
	tests  Tests
	files  []*testfile.Suite
	sites  map[string]*lab.Given // by the names of their files
	update bool
	siteOf map[*testfile.Suite]*lab.Given
	given  lab.Request // of the command line, and of the repository
}

// loadTests reads the test files and their sites.
func loadTests(e *machine.Env, o TestOptions) (*suite, error) {
	s := &suite{
		env:    e,
		tests:  Tests{Site: &lang.Site{Sources: map[string][]byte{}}},
		sites:  map[string]*lab.Given{},
		update: o.Update,
		siteOf: map[*testfile.Suite]*lab.Given{},
	}
	s.given = o.Request
	if err := s.given.Check(); err != nil {
		return s, err
	}
	if len(o.Paths) == 0 || len(o.Paths) == 1 && o.Repository.IsOf(o.Paths[0]) {
		if found := withTests(o.Repository); len(found) > 0 {
			o.Paths = found
		}
	}
	names, err := listTestFiles(o.Paths)
	if err != nil {
		return s, err
	}

	for _, name := range names {
		if err := s.loadFile(name, o.Config); err != nil {
			return s, err
		}
	}
	s.checkSnapshots()

	return s, nil
}

// checkSnapshots refuses two runs of a folder with one snapshot: each would write its plan over that of the other.
func (s *suite) checkSnapshots() {
	first := map[string]*testfile.Run{}
	for _, f := range s.files {
		for _, r := range f.Runs {
			if r.Snapshot.V == "" {
				continue
			}
			key := filepath.Join(filepath.Dir(f.Name), r.Snapshot.V)
			other := first[key]
			if other == nil {
				first[key] = r
				continue
			}
			s.tests.Diagnostics = append(s.tests.Diagnostics, origin.Error(
				fault.Duplicate,
				r.Snapshot.Range,
				fmt.Sprintf("Duplicate snapshot %q", r.Snapshot.V),
				"The run %q at %s:%d has it already. Each run needs a name of its own.",
				other.Name, other.Snapshot.Range.Filename, other.Snapshot.Range.Start.Line,
			))
		}
	}
}

// listTestFiles returns the test files that paths mean, each once: a file, or those of a folder and of its folder
// tests.
func listTestFiles(paths []string) ([]string, error) {
	if len(paths) == 0 {
		paths = []string{"."}
	}

	var out []string
	for _, path := range paths {
		st, err := nodefile.Stat(path)
		if err != nil {
			return nil, nodefile.NamedFailure("", path, "no such file or folder", err)
		}
		if !st.IsDir() {
			if !lang.IsTestFile(path) {
				return nil, fault.Usage.Errorf("%s: a file of tests ends in .prelettest.hcl", path)
			}
			out = append(out, path)
			continue
		}

		found := slices.Concat(testsIn(path), testsIn(filepath.Join(path, lang.TestFolder)))
		if len(found) == 0 {
			return nil, fault.Usage.Errorf(
				"%s: no file *.prelettest.hcl in this folder or in its folder %s", path, lang.TestFolder)
		}
		out = append(out, found...)
	}

	known := map[string]bool{} // a layer may be the folder of the repository's file
	return slices.DeleteFunc(out, func(name string) bool {
		abs, err := filepath.Abs(name)
		isKnown := err == nil && known[abs]
		known[abs] = true

		return isKnown
	}), nil
}

// withTests returns the folders of a repository that have tests: its own, and the layers.
func withTests(r repository.File) []string {
	if r.Path == "" {
		return nil
	}
	folders := append([]string{filepath.Dir(r.Path)}, r.Layers...)

	return slices.DeleteFunc(folders, func(folder string) bool {
		return len(testsIn(folder)) == 0 && len(testsIn(filepath.Join(folder, lang.TestFolder))) == 0
	})
}

// testsIn returns the test files in a folder by name; none if the folder does not exist.
func testsIn(folder string) (out []string) {
	entries, _ := nodefile.ReadDir(folder)
	for _, entry := range entries {
		if !entry.IsDir() && lang.IsTestFile(entry.Name()) {
			out = append(out, filepath.Join(folder, entry.Name()))
		}
	}
	return out
}

// loadFile reads a test file and, unless another test file has, its site.
func (s *suite) loadFile(name string, config []string) error {
	source, why, err := userfile.ReadSite(name, lang.MaxBytes)
	switch {
	case err != nil:
		return fault.FileUnusable.Errorf("%s: %s", name, err)
	case why != "":
		return fault.FileRefused.Errorf("%s %s", name, why)
	}

	folder := filepath.Dir(name)
	f, diags := testfile.Parse(name, source, func(path string) ([]byte, error) {
		return userfile.Read(filepath.Join(folder, path), userfile.MaxBytes)
	})
	s.tests.Site.Sources[name] = source
	s.tests.Diagnostics = append(s.tests.Diagnostics, diags...)
	s.files = append(s.files, f)

	if len(config) == 0 {
		config = s.given.Repository.SiteOf(siteFolder(folder))
	}
	if config == nil {
		config = []string{siteFolder(folder)}
	}
	if s.siteOf[f], err = s.readSite(config); err != nil {
		return err
	}
	if !diags.HasErrors() && !s.tests.Diagnostics.HasErrors() {
		s.tests.Diagnostics = append(s.tests.Diagnostics, f.CheckNames(s.siteOf[f].Loaded.Site)...)
	}
	return nil
}

// siteFolder returns the folder of the site that the tests in a folder are of.
func siteFolder(folder string) string {
	abs, err := filepath.Abs(folder)
	if err == nil && filepath.Base(abs) == lang.TestFolder {
		return filepath.Join(folder, "..")
	}
	return folder
}

// readSite reads a site once.
func (s *suite) readSite(config []string) (*lab.Given, error) {
	key := fmt.Sprintf("%q", config)
	if g := s.sites[key]; g != nil {
		return g, nil
	}

	g, err := lab.Read(s.env, lab.Request{Where: machine.Where{Config: config, Files: lang.AnyOwner()}})
	if err != nil {
		return nil, err
	}
	for name, source := range g.Loaded.Site.Sources {
		s.tests.Site.Sources[name] = source
	}
	for _, d := range g.Loaded.Diags {
		if d.Severity == hcl.DiagError { // warnings are of validate
			s.tests.Diagnostics = append(s.tests.Diagnostics, d)
		}
	}
	s.sites[key] = g

	return g, nil
}

// listCases returns the cases of the runs that are selected.
func (s *suite) listCases(o TestOptions) (out []testCase, err error) {
	selected, err := regexp.Compile(o.Run)
	if err != nil {
		return nil, fault.Usage.Errorf("--run %s: not a regular expression: %s", o.Run, err)
	}

	var names []string
	for _, f := range s.files {
		for _, r := range f.Runs {
			names = append(names, r.Name)
			if selected.MatchString(r.Name) {
				s.tests.Runs++
				out = append(out, s.expand(r)...)
			}
		}
	}
	if len(out) == 0 {
		return nil, fault.Usage.Errorf("--run %s matches no run. The runs are:\n  %s",
			o.Run, strings.Join(names, "\n  "))
	}
	return out, nil
}
