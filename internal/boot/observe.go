package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// Observed is the result of observe: what is on the disk now, of all that a plan manages.
type Observed struct {
	files      []observedFile // the node's
	aside      []observedFile // of a previous identity that is set aside
	states     []observedFile // of the kubelet's managers, where they may not fit the planned configuration
	undeclared []observedFile // of the current generation, that the site does not declare any more

	managed failure               // of the question which files the current generation manages
	targets []world.ManagedTarget // of the current generation
	skipped []string              // undeclared ones that were not looked at: the site may declare them in what could not be rendered
}

// observedFile is one managed file: as it shall be, and as it is.
type observedFile struct {
	file   node.File
	is     world.TargetAns
	action string   // of undeclared ones
	why    string   // for action, or why a state must go
	notify []string // of undeclared ones: what the generation in place says, "restart UNIT"

	isOutdated bool // a state that does not fit this boot's machine
	failure
}

// failure is how a question failed; err is nil if it did not.
type failure struct {
	err    error
	answer world.Answer
}

func (f failure) isUnread() bool { return f.answer.Code() == fault.Unread }

// observe asks through the tape what is on the disk.
//
// Inputs: the tape, the finished node, the identity that is set aside, and the unknown parts of the plan. Result: each
// managed file as it is. It does not fail: a question that failed is part of the result, and diff reports it.
func observe(
	ctx context.Context, tape *world.Tape, n node.Node, aside *Aside, facts *world.Facts, unknown unknowns,
) (o Observed) {
	for _, f := range n.Files {
		req := world.TargetReq{Path: f.Path}
		if len(f.Text.Secrets()) > 0 {
			req.Secret, req.Want = true, f.Text.Template()
		}
		o.files = append(o.files, observeFile(ctx, tape, f, req))
	}

	o.aside = observeAside(ctx, tape, n, aside)
	for _, s := range findStatesInTheWay(n, aside, o.files) {
		state := observeFile(ctx, tape, s.file, world.TargetReq{Path: s.file.Path})
		state.why = s.why
		o.states = append(o.states, state)
	}
	o.observeOutdated(ctx, tape, n, aside, facts)
	o.observeUndeclared(ctx, tape, n, len(unknown) > 0)

	return o
}

func observeFile(ctx context.Context, tape *world.Tape, f node.File, req world.TargetReq) observedFile {
	a, ans, err := world.Target.Ask(ctx, tape, req)
	if err == nil && a.Private && f.Kind == node.Regular {
		// Its content stays on the node, which can still compare it.
		req.Secret, req.Want = true, f.Text.Template()
		a, ans, err = world.Target.Ask(ctx, tape, req)
		a.Private = true
	}

	return observedFile{file: f, is: a, failure: failure{err, ans}}
}

// observeAside asks for the files of an identity that is set aside, except those that the site writes itself.
func observeAside(ctx context.Context, tape *world.Tape, n node.Node, aside *Aside) (out []observedFile) {
	if aside == nil {
		return nil
	}

	for _, path := range aside.Files {
		if slices.ContainsFunc(n.Files, func(f node.File) bool { return f.Path == path }) {
			continue
		}
		f := node.File{Path: path, Kind: node.Missing, Purpose: purposeIdentity}
		req := world.TargetReq{Path: path, Secret: true} // keys: their bytes must not be in a recording
		out = append(out, observeFile(ctx, tape, f, req))
	}

	return out
}

// observeUndeclared asks for files of the current generation that the site does not declare any more. The bootstrap
// kubeconfig is not among them: once the node has joined, the plan does not manage it.
func (o *Observed) observeUndeclared(ctx context.Context, tape *world.Tape, n node.Node, isUnknown bool) {
	m, ans, err := world.Managed.Ask(ctx, tape, world.ManagedReq{})
	o.managed = failure{err, ans}
	if err != nil {
		return
	}

	o.targets = m.Targets
	planned := map[string]bool{}
	for _, c := range o.listDeclared(n) {
		planned[c.File.Path] = true
	}
	for _, s := range slices.Concat(o.files, o.aside, o.states) {
		isUnknown = isUnknown || s.isUnread()
	}
	for _, t := range m.Targets {
		isOfKubelet := t.Purpose == "bootstrap-kubeconfig" || t.Purpose == "state" || t.Purpose == purposeIdentity
		if planned[t.Path] || isOfKubelet || t.Action == "none" {
			continue
		}
		if isUnknown {
			o.skipped = append(o.skipped, t.Path)
			continue
		}
		f := node.File{Path: t.Path, Kind: node.Missing, Purpose: t.Purpose}
		s := observeFile(ctx, tape, f, world.TargetReq{Path: t.Path})
		s.action, s.why, s.notify = t.Action, t.Why, t.Notify
		o.undeclared = append(o.undeclared, s)
	}
}

// listDeclared returns the changes of what the site declares, and of what must go for it.
func (o *Observed) listDeclared(n node.Node) (out []Change) {
	for _, s := range o.files {
		if s.err == nil {
			out = append(out, compareTarget(s.file, s.is))
		}
	}
	for _, s := range o.aside {
		if s.err == nil && s.is.Exists && !s.is.Dir {
			out = append(out, Change{File: s.file, Old: s.is, Action: "delete"})
		}
	}
	for _, s := range o.states {
		if why := explainRemoval(n, s); why != "" {
			out = append(out, Change{File: s.file, Old: s.is, Action: "delete", Why: why, Outdated: s.isOutdated})
		}
	}

	return out
}

// managerState is a file in which one of the kubelet's managers stores its policy. With another policy, or other
// reserved CPUs or memory, the kubelet does not start until the file is removed.
type managerState struct {
	path      string
	policy    string   // field of the configuration
	byDefault string   // its value where none is written
	others    []string // further fields that the state depends on
}

func listManagerStates() []managerState {
	return []managerState{
		{"/var/lib/kubelet/cpu_manager_state", "cpuManagerPolicy", "none",
			[]string{"cpuManagerPolicyOptions", "reservedSystemCPUs", "kubeReserved", "systemReserved"}},
		{"/var/lib/kubelet/memory_manager_state", "memoryManagerPolicy", "None", []string{"reservedMemory"}},
	}
}

// States returns the state files of the managers that are on in a configuration, by path, each with the fields that it
// depends on; nil for none.
func States(config map[string]any) map[string]string {
	var out map[string]string
	for _, m := range listManagerStates() {
		policy, ok := config[m.policy].(string)
		if !ok || policy == "" || policy == m.byDefault {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[m.path] = policy
		for _, field := range m.others {
			if config[field] != nil {
				out[m.path] += fmt.Sprintf(" %s=%v", field, config[field])
			}
		}
	}

	return out
}

// findStatesInTheWay returns the state files with which the kubelet may refuse to start on a configuration that
// changes: because of a field that changes (why has it), or because another policy than the planned one made the
// file. The second happens after somebody changed the policy by hand: the kubelet fails, and the configuration on the
// disk is the planned one already.
func findStatesInTheWay(n node.Node, aside *Aside, files []observedFile) (out []observedFile) {
	at := slices.IndexFunc(files, func(s observedFile) bool {
		return s.err == nil && s.file.Purpose == "kubelet-config" && compareTarget(s.file, s.is).Action == "update"
	})
	if at < 0 {
		return nil
	}
	planned := parseConfig(files[at].file.Text.Template())
	old := planned
	if !files[at].is.Private { // else the state itself tells its policy
		old = parseConfig(files[at].is.Text)
	}
	for _, m := range listManagerStates() {
		if aside != nil && slices.Contains(aside.Files, m.path) {
			continue
		}
		why := m.findChange(n, old, planned)
		if why == "" && m.readPolicy(n) == m.byDefault {
			continue
		}
		out = append(out, observedFile{file: node.File{Path: m.path, Kind: node.Missing, Purpose: "state"}, why: why})
	}

	return out
}

// findChange returns the field that changes, of those that the state depends on, in words; "" for none.
func (m managerState) findChange(n node.Node, old, planned map[string]any) (why string) {
	for _, field := range append([]string{m.policy}, m.others...) {
		if (field == "kubeReserved" || field == "systemReserved") && m.readPolicy(n) != "static" {
			continue
		}
		if fmt.Sprint(old[field]) != fmt.Sprint(planned[field]) {
			return field + " changes, and the kubelet refuses to start with the state of the old one"
		}
	}

	return ""
}

// explainRemoval returns why a state file must be removed; "": it need not.
func explainRemoval(n node.Node, s observedFile) string {
	if s.err != nil || !s.is.Exists {
		return ""
	}
	if s.why != "" {
		return s.why
	}

	all := listManagerStates()
	m := all[slices.IndexFunc(all, func(m managerState) bool { return m.path == s.file.Path })]
	if made := parsePolicy(s.is.Text); made != "" && made != m.readPolicy(n) {
		return fmt.Sprintf("it was made by policy %q and %s is %q, so the kubelet refuses to start with it",
			made, m.policy, m.readPolicy(n))
	}

	return ""
}

// readPolicy returns the policy that the finished node has.
func (m managerState) readPolicy(n node.Node) string {
	if p, ok := n.Config[m.policy].(string); ok && p != "" {
		return p
	}

	return m.byDefault
}

// parsePolicy returns the policy that a state file names; "" where it cannot be read, which the kubelet handles itself.
func parsePolicy(text string) string {
	var doc struct {
		PolicyName string `json:"policyName"`
	}
	if json.Unmarshal([]byte(text), &doc) != nil {
		return ""
	}

	return doc.PolicyName
}

// parseConfig returns a KubeletConfiguration as an object; empty where the text is not one.
func parseConfig(text string) map[string]any {
	c, err := kubelet.ParseConfig(text)
	if err != nil {
		return map[string]any{}
	}

	return c.Object()
}
