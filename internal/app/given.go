package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/app/bundle"
	"github.com/prelet/prelet/internal/app/rehearsal"
	"github.com/prelet/prelet/internal/app/repository"
	"github.com/prelet/prelet/internal/app/userfile"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/filekind"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/probe"
	"github.com/prelet/prelet/internal/probe/kubeletbin"
	"github.com/prelet/prelet/internal/world"
)

// Where is the node and the site of a command.
type Where struct {
	Config    []string // files and folders in place of /etc/prelet and its like
	Root      string   // files and targets are below it; "" is /
	From      string   // a recording that answers all questions that the other fields do not
	Hardware  string   // a recorded machine: a tree, or facts
	Objects   string   // a folder in place of the cluster; with From in place of the objects that it has
	Variables []string // NAME=VALUE
	VarFiles  []string // vars files outside of the site; later ones win, and Variables win over them

	KubeletVersion string   // in place of the installed kubelet's; "" is that one
	Kubelets       []string // binaries of this machine in place of the installed one; upgrade takes several
	Takeover       bool     // join under the name of another machine
	AcceptMissing  bool     // do not keep the values that variables had in the last good generation

	Repository    repository.File               // has what the fields above do not, for commands that read it
	MustBeSigned  bool                          // also if Config names the site's files
	Binaries      map[string]*kubeletbin.Binary // those of Kubelets, by version
	TakesKubelets bool                          // more than one
	IsRun         bool                          // the kubelet's binary is asked only if there is a generation to lose
	IsPast        bool                          // see lang.LoadOptions
	Files         lang.Files                    // where Config is read, without a signature; nil: on this machine
}

// findRepositories returns the files of repositories that are one folder below the working folder. The root of a
// machine is not searched: its folders are mounts, file systems of programs, and others' homes.
func findRepositories() []string {
	here, err := os.Getwd()
	if err != nil || here == "/" {
		return nil
	}
	below, _ := nodefile.Within(here, func() ([]string, error) {
		return filepath.Glob(filepath.Join("*", repository.Name))
	})

	return below
}

// UseRepository takes what no flag gives from the file of a repository: of the folder that is given as the site, if it
// has one, else of the repository that the current folder is in. --root names a node, for which it does not count.
func (w *Where) UseRepository(e *Env, files lang.Files) error {
	folder := "."
	isNamed := w.namesRepository(files)
	if isNamed {
		folder = w.Config[0]
	}
	found, diags := repository.Find(files, folder)
	switch {
	case found.Path == "" && len(w.Config) == 0:
		plain := strings.TrimPrefix(repository.Name, ".")
		if _, err := files.Lstat(plain); err == nil {
			e.Say(plain + " is not read: the name of this file begins with a dot, " + repository.Name)
		}
		switch below := findRepositories(); len(below) {
		case 0:
		case 1:
			e.Say(below[0] + " counts in its folder: run this there, or name that folder")
		default:
			e.Say(strings.Join(below, ", ") + " count in their folders: run this in one of them, or name it")
		}
		return nil
	case found.Path == "":
		return nil
	case w.Root != "":
		if len(w.Config) == 0 {
			e.Say(found.Path + " is not used: --root names a node, which has its own site; --config names another one")
		}
		return nil
	case diags.HasErrors():
		_, more := found.Machines() // all mistakes at once
		return explainRepository(found, append(diags, more...))
	}

	e.Say("using " + found.Path)
	w.Repository = found
	if len(w.Config) == 0 || isNamed && len(found.Layers) > 0 {
		w.Config = found.Layers
	}

	return nil
}

// UseOwnRepository is UseRepository for the folder that is given as the site only.
func (w *Where) UseOwnRepository(e *Env, files lang.Files) error {
	if !w.namesRepository(files) {
		return nil
	}

	return w.UseRepository(e, files)
}

// namesRepository reports whether the site that is given is a folder with the file of a repository.
func (w *Where) namesRepository(files lang.Files) bool {
	if len(w.Config) != 1 || w.Root != "" {
		return false
	}
	_, err := files.Lstat(filepath.Join(w.Config[0], repository.Name))

	return err == nil
}

// Machines returns the machines of the repository, unless a machine was given.
func (w *Where) Machines() ([]string, error) {
	if w.From != "" || w.Hardware != "" || w.Root != "" {
		return nil, nil
	}
	found, diags := w.Repository.Machines()
	if diags.HasErrors() {
		return nil, explainRepository(w.Repository, diags)
	}

	return found, nil
}

// explainRepository returns the errors of the file of a repository.
func explainRepository(f repository.File, diags hcl.Diagnostics) error {
	return &Explained{
		Err:      origin.Code(diags).Errorf("%s has errors", f.Path),
		Messages: diags,
		Sources:  map[string][]byte{f.Path: f.Source},
	}
}

// On returns the same for one of several machines.
func (w Where) On(machine string) Where {
	if repository.IsRecording(machine) {
		w.From = machine
	} else {
		w.Hardware = machine
	}

	return w
}

// Check refuses flags that exclude each other, and missing paths. It makes Root absolute.
func (w *Where) Check() error {
	if w.From != "" && (w.Root != "" || w.Hardware != "") {
		return fault.Usage.Errorf(
			"--from excludes --root and --hardware: a recording is of one machine, with its files",
		)
	}

	for _, v := range w.Variables {
		if strings.Index(v, "=") < 1 {
			return fault.Usage.Errorf("--var %s: write NAME=VALUE", v)
		}
	}

	if w.KubeletVersion != "" {
		if err := known.CheckVersion(w.KubeletVersion); err != nil {
			return fault.Usage.Errorf("--kubelet-version %s: %s", w.KubeletVersion, err)
		}
	}
	if err := w.openKubelets(); err != nil {
		return err
	}
	for _, path := range w.Config { // links in it are checked when they are read
		if _, err := nodefile.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			next := nodefile.SuggestBeside(path)
			if strings.Contains(path, ",") {
				next = "; give the flag for each: --config A --config B"
			}
			return fault.Usage.Errorf("%s: no such file or folder%s", path, next)
		}
	}
	err := cmp.Or(
		CheckFolder("--root", w.Root),
		CheckFolder("--objects", w.Objects),
		CheckFolder("--hardware", w.Hardware),
	)
	if err != nil || w.Root == "" {
		return err
	}

	abs, err := filepath.Abs(w.Root)
	if err != nil {
		return fault.Usage.Errorf("--root %s: %s", w.Root, err)
	}
	w.Root = abs

	return nil
}

// openKubelets starts the binaries of Kubelets for their versions.
func (w *Where) openKubelets() error {
	if len(w.Kubelets) == 0 || w.Binaries != nil {
		return nil
	}
	if w.KubeletVersion != "" {
		return fault.Usage.Errorf("--kubelet excludes --kubelet-version: the program reports its version itself")
	}

	if len(w.Kubelets) > 1 && !w.TakesKubelets {
		return fault.Usage.Errorf("--kubelet: one program at a time; prelet upgrade compares several")
	}

	w.Binaries = map[string]*kubeletbin.Binary{}
	for _, file := range w.Kubelets {
		b, err := kubeletbin.At(file)
		if err != nil {
			return userfile.Failure("--kubelet ", file, "no such program", err)
		}
		version, err := b.Version(context.Background(), true)
		switch {
		case errors.Is(err, kubeletbin.ErrNoVersion) && !w.TakesKubelets:
			version, err = "v", nil // that of the node stays
		}
		if err != nil {
			return fault.Usage.Errorf("--kubelet %s: %s", file, err)
		}
		if other := w.Binaries[version]; other != nil {
			return fault.Usage.Errorf("--kubelet %s: this is %s, as %s is", file, version, other.Path())
		}
		w.Binaries[version] = b
		w.KubeletVersion = strings.TrimPrefix(version, "v")
	}

	return nil
}

// TakeKubelet takes the kubelet that was found below Root, unless another one is named.
func (w *Where) TakeKubelet(found kubeletbin.Examined) {
	if w.KubeletVersion == "" && known.CheckVersion(found.Version) == nil {
		w.KubeletVersion = strings.TrimPrefix(found.Version, "v")
		w.Binaries = map[string]*kubeletbin.Binary{found.Version: found.Binary}
	}
}

// CheckFolder refuses the value of a flag unless it is "" or a folder. The one of --hardware has a recorded machine; it
// may also be a file with facts.
func CheckFolder(flag, path string) error {
	if path == "" {
		return nil
	}
	missing := "no such folder"
	isHardware := flag == "--hardware"
	if isHardware {
		missing += " or file"
	}

	st, err := nodefile.Stat(path)
	switch {
	case err != nil:
		return userfile.Failure(flag+" ", path, missing, err)
	case !st.IsDir() && !isHardware:
		next := "mount an image, and name the folder"
		if flag == "--objects" {
			next = "name the folder that has ca.crt, and NAMESPACE/NAME.yaml for each ConfigMap"
		}
		return fault.Usage.Errorf("%s %s: this is a file: %s", flag, path, next)
	case st.IsDir() && isHardware:
		if _, err := nodefile.Stat(filepath.Join(path, "sys")); err != nil {
			return fault.Usage.Errorf("--hardware %s: this is not a recorded machine: it has no folder sys", path)
		}
	case isHardware:
		switch kind := userfile.Kind(path); kind {
		case "":
		case filekind.Recording:
			return fault.Usage.Errorf("--hardware %[1]s: this is %[2]s: use --from %[1]s", path, kind)
		default:
			return fault.Usage.Errorf("--hardware %s: it is %s, and not a recorded machine: a folder with proc and "+
				"sys, or the output of prelet detect -o json", path, kind)
		}
	}

	return nil
}

// Given is what a command was given, checked and read once, for one node or for many. The steps after it use nothing
// else: the layers of the site, variables, the world (OpenWorld), and the plan.
type Given struct {
	Where
	Values  map[string]probe.Given // of the command line, by name
	Loaded  *LoadedSite            // nil: the site in each recording
	IsOlder bool                   // to compare with: the newer site may declare more variables
	Test    *rehearsal.Source      // what a test puts in place of answers; nil outside of tests

	isRehearsed bool // this machine answers no question, as in a test

	mu       sync.Mutex
	recorded map[string]func() *LoadedSite // sites of recordings, by their files
}

// Read checks what a command was given, and reads its variables and its site.
func (e *Env) Read(w Where) (*Given, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}

	g := &Given{Where: w, Values: map[string]probe.Given{}}
	for _, path := range w.VarFiles {
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
	for _, v := range w.Variables {
		name, value, _ := strings.Cut(v, "=")
		g.Values[name] = probe.Given{Text: value, Source: "--var"}
	}
	if len(w.Config) > 0 || w.From == "" {
		g.Loaded = e.Load(w, nil)
	}

	return g, nil
}

// At returns what was given for one machine, or for that of --hardware in a repository: a recording answers for itself,
// and recorded hardware with the objects and the first kubelet of the repository, where none were given.
func (g *Given) At(machine string) *Given {
	if machine == "" && g.Repository.Path != "" {
		machine = g.Hardware
	}
	if machine == "" || machine == g.From || repository.IsRecording(machine) { // --from takes any name
		return g
	}

	out := &Given{
		Where: g.Where, Values: g.Values, Loaded: g.Loaded, IsOlder: g.IsOlder, Test: g.Test, isRehearsed: true,
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

// StateDir returns prelet's own folder.
func (w *Where) StateDir() string { return filepath.Join("/", w.Root, StateFolder) }

// ReadRecording reads a recording, or the one in a bundle; nil for "", which is this machine.
func ReadRecording(path string) (*world.Recording, error) {
	if path == "" {
		return nil, nil
	}

	r, err := bundle.ReadRecording(path)
	switch {
	case os.IsNotExist(err):
		return nil, fault.RecordingInvalid.Errorf("--from %s: no such recording%s", path, nodefile.SuggestBeside(path))
	case err != nil:
		if kind := userfile.Kind(path); kind != "" && kind != filekind.Recording && kind != filekind.Compressed {
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
		if filekind.IsRecording(name) {
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
func ListMachines(w Where) ([]string, error) {
	if recordings, err := ListRecordings(w.From); err != nil || recordings != nil {
		return recordings, err
	}

	return w.Machines()
}
