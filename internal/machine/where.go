package machine

import (
	"path/filepath"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Where is a node with its site, and what answers in place of the machine and the cluster.
type Where struct {
	Config    []string // files and folders in place of /etc/prelet and its like
	Root      string   // files and targets are below it; "" is /
	Hardware  string   // a recorded machine: a tree, or facts
	Objects   string   // a folder in place of the cluster, or of the objects of a recording
	Variables []string // NAME=VALUE

	Takeover      bool       // join under the name of another machine
	AcceptMissing bool       // do not keep the values that variables had in the last good generation
	MustBeSigned  bool       // also if Config names the site's files
	IsRun         bool       // the kubelet's binary is not asked again if nothing has changed
	IsPast        bool       // see lang.LoadOptions
	Files         lang.Files // where Config is read, without a signature; nil: on this machine
}

// StateDir returns the path of prelet's own folder, below Root.
func (w *Where) StateDir() string { return filepath.Join("/", w.Root, StateFolder) }

// ToMount is the next step in a message about a file in place of a root.
const ToMount = "mount an image, and name the folder"

// UseRoot makes Root absolute. It refuses anything but a folder.
func (w *Where) UseRoot() error {
	if err := CheckFolder("--root", w.Root, ToMount); err != nil || w.Root == "" {
		return err
	}

	abs, err := filepath.Abs(w.Root)
	if err != nil {
		return fault.Usage.Errorf("--root %s: %s", w.Root, err)
	}
	w.Root = abs

	return nil
}

// CheckFolder refuses the value of a flag unless it is "" or a folder. next is what to do where it is a file.
func CheckFolder(flag, path, next string) error {
	if path == "" {
		return nil
	}

	st, err := nodefile.Stat(path)
	if err != nil {
		return nodefile.NamedFailure(flag+" ", path, "no such folder", err)
	}
	if !st.IsDir() {
		return fault.Usage.Errorf("%s %s: this is a file: %s", flag, path, next)
	}

	return nil
}

// ReadVariables returns the values of Variables, by name.
func (w *Where) ReadVariables() map[string]probe.Given {
	out := map[string]probe.Given{}
	for _, v := range w.Variables {
		name, value, _ := strings.Cut(v, "=")
		out[name] = probe.Given{Text: value, Source: "--var"}
	}

	return out
}
