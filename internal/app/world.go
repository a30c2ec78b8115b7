package app

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/prelet/prelet/internal/app/dryrun"
	"github.com/prelet/prelet/internal/app/rehearsal"
	"github.com/prelet/prelet/internal/app/unitflags"
	"github.com/prelet/prelet/internal/app/waits"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/detector"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/probe"
	"github.com/prelet/prelet/internal/probe/kubeletbin"
	"github.com/prelet/prelet/internal/world"
)

// rehearse puts the values of flags in place of answers of the recording.
func (n *Node) rehearse() {
	n.asked = &rehearsal.Source{
		Recording: n.Source,
		Site:      n.Site,
		Given:     n.Values,
		Kubelet:   n.KubeletVersion,
	}
	n.asked.Binaries, n.askers = n.AskBinaries(n.env)
	if n.Objects != "" {
		n.asked.Objects = probe.Objects(n.Objects)
	}
	n.Source = n.asked
}

// openLive opens this machine as the source of answers.
func (n *Node) openLive() {
	e := n.env
	if n.Store == nil {
		n.Store, _ = generation.OpenReadOnly(generation.StoreConfig{Root: n.Root, Dir: n.StateDir()})
	}
	n.waits = &waits.Reporter{Say: e.Say}
	n.detectors = e.DetectorHost(n.Where)
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
		Detectors:   n.detectors,
		Unit:        boot.KubeletUnit(n.Site),
		OnRetry:     n.waits.Retry,
		WaitClock:   n.waits.AnnounceClock(systemd.WaitClock),
	}
	if a := n.newAsker(); a != nil {
		n.Asker = a
		n.askers = append(n.askers, a)
		options.DryRun = a.Answer
	}
	if m := e.manager(); m != nil {
		options.Units = m
		if e.On == nil {
			n.units = m
			options.InhibitDelay = systemd.InhibitDelay
		}
	}

	n.Live = probe.New(options)
	n.Source = n.Live
	if n.KubeletVersion != "" || len(n.Binaries) > 0 {
		n.asked = &rehearsal.Source{
			Recording: n.Live,
			Site:      n.Site,
			Kubelet:   n.KubeletVersion,
		}
		answers, all := n.AskBinaries(e)
		if n.knowsUnit() {
			for _, a := range all {
				a.Root = nodefile.Root(n.Root)
				a.Secret = n.Secret
				a.Folder = folderForDryRuns()
			}
		}
		n.asked.Binaries = answers
		n.askers = append(n.askers, all...)
		n.Source = n.asked
	}
	if n.Store != nil {
		n.past = n.Live.LastGood
	}
}

// knowsUnit reports whether the kubelet's command line can be read in the files of its unit: on this machine, as root.
func (n *Node) knowsUnit() bool {
	if len(n.Binaries) == 0 || !n.isHere() || os.Geteuid() != 0 {
		return false
	}
	_, _, err := unitflags.Unit{Root: nodefile.Root(n.Root), Name: boot.KubeletUnit(n.Site)}.ListWords()

	return err == nil
}

// isHere reports whether the node is this machine.
func (n *Node) isHere() bool { return n.Root == "" && n.Hardware == "" || n.env.On != nil }

// askers ask kubelets' binaries about a plan; none: no binary is asked.
type askers []*dryrun.Asker

// Finish gives all the kubelet of a plan.
func (all askers) Finish(k boot.FinishedKubelet) {
	for _, a := range all {
		a.Finish(k)
	}
}

// WereAsked reports whether one of them was asked.
func (all askers) WereAsked() bool {
	return slices.ContainsFunc(all, (*dryrun.Asker).WasAsked)
}

// AskBinaries returns what answers for the binaries of Kubelets, by version. They know of the node what the plan does.
func (w *Where) AskBinaries(e *Env) (answers map[string]world.Source, all askers) {
	answers = map[string]world.Source{}
	for version, binary := range w.Binaries {
		asker := &dryrun.Asker{
			Binary: func() *kubeletbin.Binary { return binary },
			Run:    kubeletbin.DryRun.Run,
			Redact: e.Redactor.String,
		}
		all = append(all, asker)
		answers[version] = world.Adapters{
			world.DryRun.Adapt(asker.Answer),
			world.Accepts.Adapt(func(ctx context.Context, _ world.AcceptsReq) world.Answer {
				return probe.AnswerAccepts(ctx, binary, true)
			}),
		}
	}

	return answers, all
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
	if !n.isHere() || n.KubeletVersion != "" || os.Geteuid() != 0 {
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
	if !isNode || isPreletUnit(systemd.OwnUnit()) {
		return own
	}

	return own.OfUnit(ApplyUnit, BootUnit)
}

// manager returns systemd of the machine that commands work on; nil where there is none.
func (e *Env) manager() Manager {
	switch {
	case e.On == nil && systemd.IsRunning():
		return systemd.NewConn()
	case e.On != nil && e.On.Systemd:
		return e.On.Units
	}

	return nil
}

// folderForDryRuns returns where root makes the private folders of dry runs, which may have secrets: in memory.
func folderForDryRuns() string {
	for _, dir := range []string{RunDir, filepath.Dir(RunDir)} {
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			return dir
		}
	}

	return ""
}

// NewProbe returns what answers questions about the hardware and the credentials of a node.
func (e *Env) NewProbe(w Where, s *lang.Site, host *detector.Host) *probe.Live {
	return probe.New(probe.Sources{
		Hardware:    w.Hardware,
		Root:        w.Root,
		Site:        s,
		Redactor:    e.Redactor,
		Credentials: e.Credentials(w),
		Detectors:   host,
	})
}

// LearnCredentials adds the credentials of the node to the redactor.
func (e *Env) LearnCredentials(w Where, site *lang.Site) {
	live := e.NewProbe(w, site, nil)
	defer live.Close()
	live.LearnSecrets()
}
