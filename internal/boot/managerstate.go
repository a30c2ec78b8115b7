package boot

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/prelet/prelet/internal/boot/effective"
	"github.com/prelet/prelet/internal/boot/hostfiles"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// observeStates returns the states of the kubelet's managers with which the planned kubelet would not start: made
// by another policy, with other values that the state depends on, or on a machine that had other memory or other
// CPUs, or garbled. Such a state is removed in the commit, and the kubelet makes a new one. A reboot may bring
// another machine: the firmware and the kernel reserve a little more or less (kubernetes#131253), a DIMM or a CPU is
// gone.
//
// Without an answer (facts that could not be read, a recording that was never asked) it keeps a state, unless the
// configuration changes.
func (in observation) observeStates(ctx context.Context, o Observed) (out []observedFile) {
	at := in.findConfig(o.files)
	if in.node.Effective == nil || at >= 0 && o.files[at].failure != nil {
		return nil // the configuration is not known
	}

	change := in.compareConfig(o.files, at)
	if at >= 0 && o.files[at].File.Purpose != "kubelet-config" {
		in.node.Effective = change.Planned()
	}
	change.Effective = in.node.Effective
	change.IsPartly = in.node.Inherited.Partly
	for _, m := range kubelet.ManagerStates() {
		isOwn := func(f node.Flag) bool {
			return !f.Assumed && f.Name == m.Flag
		}
		if !change.IsKnown && !slices.ContainsFunc(in.node.Flags, isOwn) {
			continue // its policy is in a configuration that this plan does not write
		}
		if in.previous != nil && slices.Contains(in.previous.Files, m.Path) {
			continue
		}

		f := node.File{Path: m.Path, Kind: node.Missing, Purpose: "state"}
		s := in.observeFile(ctx, f, world.TargetReq{Path: m.Path})
		s.Action = "delete"
		if s.failure == nil && s.Old.Exists {
			s.Why, s.Outdated = change.RefuseState(m, s.Old, func() *world.Facts { return in.readFacts(ctx) })
			if s.Why != "" {
				s.Why += ", so the kubelet refuses to start with it"
				out = append(out, s)
			}
		}
	}

	return out
}

// readFacts returns the machine's facts, also for a site without detect-hw; nil if they could not be read.
func (in observation) readFacts(ctx context.Context) *world.Facts {
	if in.basis.Facts != nil {
		return in.basis.Facts
	}
	f, _, err := world.Hardware.Ask(ctx, in.tape, world.HardwareReq{})
	if err != nil {
		return nil
	}

	return &f
}

// findConfig returns the index of the kubelet's configuration: the rendered file, or a block `file` at the path
// that the kubelet reads; -1 if there is none, or if its text is not known.
func (in observation) findConfig(files []observedFile) int {
	at := slices.IndexFunc(files, func(s observedFile) bool {
		return s.File.Purpose == "kubelet-config"
	})
	flag, _ := node.FindFlag(in.node.Flags, "config")
	named := cmp.Or(flag.Value, in.node.Inherited.ConfigFile)
	place := cmp.Or(named, kubelet.KubeadmDeb().ConfigFile)
	isAnyPath := in.node.DropIn != "" || named == ""
	if at >= 0 && (isAnyPath || files[at].File.Path == place) {
		return at
	}

	return slices.IndexFunc(files, func(s observedFile) bool {
		isKept := s.File.CreateOnly && s.Old.Exists
		if s.File.Path != place || s.File.Kind != node.Regular || s.Old.Private || isKept {
			return false
		}
		_, err := kubelet.ParseConfig(s.File.Text.Template())

		return err == nil && len(s.File.Text.Secrets()) == 0
	})
}

// compareConfig compares the configuration of the files in place with that of the planned files. at is the index of
// the kubelet's configuration, -1 for none.
func (in observation) compareConfig(files []observedFile, at int) hostfiles.ConfigChange {
	plannedText := func(s observedFile) string {
		return s.File.Text.Template()
	}
	oldText := func(s observedFile) string {
		if s.Old.Private { // then only the state itself shows its policy
			return plannedText(s)
		}
		return s.Old.Text
	}

	config := ""
	change := hostfiles.ConfigChange{IsKnown: at >= 0}
	if at >= 0 {
		config = files[at].File.Path
		change.IsNew = in.node.DropIn == "" && !files[at].Old.Exists
	}
	change.IsUnchanged = !slices.ContainsFunc(files, func(s observedFile) bool {
		return s.failure != nil || s.Changes()
	})
	change.Old = sync.OnceValue(func() map[string]any {
		return in.computeEffective(files, config, oldText)
	})
	change.Planned = sync.OnceValue(func() map[string]any {
		return in.computeEffective(files, config, plannedText)
	})

	return change
}

// computeEffective returns the configuration that the kubelet works with if files have these texts. config is the path
// of its configuration.
func (in observation) computeEffective(
	files []observedFile, config string, text func(observedFile) string,
) map[string]any {
	own := map[string]any{}
	n := in.node
	n.Flags = nil
	n.Config = in.basis.Base.Config
	for _, s := range files {
		switch {
		case s.File.Path == config && n.DropIn == "":
			n.Config = parseConfig(text(s))
		case s.File.Purpose == "kubelet-config":
			own = parseConfig(text(s))
		case s.File.Purpose == "kubelet-flags":
			n.Flags = parseFlags(text(s))
		}
	}

	return effective.Compute(in.basis, n, own)
}

// parseFlags returns the flags in all variables of an environment file.
func parseFlags(text string) (out []node.Flag) {
	env, err := kubelet.ParseEnvFile(text)
	if err != nil {
		return nil
	}

	for _, variable := range env.Names() {
		flags, _ := env.Get(variable)
		for _, name := range flags.Names() {
			value, _ := flags.Lookup(name)
			out = append(out, node.Flag{Name: name, Value: value})
		}
	}

	return out
}

// parseConfig returns a KubeletConfiguration as an object; empty if the text is not a configuration.
func parseConfig(text string) map[string]any {
	c, err := kubelet.ParseConfig(text)
	if err != nil {
		return map[string]any{}
	}

	return c.Object()
}
