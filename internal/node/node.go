// Package node is the node plan: what stages contribute, how contributions merge, who conflicts with whom, and
// the canonical form whose hash is the plan's identity. It is pure.
package node

import (
	"cmp"

	"github.com/hashicorp/hcl/v2"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
)

// Label is a label that the kubelet shall register with.
type Label struct {
	Key, Value string
	Inherited  bool // as of a Flag
	Late       bool // as of a Flag
	Origins    []origin.Origin
}

// Taint is a registration taint. An empty value is legal.
type Taint struct {
	Key, Value, Effect string
	Inherited          bool // as of a Flag
	Late               bool // as of a Flag
	Origins            []origin.Origin
}

// String is kubectl's form: key=value:Effect, key:Effect without a value.
func (t Taint) String() string {
	if t.Value == "" {
		return t.Key + ":" + t.Effect
	}
	return t.Key + "=" + t.Value + ":" + t.Effect
}

// Flag is one flag of the kubelet. List flags that labels and taints feed are not contributed as flags.
type Flag struct {
	Name, Value string
	NoValue     bool // a boolean written alone: --fail-swap-on
	Origins     []origin.Origin

	// Inherited is one that the kubelet gets from its unit, or from a file that prelet does not write.
	Inherited bool
	// Assumed is an inherited one of a unit that nobody knows: the kubelet may not get it.
	Assumed bool
	// Late is an inherited one that the kubelet gets behind those of the flags file: it wins.
	Late bool
	// Own is what the flags file has where the kubelet adds Value up, of an inherited flag and of that; "" for Value.
	Own string
}

// Written is the value that the flags file has.
func (f Flag) Written() string { return cmp.Or(f.Own, f.Value) }

// Setting is one field of KubeletConfiguration. Delete takes the base's field away.
type Setting struct {
	Path    []string
	Value   any // string, bool, int64, float64, []any, map[string]any
	Delete  bool
	Origins []origin.Origin
}

// Pointer is the setting's place as a JSON pointer.
func (s Setting) Pointer() string { return Pointer(s.Path) }

// At is where the site sets it, or else where the caller says.
func (s Setting) At(or hcl.Range) hcl.Range {
	if r := rangeOf(s.Origins); r.Filename != "" {
		return r
	}
	return or
}

// Reserved is what is kept from pods, in Kubernetes' resource names and quantities.
type Reserved struct {
	Policy       string            `json:"policy"`
	Kube         map[string]string `json:"kube_reserved"`
	System       map[string]string `json:"system_reserved"`
	CPUs         string            `json:"reserved_cpus,omitempty"`
	EvictionHard map[string]string `json:"eviction_hard,omitempty"`
	Memory       []map[string]any  `json:"reserved_memory,omitempty"` // output only, outside the hash
	Allocatable  map[string]string `json:"allocatable,omitempty"`     // output only, outside the hash
	MaxPods      int               `json:"max_pods"`
	Origins      []origin.Origin   `json:"origins,omitempty"`

	// Finish computes the same of the finished node, whose kubelet works with a configuration (as stages.EffectiveConfig
	// returns it) and flags, and refuses what that must not be. It returns nil where that cannot be reckoned with.
	Finish func(config map[string]any, flags []Flag) (*Reserved, hcl.Diagnostics) `json:"-"`
}

// FileKind is what a target shall be.
type FileKind string

// The kinds of targets.
const (
	Regular   FileKind = "file"
	Directory FileKind = "directory"
	Missing   FileKind = "absent"
)

// File is one target. Path is absolute on the node.
type File struct {
	Path        string
	Kind        FileKind
	Text        value.Text
	Mode        uint32 // permission bits; 0 keeps the old ones, or 0644 (0755 for a folder) for a new one
	Owner       string // "user:group" or numbers; "" keeps the old one, or root
	OwnerRange  hcl.Range
	Notify      []string // names of restart stages, as the site says; nil: it says nothing
	CreateOnly  bool
	Purpose     string // bootstrap-kubeconfig | ca | kubelet-config | kubelet-flags | file | directory | state
	OutsideHash bool   // bootstrap-kubelet.conf: planned only while the node has not joined
	Origins     []origin.Origin
}

// Activation is what apply shall do with the kubelet, as data.
type Activation struct {
	Stage           string    `json:"-"` // the name of its restart stage
	Unit            string    `json:"unit"`
	SettleMillis    int64     `json:"settle_ms"`
	TimeoutMillis   int64     `json:"timeout_ms"`
	BoundMillis     int64     `json:"bound_ms,omitempty"` // of the whole activation; 0: as long as its parts take
	Rollback        bool      `json:"rollback"`
	ReconcileLabels bool      `json:"reconcile_labels,omitempty"`   // the node patches its own labels after a good verdict
	Configz         string    `json:"configz_credential,omitempty"` // the name of the credential to ask /configz with
	Range           hcl.Range `json:"-"`
}

// Unit is what apply shall do with a unit of the site's when a file changes that notifies it.
type Unit struct {
	Stage         string    `json:"stage"` // the name of its restart stage
	Unit          string    `json:"unit"`
	Action        string    `json:"action"` // restart | reload
	TimeoutMillis int64     `json:"timeout_ms"`
	SettleMillis  int64     `json:"settle_ms"`
	Range         hcl.Range `json:"-"`
}

// Contribution is all that one stage adds. Zero fields add nothing. Labels, taints, flags and settings of one
// contribution stand in the stage's own order.
type Contribution struct {
	Stage    string // its address; "base" for what the node has before decide
	Labels   []Label
	Taints   []Taint
	Flags    []Flag
	Settings []Setting
	Reserved *Reserved

	// Fill returns more settings for the configuration that all settings have made of the base's; nil adds none. What
	// another setting is about they leave alone.
	Fill func(config map[string]any) []Setting
	// TaintFlag says that the taints go to --register-with-taints, which the kubelet prefers to its configuration.
	TaintFlag bool
	DropIn    string // where the settings go, if that is a drop-in beside the configuration; else ""
	// Inherited is what a kubelet inherits once the stage's own files are there; nil: what it does before.
	Inherited *Contribution

	// Of what a kubelet inherits: Partly says that it may get more, from a file that nobody reads or from another program;
	// ConfigFile is its --config, "" where that is not known.
	Partly     bool
	ConfigFile string
}
