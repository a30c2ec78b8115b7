// Package commit is the only way from a plan to the disk. It turns a plan into a proposal for package generation, and
// enters package activation with it (Run). It also decides how a failed run ends: which failures keep the last good
// generation, and with which exit status. The commands run, rollback, verify and recover all end here, so that they
// give the same result.
//
// Besides the writes of generation and activation, the package writes two small files of the state folder: holds.json,
// and the machine that a person has accepted. WriteIfChanged writes small files for other packages.
package commit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/hostfiles"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

type ProposalInput struct {
	Store    *generation.Store // locked and recovered
	Plan     *evaluate.Plan    // complete
	Node     PlannedNode
	Redactor *secret.Redactor // of the secrets of this node
	Root     nodefile.Root    // whose names of users and groups are the owners of files
	Flags    []string         // of the kubelet's command line, as planned; nil: not checked
	NodeName string           // of the Node object; "": not checked
	Machine  machineid.Hashes
	Healthz  string // URL; "": not checked
	Site     string // digest of the pulled site of the plan; "" if it has none
	Waits    string // why the plan must not be applied now, although nothing is wrong; "" if it may
}

// PlannedNode is the node that a plan was made of, with what only a commit needs of it.
type PlannedNode interface {
	// Recording returns the recording of a plan. A run that changes nothing does not need it.
	Recording(p *evaluate.Plan) *tape.Recording
	// Secret returns the content of a credential.
	Secret(name string) ([]byte, error)
	// Hidden returns the observed state of a file whose content is in no plan; nil if it is not known.
	Hidden(path string) *generation.FileState
}

// PlanID returns the identity under which a plan is held: its hash and the kubelet's version, since another kubelet may
// accept a plan that this one rejects.
func PlanID(p *evaluate.Plan) string {
	return p.Hash + "@" + cmp.Or(p.Kubelet.KnownVersion(), "unknown")
}

// BuildProposal returns the plan with its secrets, in the order of publishing: the kubelet's flags last.
func BuildProposal(o ProposalInput) (generation.Proposal, activation.Spec, error) {
	out := generation.Proposal{PlanID: PlanID(o.Plan)}
	spec := buildSpec(o)

	if err := checkUnmarked(o); err != nil {
		return out, spec, err
	}

	files := listTargetFiles(o.Plan)
	for _, f := range files {
		t, err := buildTarget(o, f)
		if err != nil {
			return out, spec, err
		}

		out.Targets = append(out.Targets, t)

		addFile(&spec, o.Plan.Node, f, t.Content)
	}

	adopted, err := adopt(o.Store, o.Plan, &out, &spec)
	if err != nil {
		return out, spec, err
	}

	if spec.Reconcile || spec.TaintCredential != "" { // needed even if no file changes
		addExpected(o, &spec)
	}

	// Even without a change of files: the generation in place has to be of this machine, with these startup taints.
	out.Force = replacesForeign(o) || changesStartupTaints(o)

	out.Late = func() (map[string][]byte, error) { return buildBlobs(o, spec, adopted) }

	return out, spec, nil
}

// addFile adds a planned file to the spec. A file that does not affect the kubelet's start is only in the generation.
func addFile(spec *activation.Spec, n desired.Node, f desired.File, content []byte) {
	if strings.Contains(f.Path, "/systemd/system/") {
		spec.UnitFiles = true
	}

	switch {
	case f.Kind != desired.Regular || f.CreateOnly:
	case f.Purpose == "kubeconfig": // the kubelet may write it again
		spec.ReplacesCA = true
	case isBootstrapKubeconfig(f):
		spec.Retire = append(spec.Retire, f.Path)
	case hostfiles.Decides(n, f):
		spec.Files[f.Path] = generation.Checksum(content)
	}
}

const (
	joinedKubeconfig    = "/etc/kubernetes/kubelet.conf" // the kubelet's own file
	bootstrapKubeconfig = "/etc/kubernetes/bootstrap-kubelet.conf"
)

func isBootstrapKubeconfig(f desired.File) bool {
	return f.Purpose == "bootstrap-kubeconfig"
}

// replacesForeign reports whether the generation in place was made on another machine.
func replacesForeign(o ProposalInput) bool {
	id := o.Plan.Kubelet.Identity
	if id != nil && id.Ours { // as observed for the plan
		return false
	}

	cur := readCurrent(o.Store)

	return cur != nil && o.compareMachine(cur.Gen).Verdict != machineid.ThisMachine
}

// compareMachine compares the machine that made a generation with this one.
func (o ProposalInput) compareMachine(gen int) machineid.Comparison {
	return machineid.Compare(o.Store, gen, o.Machine, func() (string, bool) {
		if id := o.Plan.Kubelet.Identity; id != nil {
			return id.Node, id.Older
		}

		return "", false
	})
}

// buildBlobs returns the parts of a generation other than its files: the plan, its recording, and the spec of its
// activation.
func buildBlobs(
	o ProposalInput,
	spec activation.Spec,
	adopted []desired.StoredFile,
) (map[string][]byte, error) {
	rec := o.Node.Recording(o.Plan)
	rec.Compact = true

	var text bytes.Buffer
	if err := rec.Encode(&text); err != nil {
		return nil, err
	}

	out := map[string][]byte{tape.RecordingBlob: text.Bytes()}

	if !spec.Reconcile && spec.TaintCredential == "" {
		addExpected(o, &spec)
	}

	var err error
	if out[activation.SpecBlob], err = spec.Encode(); err != nil {
		return nil, err
	}

	out[desired.PlanBlob], err = encodePlan(o.Plan, o.Machine, adopted)

	return out, err
}

// listTargetFiles returns the planned files and those that the comparison adds: the kubelet's state files as absent.
func listTargetFiles(p *evaluate.Plan) []desired.File {
	files := slices.Clone(p.Node.Files)
	for _, c := range p.Changes {
		if (c.File.Purpose == "state" || c.File.Purpose == "identity") && c.Action == "delete" {
			files = append(files, c.File)
		}
	}

	rank := func(f desired.File) int {
		switch {
		case f.Kind == desired.Directory:
			return 0
		case f.Purpose == "kubelet-flags":
			return 2
		}

		return 1
	}

	slices.SortStableFunc(files, func(a, b desired.File) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}

		return strings.Compare(a.Path, b.Path)
	})

	return files
}

// checkUnmarked refuses a secret in what everybody may read: labels, taints, flags, and files that the plan does not
// know to hold one. It is the last wall, for a value that came into the site by another way than by its name, as a
// copy in a file.
func checkUnmarked(o ProposalInput) error {
	refuse := func(what string, origins []origin.Origin) error {
		return &fault.Fault{
			Code:    fault.Sensitive,
			At:      origin.Place(origin.DecidingRange(origins)),
			Summary: what + " would hold a secret of this node",
			Why: "its value is that of a credential, which the site does not name there, so nothing would " +
				"keep it secret",
			Next: "Find out how the value comes there; in a file, write credential(\"NAME\") for it",
		}
	}

	n := o.Plan.Node
	for _, l := range n.Labels {
		if o.Redactor.Holds(l.Value) || o.Redactor.Holds(l.Key) {
			return refuse("A label", l.Origins)
		}
	}
	for _, t := range n.Taints {
		if o.Redactor.Holds(t.Value) || o.Redactor.Holds(t.Key) {
			return refuse("A taint", t.Origins)
		}
	}
	for _, x := range n.Flags {
		if o.Redactor.Holds(x.Value) {
			return refuse("Flag --"+x.Name, x.Origins)
		}
	}
	for _, f := range n.Files {
		isPlain := f.Kind == desired.Regular && len(f.Text.Secrets()) == 0
		if isPlain && o.Redactor.Holds(f.Text.Template()) {
			return refuse(f.Path, f.Origins)
		}
		if o.Redactor.Holds(f.Path) {
			return refuse("The path of a file", f.Origins)
		}
	}

	return nil
}

func buildTarget(o ProposalInput, f desired.File) (generation.Target, error) {
	t := generation.Target{
		Path:       f.Path,
		Mode:       generation.Keep,
		UID:        generation.Keep,
		GID:        generation.Keep,
		CreateOnly: f.CreateOnly,
		Secret:     len(f.Text.Secrets()) > 0,
	}

	t.Seen = observedState(o, f.Path, t.Secret)
	if f.Purpose == "identity" { // of another machine: after a restore two machines would have the same identity
		t.Forget = true
		t.Secret = true
	}

	if f.Mode != 0 {
		t.Mode = int(f.Mode)
	}

	if f.Owner != "" {
		uid, gid, err := o.Root.FindOwner(f.Owner)
		if err != nil {
			return t, generation.NewFault(
				fault.CannotWrite, "give an owner to", f.Path, err,
				"name a user and a group of this node, or use numbers",
			)
		}

		t.UID = uid
		t.GID = gid
	}

	switch f.Kind {
	case desired.Directory:
		t.Kind = generation.Dir
	case desired.Regular:
		t.Kind = generation.File

		b, err := f.Text.Bytes(o.Node.Secret)
		if err != nil {
			return t, newSecretFault(f.Path, f.Text.Secrets(), err)
		}

		t.Content = b
	}

	if isBootstrapKubeconfig(f) {
		if err := checkBearer(f, o.Node); err != nil {
			return t, err
		}
	}

	return t, nil
}

// checkBearer refuses a token that no kubelet can send. A node that fetches a ConfigMap has checked it before; other
// nodes check it only here.
func checkBearer(f desired.File, from PlannedNode) error {
	for _, name := range f.Text.Secrets() {
		b, err := from.Secret(name)
		if err == nil && !isToken(b) {
			return newSecretFault(f.Path, []string{name}, errors.New(
				"not a token: it is empty or has an invalid character; `kubeadm token create` makes one",
			))
		}
	}

	return nil
}

func isToken(b []byte) bool {
	isInvalid := func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }

	return len(b) > 0 && !bytes.ContainsFunc(b, isInvalid)
}

// newSecretFault returns the error for a file that needs credentials which cannot be used. It has the code of err, or
// fault.CredentialMissing if err has none.
func newSecretFault(path string, names []string, err error) *fault.Fault {
	f := &fault.Fault{
		Code:    fault.CredentialMissing,
		At:      fault.Place{File: path},
		Summary: "needs credential " + strings.Join(names, ", "),
		Err:     err,
	}

	var cause *fault.Fault
	if errors.As(err, &cause) {
		f.Code = cause.Code
	}

	return f
}

func buildSpec(o ProposalInput) activation.Spec {
	a := activation.Spec{
		Start: activation.Start{
			Unit:          activation.DefaultUnit,
			SettleMillis:  activation.DefaultSettle.Milliseconds(),
			TimeoutMillis: activation.DefaultTimeout.Milliseconds(),
			Rollback:      true,
		},
		KubeletState: activation.KubeletState{
			Healthz: o.Healthz,
			Flags:   o.Flags,
			Node:    o.NodeName,
			Files:   map[string]string{},
		},
		States: kubelet.ManagerPolicies(o.Plan.Node.Effective),
		Pods:   describePodSettings(o.Plan),
	}
	for _, u := range o.Plan.Units {
		a.Units = append(a.Units, activation.UnitSpec{
			Unit:          u.Unit.Unit,
			Action:        u.Action,
			TimeoutMillis: u.TimeoutMillis,
			SettleMillis:  u.SettleMillis,
			Files:         u.Files,
			System:        u.IsSystem,
		})
	}
	for _, c := range o.Plan.Changes {
		if !slices.Contains(c.Notifies, o.Plan.Restart.Unit) {
			a.Others = append(a.Others, c.File.Path)
		}
	}
	if x := o.Plan.Node.Activation; x != nil {
		a.Unit = x.Unit
		a.Rollback = x.Rollback
		a.Reconcile = x.ReconcileLabels
		a.TaintCredential = x.TaintCredential
		a.Annotations = x.Annotations
		a.SettleMillis = x.SettleMillis
		a.TimeoutMillis = x.TimeoutMillis
		a.BoundMillis = x.BoundMillis
	}

	if o.Plan.Kubelet.Joined || slices.ContainsFunc(o.Plan.Node.Files, isBootstrapKubeconfig) {
		a.Kubeconfig = joinedKubeconfig
	}

	return a
}

// encodePlan returns the plan as a generation stores it, with the files that it adopted from the generation before.
func encodePlan(
	p *evaluate.Plan,
	on machineid.Hashes,
	adopted []desired.StoredFile,
) ([]byte, error) {
	files := []desired.StoredFile{}
	for _, f := range listTargetFiles(p) {
		files = append(files, hostfiles.NewStoredFile(p.Node, f))
	}

	return json.Marshal(struct {
		desired.StoredPlan
		machineid.Hashes // the machine that it was made on; read by machineid
	}{
		desired.StoredPlan{
			FormatVersion: 1,
			Hash:          p.Hash,
			Node:          p.Node.Stored(),
			Files:         append(files, adopted...),
		},
		on,
	})
}

// RunBelowRoot commits a plan below a root where no unit runs, so without a verdict. root is for messages. Held plans
// do not count there; a pin does, unless retry releases it with the commit.
func RunBelowRoot(o ProposalInput, retry bool, root string) Result {
	p := o.Plan
	res := Result{Plan: p, Code: p.Code()}
	if !p.Complete {
		res.Reason = describeFailure(p, nil)
		res.Summary = res.Reason
		return res
	}

	o.Machine.Host = "" // an image's name is not that of a machine

	if why, isPinned := WhyPinned(o.Store); isPinned && !retry {
		res.Held = fmt.Sprintf(
			"%s, so nothing is written; to apply the site again: `prelet rollback --release --root %s`",
			why,
			nodefile.QuoteWord(root),
		)
		res.Outcome.Generation = numberInPlace(o.Store)
		res.Summary = Summarize(res.Outcome, false)

		return res
	}

	gen, changed, err := writeToDisk(o, retry)
	if err != nil {
		return Result{
			Plan:    p,
			Err:     err,
			Code:    fault.CodeOf(err),
			Summary: err.Error(),
			Reason:  err.Error(),
		}
	}

	res.Outcome.Generation = gen
	res.Changed = changed
	if cur := readCurrent(o.Store); cur != nil && changed {
		res.Entries = generation.ListChanged(cur.Entries)
	}
	res.Summary = Summarize(res.Outcome, changed) + res.describeOverwritten()

	return res
}

// numberInPlace returns the number of the generation in place; 0 for none.
func numberInPlace(s *generation.Store) int {
	cur := readCurrent(s)
	if cur == nil {
		return 0
	}

	return cur.Gen
}

// writeToDisk commits a plan. With release the held plans and the pin are released with the commit, or alone if nothing
// has to change. It reports whether anything was written.
func writeToDisk(o ProposalInput, release bool) (gen int, changed bool, err error) {
	p, _, err := BuildProposal(o)
	if err != nil {
		return 0, false, err
	}

	p.Release = release
	p.Unjudged = []byte(
		`{"format_version":1,"verdict":"","why":"files below a root: nothing was started on them"}`,
	)

	t, err := o.Store.Begin(p)
	if errors.Is(err, generation.ErrNothing) {
		if err = nil; release {
			err = o.Store.Release()
		}
		return numberInPlace(o.Store), false, err
	}
	if err != nil {
		return 0, false, err
	}

	gen, err = t.Commit()
	if err != nil {
		return 0, false, err
	}

	return gen, true, t.Publish()
}

// Collect removes generations that are not kept, after a verdict, or after a change that nothing judges. On an error
// they stay, and the next run tries again.
func (r Result) Collect(s *generation.Store) error {
	isBelow := r.Changed && r.Outcome.Verdict == activation.Unchanged
	if r.Err != nil || r.Outcome.Verdict != activation.Good && r.Outcome.From == 0 && !isBelow {
		return nil
	}

	return s.Collect(keepGenerations)
}

// keepGenerations is the number of generations that are kept, in addition to the last good one.
const keepGenerations = 10
