// Package restart is the stage that decides, as data, what happens to the kubelet and to other units after a
// commit. It is pure and reads only its block and the finished node. It must not start or restart anything:
// internal/machine/commit and internal/machine/activation do that.
package restart

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/annotation"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/platform/unitfile"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

const (
	actionRestart = "restart"
	actionReload  = "reload"

	// defaultUnitTimeout bounds the restart of another unit than the kubelet's.
	defaultUnitTimeout = time.Minute

	verifyBlock       = "verify"
	annotationsBlock  = "annotations"
	preconditionBlock = "precondition"
	nodeCondBlock     = "condition"
	checkBlock        = "check"

	maxRevision = 200 // characters
)

var (
	unitAttr = schema.Attr[string]{
		Name:        "unit",
		DefaultText: "`kubelet.service` for the kubelet's; others have none",
		Doc: "The unit: the kubelet's, " +
			"or a `.service`, `.timer` or `.socket` of the site's.",
	}
	actionAttr = schema.Attr[string]{
		Name:    "action",
		Default: actionRestart,
		OneOf:   []string{actionRestart, actionReload},
		Doc: "Of another unit: `restart`, or `reload`, which is a restart of a unit that cannot reload. " +
			"A unit that does not run is not started.",
	}
	unitSettleAttr = schema.Attr[string]{
		Name:    "settle",
		Default: "2s",
		Check:   schema.Duration,
		Doc: "Of another unit: how long it must run without a new process before it counts as healthy. " +
			"Shorter than `timeout`.",
	}
	rollbackAttr = schema.Attr[bool]{
		Name:    "rollback",
		Default: true,
		Doc:     "Whether to roll back to the last good generation when the kubelet is not healthy.",
	}
	reconcileAttr = schema.Attr[bool]{
		Name:    "reconcile_labels",
		Default: false,
		Doc: "Whether a node that has joined patches its own labels after a good verdict, " +
			"with the kubelet's credentials, as far as the cluster lets it. " +
			"A label that the site no longer sets is removed if it still has the value " +
			"that the last generation gave it. Without this, " +
			"labels count when the kubelet registers the node, but for the few that follow a restart. " +
			"Taints a node cannot change: `taint_credential`, or `kubectl taint`.",
	}
	taintCredentialAttr = schema.Attr[string]{
		Name:  "taint_credential",
		Check: checkCredential,
		Doc: "The name of a credential with which the taints of the site's `taint` stages are patched " +
			"on a node that has joined, after a good verdict and in each `prelet run`: " +
			"a client certificate and its key, PEM in one text, of a user who may patch Nodes. " +
			"A node's own may not. prelet owns the taints that it lists in the annotation " +
			"`prelet.github.io/taints`: one of these that neither the site nor the base has is removed. " +
			"Taints of others stay, also with another value of a planned taint, " +
			"and startup taints are never patched. " +
			"`prelet-verify.service` and `prelet-apply.service` need the credential " +
			"(`LoadCredential=`); where they lack it, the `kubectl` command is reported.",
	}
	// boundAttr limits the whole activation: stop, start, verdict, and after a bad verdict the rollback and its
	// verdict. timeoutAttr limits one verdict, so it must not be longer. An activation that reaches the bound is
	// unknown and never bad: a slow stop of the kubelet says nothing about the new files.
	boundAttr = schema.Attr[string]{
		Name:  schema.Timeout.Name,
		Check: schema.Duration,
		DefaultText: "the kubelet's: as long as its parts take (two verdicts, " +
			"and twice what systemd needs to stop the kubelet); of another unit `60s`",
		Doc: "How long the whole activation may take: the kubelet stopped, started and judged, " +
			"and, if it is unhealthy, rolled back and judged once more. After that, " +
			"a verdict that is still open is reached at the kubelet's next start. " +
			"Not shorter than `verify.timeout`. Of another unit: " +
			"how long to wait for its restart or reload.",
	}

	settleAttr = schema.Attr[string]{
		Name:    "settle",
		Default: "10s",
		Check:   schema.Duration,
		Doc:     "How long the kubelet must run without a new start before it counts as healthy.",
	}
	timeoutAttr = schema.Attr[string]{
		Name:    "timeout",
		Default: "2m",
		Check:   schema.Duration,
		Doc:     "How long to wait for one verdict, from the start of the kubelet on.",
	}
	configzAttr = schema.Attr[string]{
		Name:  "configz_credential",
		Check: checkCredential,
		Doc: "The name of a credential with which the verdict also asks the kubelet " +
			"for the configuration that it runs with (`/configz`) and compares it with the planned one: " +
			"a client certificate and its key, PEM in one text, of a user who may get `nodes/configz`. " +
			"A node's own may not. `prelet-verify.service` and `prelet-apply.service` need it " +
			"(`LoadCredential=`); where they lack it, the rest is judged.",
	}

	revisionAttr = schema.Attr[string]{
		Name:        "revision",
		Check:       checkRevision,
		DefaultText: "none, without this annotation",
		Doc: "The revision of the site, at most 200 characters, as `kubectl prelet` shows it: " +
			"a commit, or the version of an image. It does not count as a change of the plan.",
	}

	conditionAttr = schema.Attr[bool]{
		Name:     "condition",
		Required: true,
		Null:     "true or false is needed.",
		Doc: "Must be true of the finished node. Without a stage `reserve`, `node.reserved` is here what the " +
			"kubelet's configuration and flags reserve, and its `policy` and `allocatable` are null.",
		SeesReserved: true,
	}
	messageAttr = schema.Attr[string]{
		Name:     "error_message",
		Required: true,
		Doc:      "Why not, and what to do.",

		SeesReserved: true,
	}

	driftAttr = schema.Attr[bool]{
		Name: "drift",
		Doc: "It is also `False` between boots, while `prelet-check.timer`, if it is enabled, finds that a run would " +
			"change files. Without a run only such a check changes it.",
	}
	checkedAttr = schema.Attr[bool]{
		Name:     "condition",
		Required: true,
		Soft:     true,
		Secret:   "Everyone who may read Nodes can read whether it holds.",
		Doc: "Must be true for the status `True`; `node` is the finished node. " +
			"Where it is null or cannot be evaluated on this machine, the status is `Unknown`.",
	}
	checkMessageAttr = schema.Attr[string]{
		Name:     "error_message",
		Required: true,
		Soft:     true,
		Doc: "The message of the condition while this check does not hold. " +
			"Everyone who may read Nodes can read it.",
	}
)

// Stage implements stages.Renderer.
type Stage struct{}

// Spec implements stages.Stage.
func (Stage) Spec() stages.Spec {
	verify := schema.Block{
		Type:   verifyBlock,
		Max:    1,
		Always: true,
		Doc:    "When the kubelet counts as healthy.",
		Fields: []schema.Field{settleAttr, timeoutAttr, configzAttr},
	}
	annotations := schema.Block{
		Type: annotationsBlock,
		Max:  1,
		Doc: "With this block, a node reports itself in annotations of its own Node, " +
			"after a good verdict and after a run by hand: " +
			"`prelet.github.io/generation`, `plan`, `revision` and `degraded`, " +
			"which is a JSON list of codes and summaries. " +
			"At most one PATCH per run, only if a value differs, after a random wait of up to 30 s. " +
			"Everyone who may read Nodes can read them; they contain no secrets. " +
			"A patch that the cluster refuses is a note in `prelet status`.",
		Fields: []schema.Field{revisionAttr},
	}
	precondition := schema.Block{
		Type:   preconditionBlock,
		Doc:    "What must be true before anything is written; `node` is the finished node.",
		Fields: []schema.Field{conditionAttr, messageAttr},
	}
	hold := schema.Block{
		Type:   holdBlock,
		Labels: []string{"name"},
		Doc: "Keeps the kubelet from starting at a boot while it is true, also on a node that has joined: " +
			"nothing is written, the gate stays shut, and the run is repeated. " +
			"`prelet=off` and `prelet run --no-hold` start it anyway. A kubelet that runs is not stopped. " +
			"See [holds](../operators/hardware.md#keep-pods-off-a-broken-machine). There are 16 at most.",
		Fields: []schema.Field{holdWhenAttr, holdForAttr, holdMessageAttr},
	}

	nodeCondition := schema.Block{
		Type:    nodeCondBlock,
		Labels:  []string{"type"},
		ForEach: true,
		Doc: "A condition of the own Node, as `example.com/GPUReady`, for programs that keep pods away from the node " +
			"until it is `True`. It is `False` from the begin of a boot until the kubelet is healthy " +
			"and each `check` holds, while the gate stays shut, and when the node shuts down. " +
			"It is never part of a verdict. " +
			"See [node conditions](../operators/node-conditions.md). There are 16 at most.",
		Fields: []schema.Field{driftAttr},
		Blocks: []schema.Block{{
			Type: checkBlock,
			Doc: "What must be true of this machine for the status `True`. " +
				"Without one, a healthy kubelet is enough.",
			Fields: []schema.Field{checkedAttr, checkMessageAttr},
		}},
	}

	return stages.Spec{
		Phase:  schema.Render,
		Bounds: &boundAttr,
		Block: schema.Block{
			Type: "restart",
			Doc: "What happens after files changed: start or restart, verify, roll back. " +
				"The stage named `kubelet` is the kubelet's, and so is the only one without `unit`. " +
				"Each other is another unit, of which there are 16 at most; `action` and `settle` are for those, " +
				"and `rollback`, `reconcile_labels`, `taint_credential` and the blocks for the kubelet.",
			Fields: []schema.Field{
				unitAttr,
				actionAttr,
				unitSettleAttr,
				rollbackAttr,
				reconcileAttr,
				taintCredentialAttr,
			},
			Blocks: []schema.Block{verify, annotations, nodeCondition, precondition, hold},
		},
	}
}

// Outputs implements stages.Stage.
func (Stage) Outputs(stages.Declared) cty.Type {
	return cty.EmptyObject
}

// Render implements stages.Renderer.
func (Stage) Render(
	cfg schema.Body,
	n desired.Node,
	in stages.Inputs,
) (stages.Rendering, stages.Output, hcl.Diagnostics) {
	r := renderer{
		cfg:  cfg,
		in:   in,
		name: strings.TrimPrefix(in.Address, "restart."),
	}

	var out stages.Rendering
	if r.name == "kubelet" || in.IsOnly && unitAttr.Of(cfg).Expr == nil {
		out.Activation = r.kubelet()
		r.checkTaints(n)
	} else {
		out.Unit = r.unit()
	}

	return out, stages.Output{Value: cty.EmptyObjectVal}, r.Diags
}

// renderer renders one stage and collects its diagnostics.
type renderer struct {
	cfg  schema.Body
	in   stages.Inputs
	name string // of the stage
	origin.Collector
}

// unit returns the action of apply on a unit other than the kubelet's; nil if it is unknown.
func (r *renderer) unit() *desired.Unit {
	r.refuseKubeletArguments()

	timeout := defaultUnitTimeout
	if hasTimeout(r.in) {
		timeout = schema.ParseDuration(r.in.Timeout)
	}
	settle := unitSettleAttr.Of(r.cfg)
	quiet := schema.ParseDuration(settle)
	if settle.Expr != nil && quiet > 0 && quiet >= timeout {
		r.Error(fault.WrongType, settle.Range, "The unit can never settle",
			"timeout (%s) must be longer than settle (%s).", timeout, quiet)
	}

	unit := unitAttr.Of(r.cfg)
	meant := unit.V // or the name that is suggested in place of it
	if !isUnitName(meant) {
		meant = cmp.Or(strings.TrimSuffix(strings.SplitN(meant, ".", 2)[0], "@"), "NAME") + ".service"
	}
	action := actionAttr.Of(r.cfg)
	switch {
	case unit.Null():
		r.Error(
			fault.MissingArgument,
			unit.Range,
			"Which unit?",
			"Stage restart.%s is for another unit than the kubelet's: write unit = \"NAME.service\". "+
				"The kubelet's stage is the one named \"kubelet\".",
			r.name,
		)

		return nil
	case !unit.Set() || !action.Set():
		return nil
	case slices.Contains(unitfile.PreletUnits(), meant):
		r.Error(fault.Conflict, unit.Range, "A unit of prelet's",
			"%s runs prelet, so prelet cannot restart it. Remove this stage.", meant)
	case meant != unit.V:
		r.Error(fault.WrongType, unit.Range, "Not a unit",
			"%q is not the name of a service, timer or socket, such as %q.", unit.V, meant)
	}

	return &desired.Unit{
		Stage:         r.name,
		Unit:          unit.V,
		Action:        action.V,
		TimeoutMillis: timeout.Milliseconds(),
		SettleMillis:  quiet.Milliseconds(),
		Range:         unit.Range,
	}
}

// refuseKubeletArguments refuses what only the kubelet's stage takes.
func (r *renderer) refuseKubeletArguments() {
	refuse := func(at hcl.Range, what string) {
		r.Error(fault.UnknownArgument, at, what+" is the kubelet's",
			"Stage restart.%s is for another unit, since it is not named \"kubelet\". "+
				"Move it into stage \"restart\" \"kubelet\", or remove it.", r.name)
	}

	for _, attr := range []schema.Attr[bool]{rollbackAttr, reconcileAttr} {
		if v := attr.Of(r.cfg); v.Expr != nil {
			refuse(v.Range, attr.Name)
		}
	}
	if v := taintCredentialAttr.Of(r.cfg); v.Expr != nil {
		refuse(v.Range, taintCredentialAttr.Name)
	}
	blocks := r.cfg.Blocks
	kubelets := slices.Concat(
		blocks[verifyBlock],
		blocks[annotationsBlock],
		blocks[nodeCondBlock],
		blocks[preconditionBlock],
		blocks[holdBlock],
	)
	for _, b := range kubelets {
		if b.Written {
			refuse(b.Range, b.Type)
		}
	}
}

// kubelet returns the actions of apply on the kubelet; nil if they are unknown.
func (r *renderer) kubelet() *desired.Activation {
	r.refuseUnitArguments()

	verify, _ := r.cfg.One(verifyBlock)
	settle := settleAttr.Of(verify)
	timeout := timeoutAttr.Of(verify)
	r.checkTimes(settle, timeout)

	unit := unitAttr.Of(r.cfg)
	name := unit.V
	if unit.Null() {
		name = desired.DefaultUnit
	}
	isService := strings.HasSuffix(name, ".service") && !strings.ContainsAny(name, "/ ")
	if unit.Set() && !isService {
		r.Error(
			fault.WrongType,
			unit.Range,
			"Not a service",
			"%q: a unit as kubelet.service is needed.",
			name,
		)
	}

	for _, b := range r.cfg.Blocks[preconditionBlock] {
		r.checkPrecondition(b)
	}
	conditions := r.conditions()
	holds := r.holds()

	if !unit.Cty.IsKnown() {
		return nil
	}

	return &desired.Activation{
		Stage:           r.name,
		Unit:            name,
		SettleMillis:    schema.ParseDuration(settle).Milliseconds(),
		TimeoutMillis:   schema.ParseDuration(timeout).Milliseconds(),
		BoundMillis:     schema.ParseDuration(r.in.Timeout).Milliseconds(),
		Rollback:        rollbackAttr.Of(r.cfg).V,
		ReconcileLabels: reconcileAttr.Of(r.cfg).V,
		TaintCredential: taintCredentialAttr.Of(r.cfg).V,
		Configz:         configzAttr.Of(verify).V,
		Annotations:     r.annotations(),
		Conditions:      conditions,
		Holds:           holds,
	}
}

// checkTaints reports startup taints of a site that has taints patched: they are not.
func (r *renderer) checkTaints(n desired.Node) {
	credential := taintCredentialAttr.Of(r.cfg)
	if !credential.Set() {
		return
	}
	for _, t := range n.Taints {
		known, ok := kubelet.FindStartupTaint(t.Key)
		if !ok || !t.IsOfSite() || t.Startup {
			continue
		}
		r.Warn(
			fault.StartupTaint, credential.Range, fmt.Sprintf("%s does not keep taint %s", credential.V, t),
			"%s. prelet sets it when the node registers, and never puts it back. To keep pods away permanently, "+
				"use a key of your own.", origin.Capitalize(known.RemoveBy),
		)
	}
}

// annotations returns the settings of the site for the annotations of the Node; nil if the site does not enable them.
func (r *renderer) annotations() *annotation.Settings {
	b, ok := r.cfg.One(annotationsBlock)
	if !ok {
		return nil
	}

	return &annotation.Settings{Revision: revisionAttr.Of(b).V}
}

// refuseUnitArguments refuses what only stages of other units take.
func (r *renderer) refuseUnitArguments() {
	for _, attr := range []schema.Attr[string]{actionAttr, unitSettleAttr} {
		if v := attr.Of(r.cfg); v.Expr != nil {
			r.Error(
				fault.UnknownArgument,
				v.Range,
				"This is for other units",
				"The kubelet is started or restarted as it needs to be, "+
					"and verify { settle } says when it counts as healthy. "+
					"Remove it, or write unit for another unit in a stage of another name.",
			)
		}
	}
}

// checkTimes checks that each time contains the ones inside it: settle, verify.timeout, timeout.
func (r *renderer) checkTimes(settle, timeout schema.Value[string]) {
	s := schema.ParseDuration(settle)
	t := schema.ParseDuration(timeout)
	if s > 0 && t > 0 && t <= s {
		r.Error(fault.WrongType, timeout.Range, "The kubelet can never settle",
			"timeout (%s) must be longer than settle (%s).", t, s)
	}

	bound := schema.ParseDuration(r.in.Timeout)
	if hasTimeout(r.in) && bound < t {
		r.Error(
			fault.WrongType,
			r.in.Timeout.Range,
			"The activation ends before its verdict",
			"timeout (%s) bounds the whole activation and must not be shorter than verify { timeout } (%s), "+
				"the verdict inside it. Write both, or leave this one out.",
			bound,
			t,
		)
	}
}

func (r *renderer) checkPrecondition(b schema.Body) {
	condition := conditionAttr.Of(b)
	if condition.Set() && !condition.V {
		message := strings.Join(strings.Fields(messageAttr.Of(b).V), " ") // a fleet's report shows the summary only
		r.Error(fault.Precondition, condition.Range, "A precondition does not hold: "+strings.TrimSuffix(message, "."),
			"Nothing is written, and a boot tries again later.")
	}
}

func hasTimeout(in stages.Inputs) bool {
	return in.Timeout.Expr != nil && in.Timeout.Set()
}

// checkCredential refuses what systemd does not take as the name of a credential.
func checkCredential(name string) error {
	isBad := func(r rune) bool {
		return r <= ' ' || r == '/' || r == ':' || r >= 0x7f
	}
	isFileName := name != "" && name != "." && name != ".." && len(name) <= 255

	if !isFileName || strings.ContainsFunc(name, isBad) {
		return fmt.Errorf("invalid credential name %q: write a name such as kubelet-configz", name)
	}

	return nil
}

// checkRevision refuses a text that is not one short line.
func checkRevision(s string) error {
	isControl := func(r rune) bool { return !unicode.IsPrint(r) }

	if utf8.RuneCountInString(s) > maxRevision || strings.ContainsFunc(s, isControl) {
		return fmt.Errorf("revision must be one line of at most %d printable characters: "+
			"use trimspace() for the content of a file", maxRevision)
	}

	return nil
}

const unitNameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\@"

// isUnitName reports whether a name is that of a unit that can be acted on.
// Source: systemd.unit(5); a template without an instance is not a unit.
func isUnitName(s string) bool {
	dot := strings.LastIndexByte(s, '.')
	if dot < 1 || len(s) > 255 || strings.Trim(s, unitNameCharacters) != "" {
		return false
	}

	isTemplate := s[dot-1] == '@' || s[0] == '@'

	return !isTemplate && slices.Contains([]string{".service", ".timer", ".socket"}, s[dot:])
}
