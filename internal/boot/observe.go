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

// Observed is what is on the disk now, of what a plan is about.
type Observed struct {
	files      []observedFile // the node's
	aside      []observedFile // of an identity that is set aside
	states     []observedFile // of the kubelet's managers, where the planned configuration does not go with them
	undeclared []observedFile // of the generation in place, that the site declares no more

	managed failure  // which targets the generation in place has
	skipped []string // undeclared ones that were not looked at: what could not be rendered is not gone
}

// seen is one target: as it shall be, and as it is.
type observedFile struct {
	file   node.File
	is     world.TargetAns
	action string // of undeclared ones
	why    string
	failure
}

// unanswered is how a question failed; err is nil if it did not.
type failure struct {
	err    error
	answer world.Answer
}

func (u failure) isUnread() bool { return u.answer.Code() == fault.Unread }

// observe asks for every target. Unknown is what of the plan could not be told.
func observe(ctx context.Context, tape *world.Tape, n node.Node, aside *Aside, unknown unknowns) (o Observed) {
	for _, f := range n.Files {
		req := world.TargetReq{Path: f.Path}
		if len(f.Text.Secrets()) > 0 {
			req.Secret, req.Want = true, f.Text.Template()
		}
		o.files = append(o.files, observeFile(ctx, tape, f, req))
	}
	if aside != nil {
		for _, path := range aside.Files {
			if slices.ContainsFunc(n.Files, func(f node.File) bool { return f.Path == path }) {
				continue // the site writes it itself
			}
			f := node.File{Path: path, Kind: node.Missing, Purpose: purposeIdentity}
			req := world.TargetReq{Path: path, Secret: true} // keys: their bytes are no answer
			o.aside = append(o.aside, observeFile(ctx, tape, f, req))
		}
	}
	for _, s := range findStatesInTheWay(n, aside, o.files) {
		looked := observeFile(ctx, tape, s.file, world.TargetReq{Path: s.file.Path})
		looked.why = s.why
		o.states = append(o.states, looked)
	}
	o.observeUndeclared(ctx, tape, n, len(unknown) > 0)

	return o
}

func observeFile(ctx context.Context, tape *world.Tape, f node.File, req world.TargetReq) observedFile {
	a, ans, err := world.Target.Ask(ctx, tape, req)

	return observedFile{file: f, is: a, failure: failure{err, ans}}
}

// seeUndeclared asks for targets of the generation in place that the site declares no more. The bootstrap kubeconfig is
// not the plan's business once the node has joined.
func (o *Observed) observeUndeclared(ctx context.Context, tape *world.Tape, n node.Node, unknown bool) {
	m, ans, err := world.Managed.Ask(ctx, tape, world.ManagedReq{})
	if o.managed = (failure{err, ans}); err != nil {
		return
	}
	planned := map[string]bool{}
	for _, c := range o.listDeclared(n) {
		planned[c.File.Path] = true
	}
	for _, s := range slices.Concat(o.files, o.aside, o.states) {
		unknown = unknown || s.isUnread()
	}
	for _, t := range m.Targets {
		theirs := t.Purpose == "bootstrap-kubeconfig" || t.Purpose == "state" || t.Purpose == purposeIdentity
		if planned[t.Path] || theirs || t.Action == "none" {
			continue
		}
		if unknown {
			o.skipped = append(o.skipped, t.Path)
			continue
		}
		f := node.File{Path: t.Path, Kind: node.Missing, Purpose: t.Purpose}
		s := observeFile(ctx, tape, f, world.TargetReq{Path: t.Path})
		s.action, s.why = t.Action, t.Why
		o.undeclared = append(o.undeclared, s)
	}
}

// declared are the changes of what the site declares, and of what stands in its way.
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
			out = append(out, Change{File: s.file, Old: s.is, Action: "delete", Why: why})
		}
	}

	return out
}

// managerState is a file in which one of the kubelet's managers remembers its policy. With another policy, or other
// reserved CPUs or memory, the kubelet does not start until it is gone.
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

// States are the state files of the managers that do something by a configuration, with all that each depends on.
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

// statesInTheWay are the state files that the kubelet would refuse to start with on a configuration that changes:
// because of what changes in it (why says what), or perhaps because the state was made by another policy than the
// planned one. The second is what somebody leaves who has changed the policy by hand: the kubelet is dead of it, and
// the file on the disk says what is planned already.
func findStatesInTheWay(n node.Node, aside *Aside, files []observedFile) (out []observedFile) {
	at := slices.IndexFunc(files, func(s observedFile) bool {
		return s.err == nil && s.file.Purpose == "kubelet-config" && compareTarget(s.file, s.is).Action == "update"
	})
	if at < 0 {
		return nil
	}
	old, planned := parseConfig(files[at].is.Text), parseConfig(files[at].file.Text.Template())
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

// changed says which field that the state depends on is another one.
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

// inTheWay says why a state file that was looked at must go; "": it need not.
func explainRemoval(n node.Node, s observedFile) string {
	if s.err != nil || !s.is.Exists {
		return ""
	}
	if s.why != "" {
		return s.why
	}
	at := slices.IndexFunc(listManagerStates(), func(m managerState) bool { return m.path == s.file.Path })
	m := listManagerStates()[at]
	if made := parsePolicy(s.is.Text); made != "" && made != m.readPolicy(n) {
		return fmt.Sprintf("it was made by policy %q and %s is %q, so the kubelet refuses to start with it",
			made, m.policy, m.readPolicy(n))
	}

	return ""
}

// planned is the policy that the finished node has.
func (m managerState) readPolicy(n node.Node) string {
	if p, ok := n.Config[m.policy].(string); ok && p != "" {
		return p
	}

	return m.byDefault
}

// madeBy is the policy that a state file names, "" where it cannot be read: the kubelet judges that itself.
func parsePolicy(text string) string {
	var doc struct {
		PolicyName string `json:"policyName"`
	}
	if json.Unmarshal([]byte(text), &doc) != nil {
		return ""
	}
	return doc.PolicyName
}

func parseConfig(text string) map[string]any {
	c, err := kubelet.ParseConfig(text)
	if err != nil {
		return map[string]any{}
	}
	return c.Object()
}
