package lab

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/bundle"
	"github.com/prelet/prelet/internal/lab/rehearsal"
	"github.com/prelet/prelet/internal/lab/repository"
	"github.com/prelet/prelet/internal/lab/userfile"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Given is the input of a command, checked and read once, for one node or for many. The steps after it use nothing
// else: the layers of the site, variables, the world (OpenWorld), and the plan.
type Given struct {
	Request
	Values  map[string]probe.Given // of the command line, by name
	Loaded  *machine.LoadedSite    // nil: the site in each recording
	IsOlder bool                   // to compare with: the newer site may declare more variables
	Test    *rehearsal.Source      // the answers that a test replaces; nil outside of tests

	isRehearsed bool // this machine answers no question, as in a test

	mu       sync.Mutex
	recorded map[string]func() *machine.LoadedSite // sites of recordings, by their files
}

// Read checks a request, and reads its variables and its site.
func Read(e *machine.Env, r Request) (*Given, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}

	g := &Given{Request: r, Values: map[string]probe.Given{}}
	for _, path := range r.VarFiles {
		text, err := userfile.ReadInput(path, userfile.MaxBytes)
		if err != nil {
			return nil, fault.Usage.Errorf("--var-file %s: %s", path, err)
		}
		values, err := lang.ParseVarsFile(path, text)
		if err != nil {
			return nil, fault.Usage.Errorf("--var-file %s", err)
		}
		for name, value := range values {
			source := fmt.Sprintf("--var-file %s", origin.Place(value.At))
			g.Values[name] = probe.Given{Text: value.Text, Source: source, IsFile: true}
		}
	}
	maps.Copy(g.Values, r.ReadVariables())
	if len(r.Config) > 0 || r.From == "" {
		g.Loaded = e.Load(r.SiteFiles())
	}

	return g, nil
}

// SiteFiles returns where the site is read. Other users may change the files for a recording, as in a checkout: they
// control no machine.
func (r *Request) SiteFiles() machine.Where {
	w := r.Where
	if r.From != "" {
		w.Files = lang.AnyOwner()
	}
	if len(r.pulled) > 0 {
		w.Files = withPulled{cmp.Or(w.Files, lang.OS()), r.pulled}
	}

	return w
}

// At returns the input for one machine, or for that of --hardware in a repository: a recording answers for itself, and
// recorded hardware with the objects and the first kubelet of the repository, where none were given.
func (g *Given) At(machine string) *Given {
	if machine == "" && g.Repository.Path != "" {
		machine = g.Hardware
	}
	if machine == "" || machine == g.From || repository.IsRecording(machine) { // --from takes any name
		return g
	}

	out := &Given{
		Request: g.Request, Values: g.Values, Loaded: g.Loaded, IsOlder: g.IsOlder, Test: g.Test, isRehearsed: true,
	}
	if g.Test == nil || g.Root == "" { // a test may have a root of its own
		out.Root = rehearsal.NoRoot
	}
	out.Hardware = machine
	out.Objects = cmp.Or(g.Objects, g.Repository.Objects)
	if kubelets := g.Repository.Kubelets; out.KubeletVersion == "" && len(kubelets) > 0 {
		out.KubeletVersion = kubelets[0]
	}

	return out
}

// maxKnownSites bounds how many sites of recordings are kept.
const maxKnownSites = 16

// siteOf returns the site for a recording, nil for this machine. It loads a site once for all recordings: those of a
// fleet mostly have the same site inside.
func (g *Given) siteOf(e *machine.Env, recorded *tape.Recording) *machine.LoadedSite {
	if g.Loaded != nil {
		return g.Loaded
	}

	key := fmt.Sprintf("%q", recorded.Header.Site)
	g.mu.Lock()
	load := g.recorded[key]
	if load == nil {
		load = sync.OnceValue(func() *machine.LoadedSite { return loadRecorded(e, recorded) })
		if g.recorded == nil || len(g.recorded) >= maxKnownSites {
			g.recorded = map[string]func() *machine.LoadedSite{}
		}
		g.recorded[key] = load
	}
	g.mu.Unlock()

	return load()
}

// loadRecorded reads the site inside a recording, and hides the secrets in it.
func loadRecorded(e *machine.Env, recorded *tape.Recording) *machine.LoadedSite {
	o := machine.SiteOptions(e.Version)
	o.IsPast = true
	l := &machine.LoadedSite{Signature: machine.Unsigned}
	l.Site, l.Diags = lang.Parse(recorded.Header.Site, o)
	_ = machine.LearnSite(e.Redactor, nil, l.Site)

	return l
}

// ReadRecording reads a recording, or the one in a bundle; nil for "", which is this machine.
func ReadRecording(path string) (*tape.Recording, error) {
	if path == "" {
		return nil, nil
	}

	r, err := bundle.ReadRecording(path)
	switch {
	case os.IsNotExist(err):
		return nil, fault.RecordingInvalid.Errorf("--from %s: no such recording%s", path, nodefile.SuggestBeside(path))
	case err != nil:
		if kind := userfile.Kind(path); kind != "" && kind != texts.KindRecording && kind != texts.KindCompressed {
			err = fmt.Errorf("it is %s, and not a recording, which `prelet record` makes", kind)
		}
		return nil, fault.RecordingInvalid.Errorf("--from %s: %s", path, err)
	}

	return r, nil
}

// ListRecordings returns the recordings of a folder by name, at least one; nil where from is not a folder.
func ListRecordings(from string) ([]string, error) {
	if st, err := nodefile.Stat(from); from == "" || err != nil || !st.IsDir() {
		return nil, nil
	}

	entries, err := nodefile.ReadDir(from)
	if err != nil {
		return nil, fault.Usage.Errorf("--from %s: %s", from, err)
	}
	var out []string
	for _, entry := range entries {
		name := entry.Name()
		if texts.IsRecording(name) {
			out = append(out, filepath.Join(from, name))
		}
	}
	if len(out) == 0 {
		hint := ""
		if _, err := nodefile.Stat(filepath.Join(from, "sys")); err == nil {
			hint = "; it is a recorded machine: use --hardware"
		}
		return nil, fault.Usage.Errorf(
			"--from %s: this folder has no recording (*.prelet, *.prelet.gz)%s", from, hint)
	}

	return out, nil
}

// ListMachines returns the recordings of the folder w.From, or the machines of the repository; nil for one node.
func ListMachines(r Request) ([]string, error) {
	if recordings, err := ListRecordings(r.From); err != nil || recordings != nil {
		return recordings, err
	}

	return r.Machines()
}
