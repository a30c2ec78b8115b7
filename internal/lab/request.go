package lab

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/repository"
	"github.com/prelet/prelet/internal/lab/userfile"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/probe/kubeletbin"
	"github.com/prelet/prelet/internal/model/kubelet/known"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Request selects the node and the site of a command, and the replacements for parts of them.
type Request struct {
	machine.Where
	From     string   // a recording that answers all questions that the other fields do not
	VarFiles []string // vars files outside of the site; later ones win, and Variables win over them

	KubeletVersion string   // in place of the installed kubelet's; "" is that one
	Kubelets       []string // binaries of this machine in place of the installed one; upgrade takes several

	Runtime string // containerd's program in place of the installed one; "" is that one

	Registry      Registry                      // how references in Config are resolved
	References    []string                      // of the sites that were pulled, with their digests
	Repository    repository.File               // defaults of the fields above, for commands that read it
	Binaries      map[string]*kubeletbin.Binary // those of Kubelets, by version
	TakesKubelets bool                          // more than one
	runtime       *kubeletbin.Binary            // that of Runtime

	pulled pulledSites // of the references that Config had
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
func (r *Request) UseRepository(e *machine.Env, files lang.Files) error {
	folder := "."
	isNamed := r.namesRepository(files)
	if isNamed {
		folder = r.Config[0]
	}
	found, diags := repository.Find(files, folder)
	switch {
	case found.Path == "" && len(r.Config) == 0:
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
	case r.Root != "":
		if len(r.Config) == 0 {
			e.Say(found.Path + " is not used: --root names a node, which has its own site; --config names another one")
		}
		return nil
	case diags.HasErrors():
		_, more := found.Machines() // all mistakes at once
		return explainRepository(found, append(diags, more...))
	}

	e.Say("using " + found.Path)
	r.Repository = found
	if len(r.Config) == 0 || isNamed && len(found.Layers) > 0 {
		r.Config = found.Layers
	}

	return nil
}

// UseOwnRepository is UseRepository for the folder that is given as the site only.
func (r *Request) UseOwnRepository(e *machine.Env, files lang.Files) error {
	if !r.namesRepository(files) {
		return nil
	}

	return r.UseRepository(e, files)
}

// namesRepository reports whether the site that is given is a folder with the file of a repository.
func (r *Request) namesRepository(files lang.Files) bool {
	if len(r.Config) != 1 || r.Root != "" {
		return false
	}
	_, err := files.Lstat(filepath.Join(r.Config[0], repository.Name))

	return err == nil
}

// Machines returns the machines of the repository, unless a machine was given.
func (r *Request) Machines() ([]string, error) {
	if r.From != "" || r.Hardware != "" || r.Root != "" {
		return nil, nil
	}
	found, diags := r.Repository.Machines()
	if diags.HasErrors() {
		return nil, explainRepository(r.Repository, diags)
	}

	return found, nil
}

func explainRepository(f repository.File, diags hcl.Diagnostics) error {
	return &Explained{
		Err:      origin.Code(diags).Errorf("%s has errors", f.Path),
		Messages: diags,
		Sources:  map[string][]byte{f.Path: f.Source},
	}
}

// On returns the request for one of several machines.
func (r Request) On(machine string) Request {
	if repository.IsRecording(machine) {
		r.From = machine
	} else {
		r.Hardware = machine
	}

	return r
}

// Check refuses flags that exclude each other, and missing paths. It makes Root absolute.
func (r *Request) Check() error {
	if r.From != "" && (r.Root != "" || r.Hardware != "") {
		return fault.Usage.Errorf(
			"--from excludes --root and --hardware: a recording is of one machine, with its files",
		)
	}

	for _, v := range r.Variables {
		if strings.Index(v, "=") < 1 {
			return fault.Usage.Errorf("--var %s: write NAME=VALUE", v)
		}
	}

	if r.KubeletVersion != "" {
		if err := known.CheckVersion(r.KubeletVersion); err != nil {
			return fault.Usage.Errorf("--kubelet-version %s: %s", r.KubeletVersion, err)
		}
	}
	if err := r.openKubelets(); err != nil {
		return err
	}
	if r.Runtime != "" {
		var err error
		if r.runtime, err = kubeletbin.At(r.Runtime); err != nil {
			return nodefile.NamedFailure("--runtime ", r.Runtime, "no such program", err)
		}
	}
	for _, path := range r.Config { // links in it are checked when they are read
		if r.IsPulled(path) {
			continue
		}
		if _, err := nodefile.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			next := nodefile.SuggestBeside(path)
			if strings.Contains(path, ",") {
				next = "; give the flag for each: --config A --config B"
			}
			return fault.Usage.Errorf("%s: no such file or folder%s", path, next)
		}
	}
	if err := r.UseRoot(); err != nil {
		return err
	}

	return cmp.Or(
		CheckObjects("--objects", r.Objects),
		CheckHardware("--hardware", r.Hardware),
	)
}

// openKubelets starts the binaries of Kubelets for their versions.
func (r *Request) openKubelets() error {
	if len(r.Kubelets) == 0 || r.Binaries != nil {
		return nil
	}
	if r.KubeletVersion != "" {
		return fault.Usage.Errorf("--kubelet excludes --kubelet-version: the program reports its version itself")
	}

	if len(r.Kubelets) > 1 && !r.TakesKubelets {
		return fault.Usage.Errorf("--kubelet: one program at a time; prelet upgrade compares several")
	}

	r.Binaries = map[string]*kubeletbin.Binary{}
	for _, file := range r.Kubelets {
		b, err := kubeletbin.At(file)
		if err != nil {
			return nodefile.NamedFailure("--kubelet ", file, "no such program", err)
		}
		version, err := b.Version(context.Background(), true)
		switch {
		case errors.Is(err, kubeletbin.ErrNoVersion) && !r.TakesKubelets:
			version, err = "v", nil // that of the node stays
		}
		if err != nil {
			return fault.Usage.Errorf("--kubelet %s: %s", file, err)
		}
		if other := r.Binaries[version]; other != nil {
			return fault.Usage.Errorf("--kubelet %s: this is %s, as %s is", file, version, other.Path())
		}
		r.Binaries[version] = b
		r.KubeletVersion = strings.TrimPrefix(version, "v")
	}

	return nil
}

// TakeKubelet takes the kubelet that was found below Root, unless another one is named.
func (r *Request) TakeKubelet(found kubeletbin.Examined) {
	if r.KubeletVersion == "" && known.CheckVersion(found.Version) == nil {
		r.KubeletVersion = strings.TrimPrefix(found.Version, "v")
		r.Binaries = map[string]*kubeletbin.Binary{found.Version: found.Binary}
	}
}

// CheckObjects refuses the value of a flag unless it is "" or a folder.
func CheckObjects(flag, path string) error {
	return machine.CheckFolder(flag, path,
		"name the folder that has ca.crt, and NAMESPACE/NAME.yaml for each ConfigMap")
}

// CheckHardware refuses the value of a flag unless it is "", a folder with a recorded machine, or a file that may have
// facts.
func CheckHardware(flag, path string) error {
	if path == "" {
		return nil
	}

	st, err := nodefile.Stat(path)
	switch {
	case err != nil:
		return nodefile.NamedFailure(flag+" ", path, "no such folder or file", err)
	case st.IsDir():
		if _, err := nodefile.Stat(filepath.Join(path, "sys")); err != nil {
			return fault.Usage.Errorf("%s %s: this is not a recorded machine: it has no folder sys; "+
				"a file of facts is named itself: %[1]s %[3]s", flag, path, filepath.Join(path, "NAME.json"))
		}

		return nil
	}

	switch kind := userfile.Kind(path); kind {
	case "":
		return checkFacts(path)
	case texts.KindRecording:
		return fault.Usage.Errorf("%s %s: this is %s: use --from %[2]s", flag, path, kind)
	default:
		return fault.Usage.Errorf("%s %s: it is %s, and not a recorded machine: a folder with proc and sys, "+
			"or the output of prelet detect -o json", flag, path, kind)
	}
}
