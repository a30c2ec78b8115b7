package evaluate

import (
	"cmp"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/identity"
	"github.com/prelet/prelet/internal/plan/lang"
)

// Plan is the result of a run. Nothing has been written. makePlan fills it with the results of the steps that ran.
type Plan struct {
	Site        *lang.Site
	Node        desired.Node
	Hash        string // "" unless Complete
	Complete    bool
	Diagnostics hcl.Diagnostics
	Degraded    []fault.Reason
	Assumed     []Assumed          // answers that the caller of Run put in place of the node's; Run leaves it empty
	Previous    *identity.Previous // the identity on the disk that the node gives up; nil: none
	OnCluster   string             // last-good | fail
	Group       string             // that may read the recording of the last run; "" is none

	Changed
	Installed
	Trace

	afterGather, afterRender *progress // the run after these steps; nil without RunInput.Advises
}

// Installed is the installed kubelet, and the word of its binary on the node.
type Installed struct {
	Kubelet  tape.KubeletAns
	Accepts  *tape.AcceptsAns     // nil: the binary was not asked, or did not answer
	DryRun   *tape.DryRunAns      // its verdict; nil: it was not asked, or did not answer
	Declares *[]rules.Declaration // in the Node's status.declaredFeatures; nil: not known
}

// Trace has the answers and the evaluation of a run, for recordings, explain and tests.
type Trace struct {
	Tape   *tape.Tape
	Facts  *tape.Facts
	Access tape.Access
	Eval   *eval.Eval    // the scope at the end
	Stages []StageReport // in site order, as Edges
	Edges  []eval.Edge
}

// Assumed is an answer of a rehearsal that is not the node's own.
type Assumed struct {
	Kind string `json:"kind"` // variable, object, ca or kubelet
	Name string `json:"name"` // of the variable, NAMESPACE/NAME of the object, or the assumption about CA or kubelet
	From string `json:"from"` // --var, a file, --objects, …
	// InsteadOf is the node's own answer; never a value of a variable.
	InsteadOf string `json:"instead_of"`
}

// Code returns why a plan cannot be applied: the code of its first error, since later errors mostly follow from it; ""
// if it is complete.
func (p *Plan) Code() fault.Code {
	if code := origin.Code(p.Diagnostics); code != "" || p.Complete {
		return code
	}

	return fault.Internal
}

// Credentials returns the names of the credentials that the site reads and of the token that it names, sorted.
func (p *Plan) Credentials() (names []string) {
	if p.Access.Token != "" {
		names = append(names, p.Access.Token)
	}
	if p.Tape != nil {
		for _, e := range p.Tape.Entries() {
			if e.Kind != tape.KindCredential {
				continue
			}
			if r, err := tape.Credential.Request(e.Question); err == nil {
				names = append(names, r.Name)
			}
		}
	}
	slices.Sort(names)

	return slices.Compact(names)
}

// NodeName returns the name that the node has or will have; "" if it is unknown.
func (p *Plan) NodeName() string {
	name, _ := identity.FindNameFlags(p.Node.Flags)
	if id := p.Kubelet.Identity; id != nil {
		name = cmp.Or(name, id.Node, id.Host)
	}

	return name
}

// TakesEffect returns when a label takes effect: "registration" when the Node object is made; on a node that has
// joined, "restart" for the few labels that the kubelet updates when it starts, and "reconcile" for labels that
// the node patches itself, where the site asks for it and the NodeRestriction plugin allows it.
func (p *Plan) TakesEffect(key string) string {
	switch a := p.Node.Activation; {
	case !p.Kubelet.Joined:
		return "registration"
	case kubelet.FollowsRestart(key):
		return "restart"
	case a != nil && a.ReconcileLabels && kubelet.CheckNodeKey(key, "") == nil:
		return "reconcile"
	}

	return "registration"
}

// TaintTakesEffect returns when a taint takes effect: "registration" when the Node object is made, and on a node that
// has joined "reconcile" for taints of the site that are patched with the site's credential.
func (p *Plan) TaintTakesEffect(t desired.Taint) string {
	a := p.Node.Activation
	isPatched := p.Kubelet.Joined && a != nil && a.TaintCredential != ""
	if isPatched && t.IsOfSite() && !t.Startup && !t.IsStartup() {
		return "reconcile"
	}

	return "registration"
}

// FileTakesEffect returns when a change of a file takes effect: "restart" of the kubelet, "unit" with the units that
// follow the change, or "reader" for a file of the site that names no unit. It is "" if the file does not change.
func (p *Plan) FileTakesEffect(c FileChange) (effect string, units []string) {
	switch {
	case !c.Changes():
		return "", nil
	case slices.Contains(c.Notifies, p.Restart.Unit):
		return "restart", nil
	case len(c.Notifies) > 0:
		return "unit", c.Notifies
	case c.File.Purpose == "file", c.File.Purpose == "runtime":
		return "reader", nil
	}

	return "", nil
}
