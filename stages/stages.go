// Package stages is the contract of a stage: what a type declares, and what its Go code may do in each phase.
// Gatherers read through the tape, deciders and renderers are pure. A stage never writes, and knows no other stage.
package stages

import (
	"context"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/schema"
)

// Stage is what all types share. Exactly one of Gatherer, Decider and Renderer is implemented as well.
type Stage interface {
	// Spec declares the stage's block; its Type is the stage's type, its Labels are set by the language.
	Spec() Spec
	// Outputs is the object type of what others can refer to, without state. Free-form parts are maps of
	// strings, or cty.DynamicPseudoType at the top. A function of what the site declares.
	Outputs(d Declared) cty.Type
}

// Spec is a stage type's declaration.
type Spec struct {
	schema.Block
	Phase     schema.Phase  // Gather, Decide or Render
	Singleton bool          // at most one of the type in a site
	ForEach   bool          // takes for_each
	Timeout   time.Duration // default of `timeout`; 0: takes none
	// Bounds is what `timeout` means where it does not bound the stage's own reading; its default is told in words, and Inputs
	// has the value. Nil otherwise.
	Bounds *schema.Attr[string]
}

// Declared is what the site and its locks say that output types depend on.
type Declared struct {
	// Detectors are the site's detector blocks by name, with what is known of each: nil where no lock is at hand.
	Detectors map[string]*contract.Description
}

// Gatherer reads. Its output is a function of its configuration and the answers on the tape.
type Gatherer interface {
	Stage
	Gather(ctx context.Context, cfg schema.Body, env Env, r world.Source) (Output, hcl.Diagnostics)
}

// Env is the part of the site outside stages that gatherers work with.
type Env struct {
	Access    world.Access // of the cluster block
	Cluster   hcl.Range    // where that block stands; zero: the site has none
	Detectors []Detector
}

// Detector is one detector block, with what its lock says.
type Detector struct {
	Name     string
	Required bool
	Timeout  time.Duration
	Memory   int64 // bytes; 0: nothing is said of it
	Allow    world.Grants
	Config   map[string]any // whole, with defaults, if it is described
	Range    hcl.Range
	Lock     world.Answer          // of the question "lock"
	Describe *contract.Description // nil unless Lock has one
	// At is the place of the site that a path in the configuration names.
	At func(path string) hcl.Range
}

// Output is what a stage gives to others: an object of the type that Outputs declared. Degraded parts are told
// by warnings.
type Output struct {
	Value cty.Value
	Facts *world.Facts // of detect-hw
	// Recommended are the labels that detectors would set, by detector: the site says which are taken.
	Recommended map[string]map[string]string
	Trust       *world.TrustAns // of fetch-ca
	// Unread are the questions of detect-hw that have no answer and that labels and facts of detectors depend on. Value
	// carries its reasons itself: what is unknown in it is marked with the questions (value.Because).
	Unread []string
}

// Decider adds to the node. It takes no context, because it cannot wait.
type Decider interface {
	Stage
	Decide(cfg schema.Body, in Inputs) (node.Contribution, Output, hcl.Diagnostics)
}

// Inputs is what the code of decide and render needs beside its configuration.
type Inputs struct {
	Address     string                       // of this stage
	IsOnly      bool                         // the site has no other stage of this type
	Facts       *world.Facts                 // of the only detect-hw; nil: none, failed, or unknown
	Recommended map[string]map[string]string // by detector
	Base        node.Base                    // the node before decide
	Kubelet     world.KubeletAns
	Start       *world.StartAns // how the kubelet's unit starts it; nil: not known
	// DropIns returns the drop-ins of a folder that the image has, in the order of their names; nil: nobody can.
	DropIns   func(dir string) []map[string]any
	Node      NodeIdentity
	Access    world.Access
	NoCluster bool            // the site has no cluster block
	NoDetect  bool            // the site has no detect-hw
	Trust     *world.TrustAns // of the only fetch-ca; nil: none or failed
	// Refused says, for an Adder's Render, that what it added to the node has an error, or conflicts with what others added:
	// then no file may be rendered.
	Refused bool
	// Timeout is the stage's own, where Spec has Bounds; its Expr is nil when it is not written.
	Timeout   schema.Value[string]
	Detectors []string // names of the site's, sorted
	Check     bool     // no machine is at hand (validate): what is unknown is no fault
	// Unread says, in a replay, what of the node depends on answers that the recording does not have: no file may be
	// rendered from it, or what is only not known would look as if it were gone.
	Unread Unread
}

// Unread is what of the node a recording does not tell.
type Unread struct {
	Labels, Taints, Flags, Config bool
	Kubelet                       bool     // its version, and whether the node has joined
	Facts                         bool     // of the only detect-hw
	Detectors                     []string // the questions to detectors, of which one has no answer
}

// NodeIdentity is the node block; nil is null.
type NodeIdentity struct {
	Takeover bool // it may take its name from another machine

	Name, IP           *string
	NameRange, IPRange hcl.Range
}

// Renderer turns the merged node into files or into what apply shall do.
type Renderer interface {
	Stage
	// Render sees the node with everything that decide, renderers before it and the stage's own Add added.
	Render(cfg schema.Body, n node.Node, in Inputs) (Rendering, Output, hcl.Diagnostics)
}

// Rendering is what one renderer makes of the merged node.
type Rendering struct {
	Files      []node.File
	Activation *node.Activation // nil: the stage says nothing of it
	Unit       *node.Unit       // another unit than the kubelet's; nil: the stage says nothing of one
}

// Adder is a renderer that adds to the node before it renders. What it adds is merged into the node that its Render gets.
type Adder interface {
	Renderer
	// Add sees the node as decide left it, with what renderers before it added.
	Add(cfg schema.Body, n node.Node, in Inputs) (node.Contribution, hcl.Diagnostics)
}

// Baser is a renderer that knows the node before decide: it is asked first. The attributes marked
// schema.Gather in its Spec are evaluated by then, all others are unknown.
type Baser interface {
	Renderer
	Base(cfg schema.Body, in Inputs, original func(path string) (world.TargetAns, error)) (node.Base, hcl.Diagnostics)
}

// Checker looks at a configuration with unknowns, on a laptop: rules over several attributes.
type Checker interface {
	Check(cfg schema.Body, in Inputs) hcl.Diagnostics
}
