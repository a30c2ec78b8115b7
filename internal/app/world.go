package app

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"

	"github.com/prelet/prelet/internal/app/dryrun"
	"github.com/prelet/prelet/internal/app/rehearsal"
	"github.com/prelet/prelet/internal/app/unitflags"
	"github.com/prelet/prelet/internal/app/waits"
	"github.com/prelet/prelet/internal/boot/hostfiles"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/probe"
	"github.com/prelet/prelet/internal/probe/kubeletbin"
)

// rehearse puts the values of flags in place of answers of the recording, and those about the kubelet in place of this
// machine's, which has the others.
func (n *Node) rehearse() {
	binaries := dryrun.AskBinaries(n.Binaries, n.env.Redactor.String)
	n.asked = cmp.Or(n.Test, &rehearsal.Source{})
	n.asked.Recording = n.Source
	n.asked.Site = n.Site
	n.asked.Kubelet = n.KubeletVersion
	n.asked.Binaries = binaries
	if n.Test != nil && n.Recorded != nil {
		n.asked.Without.Recorded = n.Recorded.Entries
	}
	if n.Recorded != nil || n.isRehearsed {
		n.asked.Given = n.Values
		if n.Objects != "" && n.Recorded != nil {
			n.asked.Objects = probe.Objects(n.Objects)
		}
	} else if len(n.Binaries) > 0 && n.isHere && os.Geteuid() == 0 {
		unit := unitflags.KubeletUnit{Root: nodefile.Root(n.Root), Name: hostfiles.KubeletUnit(n.Site)}
		if _, err := unit.Read(); err == nil { // it has the kubelet's command line
			for _, a := range binaries {
				a.Root = unit.Root
				a.Secret = n.Secret
				a.Folder = folderForDryRuns()
			}
		}
	}
	maps.Copy(n.askers, binaries)
	n.Source = n.asked
}

// openRehearsed opens recorded hardware as the source of answers, with no files, as a test does.
func (n *Node) openRehearsed() {
	n.rehearsed = probe.New(probe.Sources{
		Root:     n.Root,
		Hardware: n.Hardware,
		Site:     n.Site,
		Redactor: n.env.Redactor,
		Now:      rehearsal.TimeOfRoot,
	})
	objects := rehearsal.SampleObjects()
	switch {
	case n.Test != nil && n.Test.Objects != nil:
		objects, n.Test.Objects = n.Test.Objects, nil
	case n.Objects != "":
		objects = probe.Objects(n.Objects)
	}
	locks := n.Where
	locks.Root = rehearsal.NoRoot
	n.Source = rehearsal.HermeticNode{
		Node:    n.rehearsed,
		Objects: objects,
		Locks:   n.env.DetectorHost(locks),
		Site:    n.Site,
	}
}

// openLive opens this machine as the source of answers.
func (n *Node) openLive() {
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
		Variables:   n.Values,
		Redactor:    e.Redactor,
		Credentials: e.Credentials(n.Where),
		Store:       n.Store,
		StateDir:    n.StateDir(),
		Detectors:   n.Detectors,
		Unit:        hostfiles.KubeletUnit(n.Site),
		OnRetry:     n.waits.Retry,
		WaitClock:   n.waits.AnnounceClock(systemd.WaitClock),
	}
	if a := n.newAsker(); a != nil {
		n.Asker = a
		n.askers[""] = a
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
	if n.Store != nil {
		n.past = n.Live.LastGood
	}
}

// newAsker returns what asks the kubelet's binary of this machine, as root, whether it accepts a plan, or that of an
// image; nil for a recorded machine. At a first boot there is nothing to lose, and the start of the kubelet is the
// answer.
func (n *Node) newAsker() *dryrun.Asker {
	binary := func() *kubeletbin.Binary { return n.Live.KubeletBinary() }
	if isImage := n.Root != "" && n.Hardware == "" && n.env.On == nil; isImage {
		if n.KubeletVersion != "" || !kubeletbin.MayStart(n.Root) {
			return nil
		}
		return &dryrun.Asker{Binary: binary, Run: kubeletbin.DryRun.Run, Redact: n.env.Redactor.String, IsImage: true}
	}

	run := dryrun.Run(kubeletbin.DryRun.Run)
	if n.env.On != nil {
		run = n.env.On.DryRun
	}
	if !n.isHere || n.KubeletVersion != "" || os.Geteuid() != 0 {
		return nil
	}
	if n.IsRun && n.Generation() == 0 {
		run = nil
	}

	folder := folderForDryRuns()
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
func (e *Env) Credentials(w Where) systemd.Credentials {
	own := systemd.NewCredentials(e.Getenv)

	isNode := w.Root == "" && w.Hardware == "" && e.On == nil && systemd.IsRunning()
	if !isNode {
		return own
	}

	switch unit := systemd.OwnUnit(); unit {
	case VerifyUnit:
		return own
	case BootUnit, ApplyUnit:
		return own.InUnit(unit)
	default:
		return own.OfUnit(ApplyUnit, BootUnit)
	}
}

// folderForDryRuns returns where root makes the private folders of dry runs, which may have secrets: in memory.
func folderForDryRuns() string {
	for _, dir := range []string{RunDir, filepath.Dir(RunDir)} {
		if st, err := nodefile.Stat(dir); err == nil && st.IsDir() {
			return dir
		}
	}

	return ""
}
