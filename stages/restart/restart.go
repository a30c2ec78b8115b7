// Package restart is the stage that says, as data, what apply shall do with the kubelet, and with other units, after a
// commit.
package restart

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

var (
	unit      = schema.Attr[string]{Name: "unit", DefaultText: "`kubelet.service` for the kubelet's; for others there is none", Doc: "The unit: the one that runs the kubelet, or a `.service`, `.timer` or `.socket` of the site's."}
	rollback  = schema.Attr[bool]{Name: "rollback", Default: true, Doc: "Whether to go back to the last good generation when the kubelet is not healthy."}
	reconcile = schema.Attr[bool]{Name: "reconcile_labels", Default: false, Doc: "Whether a node that has joined patches its own labels after a good verdict, with the kubelet's credentials, as far as the cluster lets it. A label that the site no longer sets is removed if it still has the value that the last generation gave it. Without this, labels count when the kubelet registers the node, but for the few that follow a restart. Taints a node cannot change: `kubectl taint`."}
	settle    = schema.Attr[string]{Name: "settle", Default: "10s", Check: schema.Duration, Doc: "How long the kubelet must run without a new start before it counts as healthy."}
	timeout   = schema.Attr[string]{Name: "timeout", Default: "2m", Check: schema.Duration, Doc: "How long to wait for one verdict, from the start of the kubelet on."}
	bounds    = schema.Attr[string]{Name: schema.Timeout.Name, DefaultText: "the kubelet's: as long as its parts take (two verdicts, and twice what systemd needs to stop the kubelet); of another unit `60s`", Check: schema.Duration,
		Doc: "How long the whole activation may take: the kubelet stopped, started on the new files and judged, and, if it is ill, put back and judged once more. When it is up nobody waits any longer, and a verdict that is still open is reached at the kubelet's next start. Not shorter than `verify.timeout`. Of another unit: how long to wait for its restart or reload."}
	configz   = schema.Attr[string]{Name: "configz_credential", Check: checkCredential, Doc: "The name of a credential with which the verdict also asks the kubelet for the configuration that it runs with (`/configz`) and compares it with the planned one: a client certificate and its key, PEM in one text, of somebody who may get `nodes/configz`. A node's own may not. `prelet-verify.service` and `prelet-apply.service` need it (`LoadCredential=`); where they lack it, the rest is judged."}
	action    = schema.Attr[string]{Name: "action", Default: actionRestart, Check: schema.OneOf(actionRestart, actionReload), Doc: "Of another unit: `restart`, or `reload`, which is a restart of a unit that cannot reload. A unit that does not run stays so."}
	calm      = schema.Attr[string]{Name: "settle", Default: "2s", Check: schema.Duration, Doc: "Of another unit: how long it must run without a new process before it counts as healthy. Shorter than `timeout`."}
	condition = schema.Attr[cty.Value]{Name: "condition", Required: true, Doc: "Must be true of the finished node."}
	message   = schema.Attr[string]{Name: "error_message", Required: true, Doc: "Why not, and what to do."}
)

// Stage implements stages.Renderer.
type Stage struct{}

// Spec implements stages.Stage.
func (Stage) Spec() stages.Spec {
	return stages.Spec{Phase: schema.Render, Bounds: &bounds, Block: schema.Block{Type: "restart",
		Doc:    "What happens after files changed: start or restart, verify, go back. The stage named `kubelet` is the kubelet's, and so is the only one without `unit`. Each other is another unit, of which there are 16 at most; `action` and `settle` are for those, and `rollback`, `reconcile_labels`, `verify` and `precondition` for the kubelet.",
		Fields: []schema.Field{unit, action, calm, rollback, reconcile},
		Blocks: []schema.Block{
			{Type: "verify", Max: 1, Always: true, Doc: "When the kubelet counts as healthy.", Fields: []schema.Field{settle, timeout, configz}},
			{Type: "precondition", Doc: "What must be true before anything is written; `node` is the finished node.", Fields: []schema.Field{condition, message}},
		}}}
}

// checkCredential takes what systemd takes as the name of a credential.
func checkCredential(name string) error {
	if name == "" || len(name) > 255 || name == "." || name == ".." || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == '/' || r == ':' || r >= 0x7f }) {
		return fmt.Errorf("%q is no name of a credential, as kubelet-configz", name)
	}
	return nil
}

// Outputs implements stages.Stage.
func (Stage) Outputs(stages.Declared) cty.Type { return cty.EmptyObject }

// Render implements stages.Renderer.
func (Stage) Render(cfg schema.Body, _ node.Node, in stages.Inputs) (stages.Rendering, stages.Output, hcl.Diagnostics) {
	out := stages.Output{Value: cty.EmptyObjectVal}
	name := strings.TrimPrefix(in.Address, "restart.")
	if name == "kubelet" || in.IsOnly && unit.Of(cfg).Expr == nil {
		a, diags := renderKubelet(cfg, in)
		return stages.Rendering{Activation: a}, out, diags
	}

	u, diags := renderUnit(cfg, name, in)

	return stages.Rendering{Unit: u}, out, diags
}

// renderUnit returns what apply shall do with another unit; nil if that is not known.
func renderUnit(cfg schema.Body, name string, in stages.Inputs) (*node.Unit, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	refuse := func(at hcl.Range, what string) {
		diags = append(diags, origin.Error(fault.UnknownArgument, at, what+" is the kubelet's",
			"Stage restart.%s is for another unit, since it is not named \"kubelet\". Move it into stage \"restart\" \"kubelet\", or remove it.", name))
	}
	if v := rollback.Of(cfg); v.Expr != nil {
		refuse(v.Range, rollback.Name)
	}
	if v := reconcile.Of(cfg); v.Expr != nil {
		refuse(v.Range, reconcile.Name)
	}
	for _, b := range append(cfg.Blocks["verify"], cfg.Blocks["precondition"]...) {
		if b.Written {
			refuse(b.Range, b.Type)
		}
	}

	u := unit.Of(cfg)
	wait, _ := time.ParseDuration(in.Timeout.V)
	if in.Timeout.Expr == nil || !in.Timeout.Set() {
		wait = defaultWait
	}
	quiet, _ := time.ParseDuration(calm.Of(cfg).V)
	if calm.Of(cfg).Expr != nil && quiet > 0 && quiet >= wait {
		diags = append(diags, origin.Error(fault.WrongType, calm.Of(cfg).Range, "The unit can never settle", "timeout (%s) must be longer than settle (%s).", wait, quiet))
	}
	switch {
	case u.Null():
		return nil, append(diags, origin.Error(fault.MissingArgument, u.Range, "Which unit?",
			"Stage restart.%s is for another unit than the kubelet's: write unit = \"NAME.service\". The kubelet's stage is the one named \"kubelet\".", name))
	case !u.Set() || !action.Of(cfg).Set():
		return nil, diags
	case !isUnitName(u.V):
		diags = append(diags, origin.Error(fault.WrongType, u.Range, "Not a unit", "%q: the name of a service, timer or socket is needed, as chrony.service.", u.V))
	case slices.Contains(ownUnits, u.V):
		diags = append(diags, origin.Error(fault.Conflict, u.Range, "A unit of prelet's", "%s is not acted on while it acts. Remove this stage.", u.V))
	}

	return &node.Unit{Stage: name, Unit: u.V, Action: action.Of(cfg).V, TimeoutMillis: wait.Milliseconds(), SettleMillis: quiet.Milliseconds(), Range: u.Range}, diags
}

// renderKubelet returns what apply shall do with the kubelet; nil if that is not known.
func renderKubelet(cfg schema.Body, in stages.Inputs) (*node.Activation, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	for _, v := range []schema.Value[string]{action.Of(cfg), calm.Of(cfg)} {
		if v.Expr != nil {
			diags = append(diags, origin.Error(fault.UnknownArgument, v.Range, "This is for other units",
				"The kubelet is started or restarted as it needs to be, and verify { settle } says when it counts as healthy. Remove it, or write unit for another unit in a stage of another name."))
		}
	}
	v, _ := cfg.One("verify")
	s, _ := time.ParseDuration(settle.Of(v).V)
	t, _ := time.ParseDuration(timeout.Of(v).V)
	if s > 0 && t > 0 && t <= s {
		diags = append(diags, origin.Error(fault.WrongType, timeout.Of(v).Range, "The kubelet can never settle", "timeout (%s) must be longer than settle (%s).", t, s))
	}
	bound, _ := time.ParseDuration(in.Timeout.V) // 0 when it is not written
	if in.Timeout.Expr != nil && in.Timeout.Set() && t > 0 && bound < t {
		diags = append(diags, origin.Error(fault.WrongType, in.Timeout.Range, "The activation ends before its verdict", "timeout (%s) bounds the whole activation and must not be shorter than verify { timeout } (%s), the verdict inside it. Write both, or leave this one out.", bound, t))
	}
	u := unit.Of(cfg)
	unitName := u.V
	if u.Null() {
		unitName = DefaultUnit
	}
	if u.Set() && (!strings.HasSuffix(u.V, ".service") || strings.ContainsAny(u.V, "/ ")) {
		diags = append(diags, origin.Error(fault.WrongType, u.Range, "Not a service", "%q: a unit as kubelet.service is needed.", u.V))
	}
	for _, p := range cfg.Blocks["precondition"] {
		c := condition.Of(p)
		x, _, unread := value.Plain(c.Cty)
		switch {
		case len(unread) > 0:
			diags = append(diags, origin.NotRead(c.Range, "a precondition", unread))
		case !x.IsKnown():
		case x.IsNull() || x.Type() != cty.Bool:
			diags = append(diags, origin.Error(fault.WrongType, c.Range, "Wrong type for condition", "true or false is needed."))
		case x.False():
			diags = append(diags, origin.Error(fault.Precondition, c.Range, "A precondition does not hold", "%s", stages.Sentence(message.Of(p).V)))
		}
	}
	if !u.Cty.IsKnown() {
		return nil, diags
	}
	return &node.Activation{Stage: strings.TrimPrefix(in.Address, "restart."), Unit: unitName, SettleMillis: s.Milliseconds(), TimeoutMillis: t.Milliseconds(), BoundMillis: bound.Milliseconds(),
		Rollback: rollback.Of(cfg).V, ReconcileLabels: reconcile.Of(cfg).V, Configz: configz.Of(v).V, Range: cfg.Range}, diags
}

// DefaultUnit is the kubelet's, where no stage names another.
const DefaultUnit = "kubelet.service"

const (
	actionRestart = "restart"
	actionReload  = "reload"
	defaultWait   = time.Minute
)

// ownUnits run prelet.
var ownUnits = []string{"prelet.service", "prelet-apply.service", "prelet-verify.service"}

// isUnitName reports whether a name is that of a unit that can be acted on.
// Source: systemd.unit(5); a template without an instance is not a unit.
func isUnitName(s string) bool {
	i := strings.LastIndexByte(s, '.')
	if i < 1 || len(s) > 255 || !slices.Contains([]string{".service", ".timer", ".socket"}, s[i:]) || s[i-1] == '@' || s[0] == '@' {
		return false
	}

	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\@") == ""
}
