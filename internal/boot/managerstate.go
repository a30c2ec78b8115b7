package boot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/prelet/prelet/internal/boot/hostfiles"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// configChange is how the kubelet's configuration changes.
type configChange struct {
	// The effective configuration, with the files in place and with the planned files. It is computed at its first use:
	// most nodes have no state that depends on it.
	old, planned func() map[string]any
	isKnown      bool // the plan writes the configuration
	isNew        bool // the configuration does not exist yet: it does not show the options of a state
	isUnchanged  bool // no managed file changes
}

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
	if at >= 0 && o.files[at].File.Purpose != configPurpose {
		in.node.Effective = change.planned()
	}
	for _, m := range kubelet.ManagerStates() {
		isOwn := func(f node.Flag) bool {
			return !f.Assumed && f.Name == m.Flag
		}
		if !change.isKnown && !slices.ContainsFunc(in.node.Flags, isOwn) {
			continue // its policy is in a configuration that this plan does not write
		}
		if in.previous != nil && slices.Contains(in.previous.Files, m.Path) {
			continue
		}

		f := node.File{Path: m.Path, Kind: node.Missing, Purpose: "state"}
		s := in.observeFile(ctx, f, world.TargetReq{Path: m.Path})
		s.Action = "delete"
		if s.failure == nil && s.Old.Exists {
			s.Why, s.Outdated = in.refuseState(ctx, m, s.Old, change)
			if s.Why != "" {
				s.Why += ", so the kubelet refuses to start with it"
				out = append(out, s)
			}
		}
	}

	return out
}

// refuseState returns why the planned kubelet would not start with a state; "" if it would, or if that is not
// known. isOutdated: the machine is the reason, and not a change of the plan.
func (in observation) refuseState(
	ctx context.Context, m kubelet.ManagerState, is world.TargetAns, change configChange,
) (why string, isOutdated bool) {
	if is.Garbled { // whatever the policy: the kubelet reads it before it compares
		return "it is not a state that the kubelet can read", true
	}

	doc := hostfiles.DecodeState(is.Text)
	policy := m.FindPolicy(in.node.Effective)
	changed := m.ListChanges(change.old(), change.planned())
	isPolicyKnown := !in.node.Inherited.Partly || !change.isNew && slices.Contains(changed, m.Policy)
	if doc.PolicyName != "" { // more exact than the configuration on the disk
		changed = slices.DeleteFunc(changed, func(field string) bool {
			return change.isNew || field == m.Policy
		})
	}

	switch {
	case doc.PolicyName != "" && doc.PolicyName != policy:
		if !isPolicyKnown { // another file may set its policy
			return "", false
		}
		why = fmt.Sprintf("it was made by policy %q and %s is %q", doc.PolicyName, m.Policy, policy)
		return why, change.isUnchanged
	case !change.isKnown:
		return "", false
	case len(changed) > 0:
		return changed[0] + " changes, and this is the state of the old one", false
	case policy == m.ByDefault || doc.PolicyName == "":
		return "", false
	}

	return hostfiles.CompareWithMachine(m, doc, in.node.Effective, in.readFacts(ctx)), true
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
		return s.File.Purpose == configPurpose
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
func (in observation) compareConfig(files []observedFile, at int) configChange {
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
	change := configChange{isKnown: at >= 0}
	if at >= 0 {
		config = files[at].File.Path
		change.isNew = in.node.DropIn == "" && !files[at].Old.Exists
	}
	change.isUnchanged = !slices.ContainsFunc(files, func(s observedFile) bool {
		return s.failure != nil || s.Changes()
	})
	change.old = sync.OnceValue(func() map[string]any {
		return in.computeEffective(files, config, oldText)
	})
	change.planned = sync.OnceValue(func() map[string]any {
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
		case s.File.Purpose == configPurpose:
			own = parseConfig(text(s))
		case s.File.Purpose == flagsPurpose:
			n.Flags = parseFlags(text(s))
		}
	}

	n = applyInherited(n)
	merged, err := in.basis.mergeFiles(n, own)
	if err != nil {
		return map[string]any{} // the kubelet cannot read it either
	}

	return merged.merged.Effective(n.Flags)
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
