package activate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prelet/prelet/internal/kubelet"
)

// PlanBlob is the name under which a generation keeps its Plan.
const PlanBlob = "activation.json"

// Plan is what activate needs to know of one generation: how to bring the unit up on it, and what must then be so. It is kept
// in the generation, so that a later boot, or a node that went back, judges by what was planned then.
type Plan struct {
	Unit     string        // the kubelet's unit
	Settle   time.Duration // how long it must run without a change before it counts as healthy
	Timeout  time.Duration // for the start and the watch together
	Bound    time.Duration // for the whole activation, going back and its watch included; 0: as long as its parts take
	Rollback bool          // go back when it is bad

	UnitFiles bool // a target is a unit file or a drop-in: going back needs a reload

	// What must be so. The zero value of each is not asked for.
	Healthz    string            // URL on loopback
	Kubeconfig string            // the file that a node which joined has
	Flags      []string          // of the kubelet's command line, as planned
	Files      map[string]string // path → sha256 of the content, 64 hexadecimal digits
	Node       string            // name of the Node object

	// Of the Node object, but never asked for in the way of the above: see labels.go.
	Joins      bool                // the node joins with this generation
	Labels     map[string]string   // as planned
	Taints     []string            // as planned, key=value:Effect
	GoneLabels map[string][]string // that generations before had and this one has not: key → values
	GoneTaints []string            // likewise
	Reconcile  bool                // the node patches its own labels after a good verdict

	// Configz is asked for where the site gives credentials for that; nil: it is not.
	Configz *kubelet.Configz

	// Sources says where an item of the plan comes from, as a message tells it ("site.hcl:12:5, label.gpu"), by the names that
	// package failure gives to items.
	Sources map[string]string

	// Pods is what decides whether the kubelet and the container runtime go together: its cgroup driver, and which runtime. "" where
	// nobody here knows.
	Pods string

	// States are the files in which the kubelet's managers remember what they do, with what each is made by: a kubelet ends on one
	// that was made by something else. Those of managers that do nothing are not among them.
	States map[string]string

	// Retire are files that go as soon as the generation is good, like the kubeconfig with the bootstrap token. Files must not
	// name them: they may be gone already when a later boot looks.
	Retire []string
}

// Defaults of a Plan.
const (
	DefaultUnit    = "kubelet.service"
	DefaultSettle  = 10 * time.Second
	DefaultTimeout = 2 * time.Minute
)

func (p Plan) withDefaults() Plan {
	if p.Unit == "" {
		p.Unit = DefaultUnit
	}

	if p.Settle <= 0 {
		p.Settle = DefaultSettle
	}

	if p.Timeout <= 0 {
		p.Timeout = DefaultTimeout
	}

	return p
}

// before is what can be asked of a kubelet on the files that were there before prelet: that it runs and says it is well.
func (p Plan) planWithoutPrelet() Plan {
	return Plan{Unit: p.Unit, Settle: p.Settle, Timeout: p.Timeout, Bound: p.Bound, Healthz: p.Healthz, UnitFiles: p.UnitFiles}
}

// staleStateFiles are the state files that a kubelet on this plan leaves and one on another ends on.
func (p Plan) staleStateFiles(by Plan) (out []string) {
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

type planDocument struct {
	FormatVersion int               `json:"format_version"`
	Unit          string            `json:"unit"`
	SettleMillis  int64             `json:"settle_ms"`
	TimeoutMillis int64             `json:"timeout_ms"`
	BoundMillis   int64             `json:"bound_ms,omitempty"`
	Rollback      bool              `json:"rollback"`
	UnitFiles     bool              `json:"unit_files,omitempty"`
	Healthz       string            `json:"healthz,omitempty"`
	Kubeconfig    string            `json:"kubeconfig,omitempty"`
	Flags         []string          `json:"flags,omitempty"`
	Files         map[string]string `json:"files,omitempty"`
	Node          string            `json:"node,omitempty"`
	Retire        []string          `json:"retire,omitempty"`
	Sources       map[string]string `json:"sources,omitempty"`

	Configz    *kubelet.Configz    `json:"configz,omitempty"`
	Joins      bool                `json:"joins,omitempty"`
	Labels     map[string]string   `json:"labels,omitempty"`
	Taints     []string            `json:"taints,omitempty"`
	GoneLabels map[string][]string `json:"gone_labels,omitempty"`
	GoneTaints []string            `json:"gone_taints,omitempty"`
	Reconcile  bool                `json:"reconcile_labels,omitempty"`
	States     map[string]string   `json:"states,omitempty"`
	Pods       string              `json:"pods,omitempty"`
}

// Encode writes the plan for Proposal.Blobs[PlanBlob]. Equal plans give equal bytes.
func (p Plan) Encode() ([]byte, error) {
	p = p.withDefaults()
	for _, path := range p.Retire {
		if _, both := p.Files[path]; both {
			return nil, fmt.Errorf("%s: %s shall go when it is good, and be there to be good", PlanBlob, path)
		}
	}

	return json.Marshal(planDocument{1, p.Unit, p.Settle.Milliseconds(), p.Timeout.Milliseconds(), p.Bound.Milliseconds(), p.Rollback, p.UnitFiles,
		p.Healthz, p.Kubeconfig, p.Flags, p.Files, p.Node, p.Retire, p.Sources,
		p.Configz, p.Joins, p.Labels, p.Taints, p.GoneLabels, p.GoneTaints, p.Reconcile, p.States, p.Pods})
}

// DecodePlan reads what Encode wrote. A field that this prelet does not know is an error: judging by half of what a newer one
// planned could call an ill kubelet good.
func DecodePlan(text []byte) (Plan, error) {
	var d planDocument

	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()

	if err := decoder.Decode(&d); err != nil {
		return Plan{}, fmt.Errorf("%s: %w", PlanBlob, err)
	}

	if d.FormatVersion != 1 {
		return Plan{}, fmt.Errorf("%s: format_version is %d; this prelet reads 1", PlanBlob, d.FormatVersion)
	}

	const longest = int64(24 * time.Hour / time.Millisecond)
	if d.Unit == "" || d.SettleMillis <= 0 || d.SettleMillis > longest || d.TimeoutMillis <= 0 || d.TimeoutMillis > longest || d.BoundMillis < 0 || d.BoundMillis > longest {
		return Plan{}, fmt.Errorf("%s: unit %q, settle_ms %d, timeout_ms %d: no plan that prelet writes", PlanBlob, d.Unit, d.SettleMillis, d.TimeoutMillis)
	}

	return Plan{
		Unit: d.Unit, Settle: time.Duration(d.SettleMillis) * time.Millisecond, Timeout: time.Duration(d.TimeoutMillis) * time.Millisecond,
		Bound: time.Duration(d.BoundMillis) * time.Millisecond, Rollback: d.Rollback, UnitFiles: d.UnitFiles,
		Healthz: d.Healthz, Kubeconfig: d.Kubeconfig, Flags: d.Flags, Files: d.Files, Node: d.Node, Retire: d.Retire, Sources: d.Sources,
		Configz: d.Configz, Joins: d.Joins, Labels: d.Labels, Taints: d.Taints, GoneLabels: d.GoneLabels, GoneTaints: d.GoneTaints, Reconcile: d.Reconcile, States: d.States, Pods: d.Pods,
	}, nil
}
