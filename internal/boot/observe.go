package boot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages"
)

// Change is one target with what it is and what it shall be.
type Change struct {
	File   node.File
	Old    world.TargetAns
	Action string // create | update | delete | restore | keep | none
	Why    string // of keep and delete: in words
	Drift  string // how it was edited since the last generation
}

// Restart says whether the kubelet must start anew, and why.
type Restart struct {
	Unit    string
	Needed  bool
	Because []string
}

// observe asks for every target, and finds the difference.
func (r *run) observe(ctx context.Context) {
	if r.tape == nil {
		return
	}
	for _, f := range r.node.Files {
		c, d := r.observeOne(ctx, f)
		if len(unreadOf(d)) > 0 {
			r.unjudged = append(r.unjudged, f.Path)
		}
		if len(d) == 0 {
			r.changes = append(r.changes, c)
			d = loose(c)
		}
		r.diags = append(r.diags, d...)
	}
	r.changes = append(r.changes, r.identityFiles(ctx)...)
	r.changes = append(r.changes, r.stateFiles(ctx)...)
	r.changes = append(r.changes, r.undeclared(ctx)...)
	slices.SortStableFunc(r.changes, func(a, b Change) int { return strings.Compare(a.File.Path, b.File.Path) })
	if a := r.node.Activation; a != nil {
		r.restart.Unit = a.Unit
		for _, c := range r.changes {
			if c.File.Purpose == purposeIdentity {
				r.restart.Needed = true
				continue // one line below
			}
			if c.Action != "none" && c.Action != "keep" && c.File.Purpose != "directory" && c.File.Purpose != "bootstrap-kubeconfig" {
				r.restart.Needed = true
				r.restart.Because = append(r.restart.Because, c.File.Path+" "+past(c.Action))
			}
		}
		if r.aside != nil {
			r.restart.Because = append(r.restart.Because, "the identity of "+r.aside.whose()+" is set aside")
		}
	}
}

func past(action string) string {
	return map[string]string{"create": "is new", "update": "changes", "delete": "goes", "restore": "is put back"}[action]
}

func (r *run) observeOne(ctx context.Context, f node.File) (Change, hcl.Diagnostics) {
	req := world.TargetReq{Path: f.Path}
	secret := len(f.Text.Secrets()) > 0
	if secret {
		req.Secret, req.Want = true, f.Text.Template()
	}
	a, ans, err := world.Target.Ask(ctx, r.tape, req)
	if err != nil {
		at := hcl.Range{}
		if len(f.Origins) > 0 {
			at = f.Origins[0].Range
		}
		if ans.Fail == world.Unread {
			return Change{}, hcl.Diagnostics{origin.NotRead(at, f.Path, []string{"target " + f.Path})}
		}
		return Change{}, hcl.Diagnostics{origin.Error(fault.CannotWrite, at, "Cannot look at "+f.Path, "%s", stages.Sentence(ans.Detail, ans.Hint))}
	}
	return r.diff(f, a), nil
}

// loose warns of a secret that others could read until now. That it is mended does not make it a secret again.
func loose(c Change) hcl.Diagnostics {
	f, a := c.File, c.Old
	if c.Action != "update" || len(f.Text.Secrets()) == 0 || !a.Exists || a.Dir || f.Mode == 0 || a.Mode&^f.Mode&0o077 == 0 {
		return nil
	}
	at := hcl.Range{}
	if len(f.Origins) > 0 {
		at = f.Origins[0].Range
	}
	return hcl.Diagnostics{origin.Warning(fault.Drift, at, "Others could read "+f.Path,
		"A secret stands in it, and its mode is %04o; applying the plan makes it %04o. Find out who loosened it, and replace the secret if they may have read it.", a.Mode, f.Mode)}
}

// diff is pure: what is, against what shall be.
func (r *run) diff(f node.File, a world.TargetAns) Change {
	c := Change{File: f, Old: a, Drift: a.Drift, Action: "update"}
	if a.Uncompared != "" {
		c.Why = "it cannot be compared: " + a.Uncompared
	}
	mode := f.Mode
	if mode == 0 && a.Exists {
		mode = a.Mode
	}
	switch {
	case f.Kind == node.Missing && !a.Exists:
		c.Action = "none"
	case f.Kind == node.Missing:
		c.Action = "delete"
	case !a.Exists:
		c.Action = "create"
	case f.CreateOnly:
		c.Action, c.Why = "none", "it is there already"
	case f.Kind == node.Directory && a.Dir && mode == a.Mode && ownerSame(f.Owner, a):
		c.Action = "none"
	case f.Kind == node.Regular && !a.Dir && same(f, a) && mode == a.Mode && ownerSame(f.Owner, a):
		c.Action = "none"
	}
	return c
}

func same(f node.File, a world.TargetAns) bool {
	if len(f.Text.Secrets()) > 0 {
		return a.Same
	}
	h := sha256.Sum256([]byte(f.Text.Template()))
	return a.SHA256 == hex.EncodeToString(h[:])
}

// ownerSame compares a planned owner, of names or numbers, with that of what is there.
func ownerSame(owner string, a world.TargetAns) bool {
	if owner == "" {
		return true
	}
	name, group, _ := strings.Cut(a.Owner, ":")
	user, of, _ := strings.Cut(owner, ":")
	is := func(planned string, id int, name string) bool {
		return planned == strconv.Itoa(id) || planned == name && name != "" || planned == "root" && id == 0
	}
	return is(user, a.UID, name) && is(of, a.GID, group)
}

// managerState is a file in which one of the kubelet's managers remembers its policy. With another policy, or other reserved
// CPUs or memory, the kubelet does not start until it is gone.
type managerState struct {
	path      string
	policy    string   // field of the configuration
	byDefault string   // its value where none is written
	others    []string // further fields that the state depends on
}

func managerStates() []managerState {
	return []managerState{
		{"/var/lib/kubelet/cpu_manager_state", "cpuManagerPolicy", "none", []string{"cpuManagerPolicyOptions", "reservedSystemCPUs", "kubeReserved", "systemReserved"}},
		{"/var/lib/kubelet/memory_manager_state", "memoryManagerPolicy", "None", []string{"reservedMemory"}},
	}
}

// States are the state files of the managers that do something by a configuration, with all that each depends on.
func States(config map[string]any) map[string]string {
	var out map[string]string
	for _, m := range managerStates() {
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

// stateFiles are those that the kubelet would refuse to start with on a configuration that changes: because of what changes
// in it, or because the state was made by another policy than the planned one. The second is what somebody leaves who has
// changed the policy by hand: the kubelet is dead of it, and the file on the disk says what is planned already.
func (r *run) stateFiles(ctx context.Context) []Change {
	var out []Change
	at := slices.IndexFunc(r.changes, func(c Change) bool { return c.File.Purpose == "kubelet-config" && c.Action == "update" })
	if at < 0 {
		return nil
	}
	old, new := configOf(r.changes[at].Old.Text), configOf(r.changes[at].File.Text.Template())
	for _, m := range managerStates() {
		if r.aside != nil && slices.Contains(r.aside.Files, m.path) {
			continue
		}
		why := ""
		for _, field := range append([]string{m.policy}, m.others...) {
			if (field == "kubeReserved" || field == "systemReserved") && r.policy(m) != "static" {
				continue
			}
			if fmt.Sprint(old[field]) != fmt.Sprint(new[field]) {
				why = field + " changes, and the kubelet refuses to start with the state of the old one"
				break
			}
		}
		if why == "" && r.policy(m) == m.byDefault {
			continue
		}
		a, ok := r.look(ctx, m.path)
		if !ok || !a.Exists {
			continue
		}
		if made := madeBy(a.Text); why == "" && made != "" && made != r.policy(m) {
			why = fmt.Sprintf("it was made by policy %q and %s is %q, so the kubelet refuses to start with it", made, m.policy, r.policy(m))
		}
		if why != "" {
			out = append(out, Change{File: node.File{Path: m.path, Kind: node.Missing, Purpose: "state"}, Old: a, Action: "delete", Why: why})
		}
	}
	return out
}

// policy is the one that the finished node has.
func (r *run) policy(m managerState) string {
	if p, ok := r.node.Config[m.policy].(string); ok && p != "" {
		return p
	}
	return m.byDefault
}

// madeBy is the policy that a state file names, "" where it cannot be read: the kubelet judges that itself.
func madeBy(text string) string {
	var doc struct {
		PolicyName string `json:"policyName"`
	}
	if json.Unmarshal([]byte(text), &doc) != nil {
		return ""
	}
	return doc.PolicyName
}

// look asks for a target that the site does not declare. One that cannot be looked at is left alone.
func (r *run) look(ctx context.Context, path string) (world.TargetAns, bool) {
	a, ans, err := world.Target.Ask(ctx, r.tape, world.TargetReq{Path: path})
	if ans.Fail == world.Unread {
		r.unjudged = append(r.unjudged, path)
		r.diags = append(r.diags, origin.NotRead(hcl.Range{}, path, []string{"target " + path}))
	}
	return a, err == nil
}

func configOf(text string) map[string]any {
	c, err := kubelet.ParseConfig(text)
	if err != nil {
		return map[string]any{}
	}
	return c.Object()
}

// undeclared are targets of the generation in place that the site declares no more: removed, or put back as they
// were before prelet, unless somebody changed them since. The bootstrap kubeconfig is not the plan's business once
// the node has joined.
func (r *run) undeclared(ctx context.Context) []Change {
	m, ans, err := world.Managed.Ask(ctx, r.tape, world.ManagedReq{})
	if ans.Fail == world.Unread {
		r.diags = append(r.diags, origin.NotRead(hcl.Range{}, "what the site declares no more", []string{"managed"}))
		return nil
	}
	if err != nil {
		return nil
	}
	unread := len(unreadOf(r.diags)) > 0
	planned := map[string]bool{}
	for _, c := range r.changes {
		planned[c.File.Path] = true
	}
	var out []Change
	for _, t := range m.Targets {
		if planned[t.Path] || t.Purpose == "bootstrap-kubeconfig" || t.Purpose == "state" || t.Purpose == purposeIdentity || t.Action == "none" {
			continue
		}
		if unread { // what could not be rendered is not gone
			r.unjudged = append(r.unjudged, t.Path)
			continue
		}
		f := node.File{Path: t.Path, Kind: node.Missing, Purpose: t.Purpose}
		a, ok := r.look(ctx, t.Path)
		if !ok {
			continue
		}
		c := Change{File: f, Old: a, Action: t.Action, Why: "the site does not declare it any more"}
		if t.Action == "keep" {
			c.Why += ", but " + t.Why
			r.diags = append(r.diags, origin.Warning(fault.Drift, hcl.Range{}, t.Path+" stays", "The site does not declare it any more, but %s. Remove it by hand if nobody needs it.", t.Why))
		}
		out = append(out, c)
	}
	return out
}
