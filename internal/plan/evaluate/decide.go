package evaluate

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/blame"
	"github.com/prelet/prelet/internal/plan/effective"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/hostfiles"
	"github.com/prelet/prelet/internal/plan/identity"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// makeInputs returns the inputs of one stage by those of every stage.
func makeInputs(in stages.Inputs, i *lang.Instance, s *lang.Site) stages.Inputs {
	in.Address = i.Addr()
	in.IsOnly = len(s.OfType(i.Type)) == 1
	in.NoCluster = s.Cluster == nil
	in.NoDetect = len(s.OfType(stages.DetectHW)) == 0
	in.Detectors = s.DetectorNames()
	in.Unit = hostfiles.KubeletUnit(s)

	return in
}

type decideInput struct {
	checked  Checked
	eval     *eval.Eval
	tape     *tape.Tape // answers with the content of managed files before prelet; nil in a check
	now      func() time.Time
	failed   map[string]bool // gather stages that failed, by address
	isBroken bool            // earlier steps of a check had errors: the base is not read then
	basis    stages.Inputs   // of every stage, without the node block and the base
}

// Decided is the result of decide: the node before decide stages, and what they add to it.
type Decided struct {
	eval     *eval.Eval         // with the outputs of decide stages
	basis    stages.Inputs      // of every stage, with the node block and the base
	previous *identity.Previous // nil: none

	contributions []desired.Contribution   // in site order
	maybe         [][]desired.Contribution // in a check, by stage: its contributions if its condition is true

	// hadBaseErrors has the render stages whose configuration was read for the base, by address, and whether it had
	// an error. Those errors have been reported.
	hadBaseErrors map[string]bool
}

// decide decodes the node block, asks the renderers for the base (the node before decide stages), checks whose
// identity is on the disk, and runs the decide stages: dependencies first, then site order.
//
// Inputs: the outputs of gather stages, the kubelet's answers, and through the tape the content of managed files
// before prelet. Result: the base, and the contributions of stages in site order. Fails with an error of the node
// block, the base or the identity, before any stage runs (a check continues); and with the errors of stages, except
// errors that a null fact causes in a label or a taint.
func decide(in decideInput) (out Decided, found Findings) {
	in.basis.Node = identity.Decode(in.checked.site, in.eval, &found.Collector)
	in.basis.DropIns = in.readDropIns
	in.basis.Created = in.readCreated
	in.basis.Start = in.readStart()

	out.hadBaseErrors = map[string]bool{}
	for _, i := range in.checked.order {
		baser, ok := i.Stage.(stages.Baser)
		if !ok {
			continue
		}
		base, hadErrors, more := in.readBase(
			i,
			baser,
			in.isBroken || found.Diags.HasErrors(),
		)
		in.basis.Base = base
		out.hadBaseErrors[i.Addr()] = hadErrors
		found.add(more)
	}

	out.previous = identity.Check(&in.basis, &found.Collector, in.describeOwner)
	out.eval = in.eval
	out.basis = in.basis
	if found.Diags.HasErrors() && !in.eval.Checking() {
		return out, found
	}

	found.add(in.runStages(&out))

	return out, found
}

// runStages runs the decide stages, and adds their results to out. Contributions are in site order.
func (in decideInput) runStages(out *Decided) (found Findings) {
	failed := maps.Clone(in.failed)
	if failed == nil {
		failed = map[string]bool{}
	}
	byStage := map[string]decidedStage{}

	for _, i := range in.checked.order {
		if i.Spec.Phase != schema.Decide {
			continue
		}
		one := in.runStage(i, failed)
		found.add(one.Findings)
		byStage[i.Addr()] = one
		failed[i.Addr()] = one.isFatal
		in.eval = withOutput(in.eval, i, one.output)
	}

	out.eval = in.eval
	for _, i := range in.checked.site.Stages {
		one := byStage[i.Addr()]
		out.contributions = append(out.contributions, one.adds...)
		if len(one.maybe) > 0 {
			out.maybe = append(out.maybe, one.maybe)
		}
	}

	return found
}

type decidedStage struct {
	output      cty.Value              // with state
	adds, maybe []desired.Contribution // maybe: in a check, where its condition is unknown
	isFatal     bool                   // failed, and so do the stages that need it
	Findings
}

// runStage runs one decide stage: its copies, their contributions, and its output. If a stage that it needs failed,
// it fails too, without a message of its own.
func (in decideInput) runStage(i *lang.Instance, failed map[string]bool) decidedStage {
	t := in.checked.types[i.Addr()]
	started := in.now()
	out := decidedStage{output: makeAbsentOutput(i, t, stateFailed)}
	if slices.ContainsFunc(in.checked.needs[i.Addr()], func(n string) bool {
		return failed[n]
	}) {
		out.isFatal = true
		out.Stages = []StageReport{{i.Addr(), stateFailed, 0}}
		return out
	}

	copies, diags := in.stageScope(i).Copies(i.When, i.ForEach)
	out.addDiags(i, diags)
	state := stateFailed
	if !diags.HasErrors() {
		state = in.runCopies(i, copies, &out)
	}
	took := in.now().Sub(started)
	out.Stages = []StageReport{{i.Addr(), state, took}}

	return out
}

// runCopies runs the copies of a stage, and returns its state: failed if one of them failed, skipped if there is none.
// If the condition of the stage is unknown, it adds nothing, and in a check its contributions are possible.
func (in decideInput) runCopies(
	i *lang.Instance,
	copies eval.Copies,
	out *decidedStage,
) (state string) {
	t := in.checked.types[i.Addr()]
	outputs := map[string]cty.Value{}
	state = stateOK
	if len(copies.All) == 0 && i.ForEach == nil {
		state = stateSkipped
	}

	for _, c := range copies.All {
		adds, output, diags := in.runCopy(i, c)
		outputs[c.Key] = output
		out.addDiags(i, diags)
		switch {
		case diags.HasErrors():
			state = stateFailed
		case copies.Known:
			out.adds = append(out.adds, adds)
		case in.eval.Checking():
			out.maybe = append(out.maybe, adds)
		}
	}

	out.output = combineOutputs(i, t, outputs)
	if !copies.Known {
		out.output = makeUnknownOutput(i, t)
	}

	return state
}

func (in decideInput) stageScope(i *lang.Instance) eval.Scope {
	scope := in.eval.Scope(i.Addr())
	if i.Spec.SoftItems {
		return scope.Soft()
	}

	return scope
}

// addDiags adds the diagnostics of a stage. Errors that a null fact caused in a label or a taint become warnings,
// and the boot is degraded; any other error is fatal.
func (out *decidedStage) addDiags(i *lang.Instance, ds hcl.Diagnostics) {
	for _, d := range ds {
		if eval.IsLeftOut(d) {
			out.Degrade(fault.NullFact, fmt.Sprintf(
				"stage %s left out an item because a fact is null: %s", i.Addr(), origin.Place(eval.ItemOf(d)),
			))
		}
	}
	out.Report(eval.Soften(ds)...)
	if ds.HasErrors() && !eval.AreLeftOut(ds) {
		out.isFatal = true
	}
}

// runCopy runs one copy of a decide stage, and returns its contribution and its output with state.
func (in decideInput) runCopy(i *lang.Instance, c eval.Copy) (desired.Contribution, cty.Value, hcl.Diagnostics) {
	failed := setState(value.Absent(in.checked.types[i.Addr()]), stateFailed)
	cfg, diags := decodeStage(i, c.Scope)
	if diags.HasErrors() && !in.eval.Checking() { // in a check, a refused value is unknown
		return desired.Contribution{}, failed, diags
	}

	inputs := makeInputs(in.basis, i, in.checked.site)
	adds, o, more := i.Stage.(stages.Decider).Decide(cfg, inputs)
	diags = append(diags, more...)
	if !more.HasErrors() {
		diags = append(diags, checkKnown(in.eval, i, o.Value)...)
	}
	if diags.HasErrors() {
		return desired.Contribution{}, failed, diags
	}
	adds.Stage = i.Addr()

	return adds, setState(o.Value, stateOK), diags
}

// readBase asks a renderer for the base, the node before decide stages. hadErrors: its configuration has an error.
// With isBroken only the configuration is decoded.
func (in decideInput) readBase(i *lang.Instance, b stages.Baser, isBroken bool) (
	base desired.Base, hadErrors bool, found Findings,
) {
	scope := in.eval.Scope(i.Addr()).Only(schema.Gather)
	cfg, diags := decodeStage(i, scope)
	found.Report(diags...)
	if isBroken || diags.HasErrors() {
		return base, diags.HasErrors(), found
	}

	inputs := makeInputs(in.basis, i, in.checked.site)
	base, diags = b.Base(cfg, inputs, in.readOriginal)
	found.Report(blame.Server(in.checked.site, base, diags)...)
	_, hasConfig := cfg.One("kubelet_config")
	_, hasFlags := cfg.One("kubelet_flags")
	if (hasConfig && !base.ConfigKnown || hasFlags && !base.FlagsKnown) && !diags.HasErrors() {
		found.Report(checkKnown(in.eval, i, cty.DynamicVal)...)
	}

	return base, false, found
}

// readOriginal returns a managed file as it was before prelet.
func (in decideInput) readOriginal(path string) (tape.TargetAns, error) {
	if in.tape == nil {
		return tape.TargetAns{}, &fault.Fault{Code: fault.Unread, Why: "a check has no machine"}
	}
	req := tape.OriginalReq{Path: path}
	a, _, err := tape.Original.Ask(in.eval.AskContext(), in.tape, req)

	return a, err
}

// readDropIns returns the drop-ins in a folder of the image, as they are without prelet.
func (in decideInput) readDropIns(dir string) []stages.DropIn {
	if in.tape == nil {
		return nil
	}
	list, _, err := tape.DropIns.Ask(in.eval.AskContext(), in.tape, tape.DropInsReq{Dir: dir})
	if err != nil {
		return nil
	}

	return effective.ListDropIns(dir, list, in.readDropIn)
}

// readDropIn returns the text of a drop-in, which may be a link.
func (in decideInput) readDropIn(path string) (string, error) {
	a, err := in.readOriginal(path)
	if err == nil && a.Exists && !a.Dir {
		return a.Text, nil
	}
	if err == nil { // prelet has made it
		return "", &fault.Fault{Code: fault.Unread, Why: path + " was not there before prelet"}
	}

	return in.readFile(path)
}

// readCreated returns the drop-in at a path as it is now; exists is false if there is none.
func (in decideInput) readCreated(path string) (d stages.DropIn, exists bool) {
	text, err := in.readFile(path)

	return effective.ParseCreated(path, text, err)
}

// readFile returns the text of a file as it is now.
func (in decideInput) readFile(path string) (string, error) {
	f, _, err := tape.File.Ask(in.eval.AskContext(), in.tape, tape.FileReq{Path: path})
	if err == nil && f.Private != "" {
		err = &fault.Fault{Code: fault.Denied, Why: f.Private}
	}

	return f.Text, err
}

// describeOwner describes the machine of a Node if it is certainly another one; "" if it is this machine or not known.
// isAnswered is false if the cluster was asked and did not answer.
func (in decideInput) describeOwner(name string) (owner string, isAnswered bool) {
	access := in.basis.Access
	if in.tape == nil || len(access.Servers) == 0 && access.DiscoveryFile == "" {
		return "", true
	}

	req := tape.NodeReq{Access: access, Name: name, Own: true}
	a, _, err := tape.Node.Ask(in.eval.AskContext(), in.tape, req)

	return a.Taken, err == nil && a.Note == ""
}

// readStart returns how the kubelet's unit starts it. It is nil where that is not known, such as below another root
// or in a recording that is older than the question.
func (in decideInput) readStart() *tape.StartAns {
	if in.tape == nil {
		return nil
	}

	req := tape.UnitReq{Name: hostfiles.KubeletUnit(in.checked.site), Start: true}
	a, _, _ := tape.Unit.Ask(in.eval.AskContext(), in.tape, req) // a failed answer has no start

	return a.Start
}
