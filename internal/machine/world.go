package machine

import (
	"os"
	"path/filepath"

	"github.com/prelet/prelet/internal/machine/dryrun"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/machine/probe/kubeletbin"
	"github.com/prelet/prelet/internal/machine/waits"
	"github.com/prelet/prelet/internal/plan/hostfiles"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// OpenLive opens this machine as the source of answers, with the values of variables that were given. Asks: the
// installed kubelet judges the plan.
func (n *Node) OpenLive(values map[string]probe.Given, asks bool) {
	e := n.env
	if n.Store == nil {
		n.Store, _ = generation.OpenReadOnly(generation.StoreConfig{Root: n.Root, Dir: n.StateDir()})
	}
	n.waits = &waits.Reporter{Say: e.sayWait}
	if e.Progress != nil {
		n.waits.Reason = e.Progress.Reason
	}
	n.Detectors = e.DetectorHost(n.Where)
	options := probe.Sources{
		Root:        n.Root,
		Hardware:    n.Hardware,
		Objects:     n.Objects,
		Site:        n.Site,
		Variables:   values,
		Redactor:    e.Redactor,
		Credentials: e.Credentials(n.Where),
		Store:       n.Store,
		StateDir:    n.StateDir(),
		Detectors:   n.Detectors,
		Unit:        hostfiles.KubeletUnit(n.Site),
		OnRetry:     n.waits.Retry,
		WaitClock:   n.waits.AnnounceClock(systemd.WaitClock),
	}
	a := n.newAsker()
	if a != nil {
		n.Runtime = &dryrun.RuntimeAsker{
			Root: nodefile.Root(n.Root), Secret: a.Secret, Redactor: e.Redactor, Folder: a.Folder,
		}
	}
	if asks && a != nil {
		n.Askers[""] = a
		options.DryRun = a.Answer
	}
	switch {
	case e.On == nil && systemd.IsRunning():
		n.units = systemd.NewConn()
		options.Units = n.units
		options.InhibitDelay = systemd.InhibitDelay
	case e.On != nil && e.On.Systemd:
		options.Units = e.On.Units
	}

	n.Live = probe.New(options)
	n.Source = e.showQuestions(n.Live)
	if n.Found.HasErrors() { // what they show of the site may be a copy of a credential
		n.Live.LearnSecrets()
	}
}

// newAsker returns the asker of the kubelet's binary of this machine, as root, whether it accepts a plan, or that of an
// image; nil for a recorded machine.
func (n *Node) newAsker() *dryrun.Asker {
	binary := func() *kubeletbin.Binary { return n.Live.KubeletBinary() }
	if isImage := n.Root != "" && n.Hardware == "" && n.env.On == nil; isImage {
		if !kubeletbin.MayStart(n.Root) {
			return nil
		}
		return &dryrun.Asker{Binary: binary, Run: kubeletbin.DryRun.Run, Redact: n.env.Redactor.String, IsImage: true}
	}

	run := dryrun.Run(kubeletbin.DryRun.Run)
	if n.env.On != nil {
		run = n.env.On.DryRun
	}
	if run == nil || !n.IsHere() || os.Geteuid() != 0 {
		return nil
	}

	folder := FolderForDryRuns()
	kubeletbin.RemoveLeft(folder) // also if nothing is asked

	return &dryrun.Asker{
		Binary: binary,
		Run:    run,
		IsRun:  n.IsRun,
		Root:   nodefile.Root(n.Root),
		Secret: n.Secret,
		Redact: n.env.Redactor.String,
		Folder: folder,
	}
}

// Credentials returns the credentials of this process. By hand on a node they are those that a run would get: systemd
// gives them to prelet's units only.
func (e *Env) Credentials(w Where) systemd.Credentials { return e.credentialsOf(w, ApplyUnit) }

// SiteCredentials is Credentials for prelet site update: by hand they are those of prelet-site.service.
func (e *Env) SiteCredentials(w Where) systemd.Credentials { return e.credentialsOf(w, SiteUnit) }

// credentialsOf returns the credentials of this process, by hand on a node those of a unit.
func (e *Env) credentialsOf(w Where, byHand string) systemd.Credentials {
	own := systemd.NewCredentials(e.Getenv)

	isNode := w.Root == "" && w.Hardware == "" && e.On == nil && systemd.IsRunning()
	if !isNode {
		return own
	}

	switch unit := systemd.OwnUnit(); unit {
	case VerifyUnit:
		return own
	case BootUnit, ApplyUnit, SiteUnit:
		return own.InUnit(unit)
	default:
		return own.OfUnit(byHand, BootUnit)
	}
}

// FolderForDryRuns returns where root makes the private folders of dry runs, which may have secrets: in memory.
func FolderForDryRuns() string {
	for _, dir := range []string{RunDir, filepath.Dir(RunDir)} {
		if st, err := nodefile.Stat(dir); err == nil && st.IsDir() {
			return dir
		}
	}

	return ""
}
