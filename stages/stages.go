package stages

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/schema"
)

// The types, and the name of the kubelet's restart stage, that package evaluate knows. It must know no other.
const (
	FetchConfig    = "fetch-config"
	DetectHW       = "detect-hw"
	Write          = "write"
	RestartKubelet = "restart.kubelet"
)

// Stage is the interface of all types. A type also implements exactly one of Gatherer, Decider and Renderer.
type Stage interface {
	// Spec declares the stage's block; its Type is the stage's type, its Labels are set by the language.
	Spec() Spec
	// Outputs returns the object type that references to the stage have, without state. Free-form parts are maps of
	// strings, or cty.DynamicPseudoType at the top.
	Outputs(d Declared) cty.Type
}

// Spec declares a stage type: its block, and when and how its stages run.
type Spec struct {
	schema.Block
	Phase       schema.Phase  // Gather, Decide or Render
	Singleton   bool          // at most one of the type in a site
	Adds        []string      // of a singleton: blocks that a further stage, which has no others, adds to it
	ForEach     bool          // takes for_each
	Timeout     time.Duration // default of `timeout`; 0: takes none
	TimeoutCode fault.Code    // of a Gatherer that timed out, by the source that did not answer
	SoftItems   bool          // a Decider that leaves out the items that fail because a fact is null
	// Bounds declares `timeout` for a stage that reads nothing itself; Inputs has its value. Nil: Timeout counts.
	Bounds *schema.Attr[string]
}

// Meta returns the arguments that a stage of this type takes in addition to its own.
func (s Spec) Meta() []schema.Field {
	out := []schema.Field{schema.When}

	if s.ForEach {
		out = append(out, schema.ForEach)
	}
	if s.Timeout > 0 {
		timeout := schema.Timeout
		timeout.Default = s.Timeout.String()
		out = append(out, timeout)
	}
	if s.Bounds != nil {
		out = append(out, *s.Bounds)
	}
	if s.Phase == schema.Gather {
		out = append(out, schema.OnFailure)
	}

	return out
}

// Declared are the declarations of the site that output types depend on.
type Declared struct {
	// Detectors are the descriptions of the site's detectors, by name; nil for one without a lock.
	Detectors map[string]*contract.Description
}

// Gatherer is a stage that reads. Its output is a function of its configuration and the answers on the tape.
type Gatherer interface {
	Stage
	Gather(ctx context.Context, cfg schema.Body, env Env, r tape.Source) (Output, hcl.Diagnostics)
}

// Env is the part of the site outside stages that gatherers work with.
type Env struct {
	Access    tape.Access // of the cluster block
	Cluster   hcl.Range   // of that block; zero: the site has none
	Anchor    hcl.Range   // of the argument in it that determines the trusted cluster
	Detectors []Detector
	Unit      string // the kubelet's, as far as the site names it
	// Shared is a cache of a stage, from one machine to the next ones of the same site, by keys of the stage's own
	// types. It may be nil.
	Shared *sync.Map
}

// Detector is one detector block with its lock.
type Detector struct {
	Name     string
	Required bool
	Timeout  time.Duration
	Memory   int64 // bytes; 0: not bounded
	Allow    tape.Grants
	Config   map[string]any // with defaults, if the detector has a description
	Range    hcl.Range
	Lock     tape.Answer           // of the question "lock"
	Describe *contract.Description // nil unless Lock has one
	// At returns the place in the site of a path in the configuration.
	At func(path string) hcl.Range
}

// Output is the result of a stage that others can refer to. Value is an object of the type that Outputs declared.
type Output struct {
	Value cty.Value
	Readings
}

// Readings are the answers of gatherers that other stages get as they are; nil: no stage has read them.
type Readings struct {
	Facts *tape.Facts // of the only detect-hw; nil also if it failed, or if they are unknown
	// Recommended are the labels that detectors recommend, by detector. A label stage chooses among them.
	Recommended map[string]map[string]string
	Trust       *tape.TrustAns // of the only fetch-ca
}

// Take takes the answers that another stage has read.
func (r *Readings) Take(more Readings) {
	r.Facts = cmp.Or(more.Facts, r.Facts)
	r.Trust = cmp.Or(more.Trust, r.Trust)
	if more.Recommended != nil {
		r.Recommended = more.Recommended
	}
}

// Decider is a stage that adds to the node. It takes no context, because it does not wait.
type Decider interface {
	Stage
	Decide(cfg schema.Body, in Inputs) (desired.Contribution, Output, hcl.Diagnostics)
}

// Inputs has the answers that deciders and renderers get in addition to their configuration.
type Inputs struct {
	Readings
	Address string       // of this stage
	IsOnly  bool         // the site has no other stage of this type
	Base    desired.Base // the node before decide
	Kubelet tape.KubeletAns
	Start   *tape.StartAns // how the kubelet's unit starts it; nil: not known
	// ParseConfig is kubelet.ParseConfig. Plans of further machines get the same configuration for the same text, so it
	// must not be changed.
	ParseConfig func(text string) (*kubelet.Config, error)
	// DropIns returns the kubelet's drop-ins in a directory of the image, by name; nil: they cannot be read.
	DropIns func(dir string) []DropIn
	// Created returns a drop-in as it is on the disk now, where the kubelet reads one with create_only; false for none.
	Created   func(path string) (DropIn, bool)
	Node      NodeIdentity
	Access    tape.Access
	NoCluster bool // the site has no cluster block
	NoDetect  bool // the site has no detect-hw
	// Refused is true for an Adder's Render if its addition to the node has an error or a conflict. It must not render
	// files then.
	Refused bool
	// Timeout is the value of Bounds in Spec; its Expr is nil if it is not written.
	Timeout   schema.Value[string]
	Detectors []string // names of the site's, sorted
	Unit      string   // as in Env
	Check     bool     // a check without a machine (validate): unknown values are not errors
}

// NodeIdentity is the node block of the site. A nil pointer is null.
type NodeIdentity struct {
	Takeover bool // the node may take its name from another machine

	Name, IP           *string
	NameRange, IPRange hcl.Range
}

// Renderer is a stage that turns the merged node into files or into actions after the commit.
type Renderer interface {
	Stage
	// Render gets the node with the additions of deciders, of renderers before it and of its own Add.
	Render(cfg schema.Body, n desired.Node, in Inputs) (Rendering, Output, hcl.Diagnostics)
}

// Rendering is the result of one renderer.
type Rendering struct {
	Files      []desired.File
	Activation *desired.Activation // of the kubelet; nil: none
	Unit       *desired.Unit       // another unit than the kubelet's; nil: none
}

// Adder is a renderer that adds to the node before it renders. The additions are merged into the node that its Render
// gets.
type Adder interface {
	Renderer
	// Add gets the node with the additions of deciders and of renderers before it.
	Add(cfg schema.Body, n desired.Node, in Inputs) (desired.Contribution, hcl.Diagnostics)
}

// Baser is a renderer that provides the node that deciders add to. The attributes marked schema.Gather in its Spec are
// evaluated by then; all others are unknown.
type Baser interface {
	Renderer
	Base(
		cfg schema.Body,
		in Inputs,
		original func(path string) (tape.TargetAns, error),
	) (desired.Base, hcl.Diagnostics)
}

// Checker checks rules over several attributes without a machine, so the configuration may have unknowns.
type Checker interface {
	Check(cfg schema.Body, in Inputs) hcl.Diagnostics
}
