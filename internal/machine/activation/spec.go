package activation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/annotation"
)

// SpecBlob is the name under which a generation keeps its Spec.
const SpecBlob = "activation.json"

// Spec is how to start the unit on one generation, and what to check then. It is stored in the generation, so that a
// later boot, or a node after a rollback, judges by the spec of that time. Package commit fills it from a plan. The
// order of the fields, also of the embedded ones, is their order in the stored document.
type Spec struct {
	Start
	KubeletState
	NodeState

	// States contains the state files of the kubelet's managers, each with the policy that writes it: a kubelet with
	// another policy exits on such a file. Files of disabled managers are left out.
	States map[string]string `json:"states,omitempty"`

	// Pods contains the settings that must match the container runtime: the cgroup driver and the runtime endpoint. ""
	// when they are not known.
	Pods string `json:"pods,omitempty"`

	Units  []UnitSpec `json:"units,omitempty"`  // in the order in which they are acted on
	Others []string   `json:"others,omitempty"` // managed files for which the kubelet is not restarted

	NodePatch

	// Serving is the folder of the kubelet's certificates, if the kubelet requests the certificate of its API from the
	// cluster (serverTLSBootstrap); "": not checked, as in generations of 0.1.0. It is never part of a verdict.
	Serving string `json:"serving,omitempty"`

	// ReplacesCA reports whether prelet has replaced the CAs in the kubelet's own kubeconfig. 0.1.0 would put the old
	// file back, and with it CAs that may no longer be the cluster's.
	ReplacesCA bool `json:"replaces_ca,omitempty"`
}

// Start is which unit is started, for how long it is judged, and what happens then.
type Start struct {
	Unit string `json:"unit"` // the kubelet's unit
	// SettleMillis is how long the kubelet must run without a change before it counts as healthy.
	SettleMillis int64 `json:"settle_ms"`
	// TimeoutMillis limits the start and the watch together.
	TimeoutMillis int64 `json:"timeout_ms"`
	// BoundMillis limits the whole activation including a rollback and its watch; 0: no limit.
	BoundMillis int64 `json:"bound_ms,omitempty"`
	Rollback    bool  `json:"rollback"` // roll back after a bad verdict
	// UnitFiles is set if a managed file is a unit file or a drop-in: a rollback needs a reload.
	UnitFiles bool `json:"unit_files,omitempty"`
}

// KubeletState is the expected state of the kubelet, and the files that it reads. A zero value is not checked.
type KubeletState struct {
	Healthz    string   `json:"healthz,omitempty"`    // URL on loopback
	Kubeconfig string   `json:"kubeconfig,omitempty"` // the file that exists on a node that has joined
	Flags      []string `json:"flags,omitempty"`      // of the kubelet's command line, as planned

	// Files are the managed files that decide whether the kubelet runs: path → sha256 of the content, 64 hexadecimal
	// digits. A kubelet must not start while one differs. All other managed files are only in the generation: they are
	// drift when they differ. Generations of 0.1.0 have all files here.
	Files map[string]string `json:"files,omitempty"`
	Node  string            `json:"node,omitempty"` // name of the Node object

	// Retire lists files that are removed as soon as the generation is good, such as the kubeconfig with the bootstrap
	// token. Files must not contain them: they may be gone when a later boot checks.
	Retire []string `json:"retire,omitempty"`

	// Sources contains the place of an item in the site, as used in messages ("site.hcl:12:5, label.gpu"). The keys are
	// the names of items in package failure.
	Sources map[string]string `json:"sources,omitempty"`

	// Configz is checked if the site gives credentials for it; nil: not checked.
	Configz *kubelet.Configz `json:"configz,omitempty"`
}

// NodeState is the expected Node object: a difference is drift (see labels.go). A zero value is not checked.
type NodeState struct {
	Joins  bool              `json:"joins,omitempty"`  // the node joins with this generation
	Labels map[string]string `json:"labels,omitempty"` // as planned
	Taints kubelet.Taints    `json:"taints,omitempty"` // as planned
	// GoneLabels and GoneTaints are those of earlier generations that the plan has dropped: key → values.
	GoneLabels map[string][]string `json:"gone_labels,omitempty"`
	GoneTaints kubelet.Taints      `json:"gone_taints,omitempty"`
	// Reconcile: the node patches its own labels after a good verdict.
	Reconcile bool `json:"reconcile_labels,omitempty"`
}

// NodePatch has the patches of the Node, besides those of labels, that follow a result. It is never part of a verdict.
type NodePatch struct {
	// Annotations is nil if the node does not annotate its Node.
	Annotations *annotation.Settings `json:"annotations,omitempty"`

	// TaintCredential is the name of the credential with which the taints of the site are patched; "": they are not.
	// OwnTaints are those taints, without startup taints. StartupTaints are the planned ones that are never patched,
	// also if they were own taints before.
	TaintCredential string         `json:"taint_credential,omitempty"`
	OwnTaints       kubelet.Taints `json:"own_taints,omitempty"`
	StartupTaints   kubelet.Taints `json:"startup_taints,omitempty"`
}

// Defaults of a Spec.
const (
	DefaultUnit    = "kubelet.service"
	DefaultSettle  = 10 * time.Second
	DefaultTimeout = 2 * time.Minute
	// DefaultHealthz is where a kubelet answers if nothing else is known (pkg/kubelet/apis/config/v1beta1/defaults.go).
	DefaultHealthz = "http://127.0.0.1:10248/healthz"
)

func (p Spec) withDefaults() Spec {
	if p.Unit == "" {
		p.Unit = DefaultUnit
	}

	if p.SettleMillis <= 0 {
		p.SettleMillis = DefaultSettle.Milliseconds()
	}

	if p.TimeoutMillis <= 0 {
		p.TimeoutMillis = DefaultTimeout.Milliseconds()
	}

	return p
}

func (p Spec) settle() time.Duration { return time.Duration(p.SettleMillis) * time.Millisecond }

// Timeout returns TimeoutMillis as a duration.
func (p Spec) Timeout() time.Duration { return time.Duration(p.TimeoutMillis) * time.Millisecond }

func (p Spec) bound() time.Duration { return time.Duration(p.BoundMillis) * time.Millisecond }

// managed returns the paths of the managed files that may be in place.
func (p Spec) managed() []string { return append(slices.Collect(maps.Keys(p.Files)), p.Others...) }

// patchesNode reports whether labels or taints of the Node are patched.
func (p Spec) patchesNode() bool { return p.Reconcile || p.TaintCredential != "" }

// withoutPrelet returns the spec for the state before prelet: the kubelet runs and is healthy.
func (p Spec) withoutPrelet() Spec {
	out := Spec{Start: p.Start}
	out.Rollback = false
	out.Healthz = p.Healthz

	return out
}

// staleStateFiles returns the state files of a kubelet on this spec that a kubelet on the spec by would exit on.
func (p Spec) staleStateFiles(by Spec) (out []string) {
	all := maps.Clone(by.States)
	if all == nil {
		all = map[string]string{}
	}

	maps.Copy(all, p.States)

	for _, path := range slices.Sorted(maps.Keys(all)) {
		if p.States[path] != by.States[path] {
			out = append(out, path)
		}
	}

	return out
}

// specDocument is a Spec as it is stored.
type specDocument struct {
	FormatVersion int `json:"format_version"`
	Spec
}

// The formats of a stored spec. An earlier prelet refuses the second one, opens the gate and writes nothing (Newer):
// with half of a spec it would judge wrongly.
const (
	specFormat1 = 1 // of 0.1.0
	specFormat2 = 2 // 0.2.0: has a field, or a meaning of one, that 0.1.0 does not know
)

// format returns the lowest format that has everything of a spec, so that an earlier prelet reads as much as possible.
// A new field, or a new meaning of one, belongs here: TestEarlierReaders fails without.
func (p Spec) format() int {
	// 0.1.0 always asks /configz, and has no verdict without it.
	hasOnlyLog := p.Configz != nil && (p.Configz.URL == "" || p.Configz.Credential == "")
	if p.TaintCredential != "" || len(p.OwnTaints)+len(p.StartupTaints) > 0 || p.Serving != "" || p.ReplacesCA ||
		hasOnlyLog {
		return specFormat2
	}

	return specFormat1
}

// Encode writes the spec for Proposal.Blobs[SpecBlob]. Equal specs give equal bytes.
func (p Spec) Encode() ([]byte, error) {
	p = p.withDefaults()
	for _, path := range p.Retire {
		if _, both := p.Files[path]; both {
			return nil, fmt.Errorf(
				"%s: %s must be removed when the generation is good, and present to be good",
				SpecBlob,
				path,
			)
		}
	}

	return json.Marshal(specDocument{FormatVersion: p.format(), Spec: p})
}

// specFault returns the error for a stored spec that this version cannot use.
func specFault(err error) error {
	return &fault.Fault{
		Code:    fault.NeedsPerson,
		Summary: "cannot read " + SpecBlob,
		Err:     err,
		Next:    "install the version of prelet that wrote it, or change the site: a new generation has a new plan",
	}
}

// DecodeSpec reads the output of Encode. An unknown field is an error that wraps generation.ErrNewer: with half of a
// newer spec an unhealthy kubelet could be judged good. The errors have the code fault.NeedsPerson.
func DecodeSpec(text []byte) (Spec, error) {
	var d specDocument

	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()

	err := decoder.Decode(&d)
	hasUnknownField := err != nil && json.Unmarshal(text, &d) == nil
	switch {
	case hasUnknownField || d.FormatVersion > specFormat2:
		return Spec{}, specFault(fmt.Errorf("%w (format_version %d, or an unknown field)", generation.ErrNewer,
			d.FormatVersion))
	case err != nil:
		return Spec{}, specFault(err)
	case d.FormatVersion < specFormat1:
		const format = "format_version is %d; this prelet reads %d to %d"
		return Spec{}, specFault(fmt.Errorf(format, d.FormatVersion, specFormat1, specFormat2))
	}

	const longest = int64(24 * time.Hour / time.Millisecond)
	if d.Unit == "" || d.SettleMillis <= 0 || d.SettleMillis > longest || d.TimeoutMillis <= 0 ||
		d.TimeoutMillis > longest || d.BoundMillis < 0 || d.BoundMillis > longest {
		return Spec{}, specFault(
			fmt.Errorf(
				"unit %q, settle_ms %d, timeout_ms %d: no plan that prelet writes",
				d.Unit,
				d.SettleMillis,
				d.TimeoutMillis,
			),
		)
	}

	return d.Spec, nil
}

// SpecOf returns the spec of a generation. After a rollback this is the spec of the generation whose contents were
// restored. If a newer prelet stored it, only the files are known, from the generation's manifest.
func (m *StateMachine) SpecOf(gen int) (Spec, error) {
	info, ok := m.Store.Info(gen)
	spec, err := readSpec(m.Store, gen)
	if ok && info.Restores == 0 && errors.Is(err, fs.ErrNotExist) { // 0.1.0 kept none
		return m.specOrDefault(info.Parent).withoutPrelet(), nil
	}
	if !ok || !info.Newer && !errors.Is(err, generation.ErrNewer) {
		return spec, err
	}

	spec = Spec{KubeletState: KubeletState{Files: map[string]string{}}}.withDefaults()
	for _, e := range info.Entries {
		if e.New.Kind == generation.File && !e.Dropped && !e.CreateOnly && !slices.Contains(info.Retired, e.Path) {
			spec.Files[e.Path] = e.New.SHA256
		}
	}

	return spec, nil
}

// specOrDefault returns the spec of a generation, or the default spec if it cannot be read.
func (m *StateMachine) specOrDefault(gen int) Spec {
	spec, err := m.SpecOf(gen)
	if err != nil {
		return Spec{}.withDefaults()
	}

	return spec
}

func readSpec(s Store, gen int) (spec Spec, err error) {
	text, err := s.Blob(gen, SpecBlob)
	if err == nil {
		spec, err = DecodeSpec(text)
	}
	if err != nil {
		err = fmt.Errorf("the plan of generation %d: %w", gen, err)
	}

	return spec, err
}
