// Package desired contains the plan of a node: the contributions of stages, their merge, and the canonical form whose
// hash identifies a plan. Stages return a Contribution each, and Merge lays them over the Base. The package is pure;
// ReadStoredPlan reads from the store that its caller passes.
package desired

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/annotation"
	"github.com/prelet/prelet/internal/model/kubelet/condition"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
)

// Label is a label that the kubelet registers with.
type Label struct {
	Key       string          `json:"-"`
	Value     string          `json:"value"`
	Inherited bool            `json:"-"` // see Flag.Inherited
	Late      bool            `json:"-"` // see Flag.Late
	Origins   []origin.Origin `json:"origins"`
}

// Taint is a registration taint. An empty value is valid.
type Taint struct {
	kubelet.Taint
	Inherited bool `json:"-"` // see Flag.Inherited
	Late      bool `json:"-"` // see Flag.Late
	// Startup is set if another program removes it when the node may take pods: it is set at registration only.
	Startup bool            `json:"-"`
	Origins []origin.Origin `json:"origins"`
}

// IsOfSite reports whether a stage of the site has the taint. Those of the base belong to the cluster.
func (t Taint) IsOfSite() bool {
	return slices.ContainsFunc(t.Origins, func(o origin.Origin) bool { return o.Kind == origin.Site })
}

// Flag is one flag of the kubelet. The flags that labels and taints end up in are not contributed as flags.
type Flag struct {
	Name    string          `json:"name"`
	Value   string          `json:"value"`
	Origins []origin.Origin `json:"origins"`

	// Inherited is set for a flag from the kubelet's unit, or from a file that prelet does not write.
	Inherited bool `json:"-"`
	// Assumed is set for an inherited flag of an unknown unit: the kubelet may not get it.
	Assumed bool `json:"-"`
	// Late is set for an inherited flag that follows the flags file on the command line, so it wins.
	Late bool `json:"-"`
	// Own is the part of Value in the flags file, where the kubelet joins it with an inherited value; "" if the flags
	// file contains all of Value.
	Own string `json:"-"`
	// Earlier are values that precede Value on the command line. The kubelet parses them, and does not use them.
	Earlier []string `json:"-"`
}

// FindFlag returns the first flag with a name; ok is false for none.
func FindFlag(flags []Flag, name string) (f Flag, ok bool) {
	i := slices.IndexFunc(flags, func(f Flag) bool {
		return f.Name == name
	})
	if i < 0 {
		return f, false
	}

	return flags[i], true
}

// FindPath returns the path that a flag of the node names, as kubelet.FlagPath does.
func (n Node) FindPath(name string) string {
	f, _ := FindFlag(n.Flags, name)

	return kubelet.FlagPath(n.Inherited.Line.Folder, f.Value)
}

// Written returns the value in the flags file.
func (f Flag) Written() string {
	return cmp.Or(f.Own, f.Value)
}

// Setting sets one field of KubeletConfiguration, or deletes it from the base.
type Setting struct {
	Path    []string
	Value   any // string, bool, int64, float64, []any, map[string]any
	Delete  bool
	Origins []origin.Origin
}

// Pointer returns the setting's path as a JSON pointer.
func (s Setting) Pointer() string {
	return tape.Pointer(s.Path...)
}

// FindRange returns the setting's range in the site, or fallback if it is not from the site.
func (s Setting) FindRange(fallback hcl.Range) hcl.Range { return findRange(s.Origins, fallback) }

// FindRange returns the flag's range in the site, or fallback if it is not from the site.
func (f Flag) FindRange(fallback hcl.Range) hcl.Range { return findRange(f.Origins, fallback) }

func findRange(from []origin.Origin, fallback hcl.Range) hcl.Range {
	if r := origin.DecidingRange(from); r.Filename != "" {
		return r
	}

	return fallback
}

// DefaultUnit is the kubelet's unit, unless a stage names another.
const DefaultUnit = "kubelet.service"

// KubeletUnit returns the name of the kubelet's unit.
func (n Node) KubeletUnit() string {
	if n.Activation == nil {
		return DefaultUnit
	}

	return n.Activation.Unit
}

// Reserved contains the resources that are kept from pods, as Kubernetes' resource names and quantities.
type Reserved struct {
	Policy       string            `json:"policy"`
	Kube         map[string]string `json:"kube_reserved"`
	System       map[string]string `json:"system_reserved"`
	CPUs         string            `json:"reserved_cpus,omitempty"`
	EvictionHard map[string]string `json:"eviction_hard,omitempty"`
	Memory       []any             `json:"reserved_memory,omitempty"` // output only, outside the hash
	Allocatable  map[string]string `json:"allocatable,omitempty"`     // output only, outside the hash
	MaxPods      int               `json:"max_pods"`
	Origins      []origin.Origin   `json:"origins,omitempty"`

	// Settings are those of its contribution that follow from the whole reservation, such as reservedMemory. Finish
	// returns them as they are for the finished node.
	Settings []Setting `json:"-"`

	// Finish computes the reservation again for the finished node, from Effective, Flags and ConfigOrigins. Its
	// diagnostics are the values that are refused. It returns nil if the reservation cannot be computed from them.
	// Only that of a contribution has it.
	Finish func(Node) (*Reserved, hcl.Diagnostics) `json:"-"`
}

// Value returns the reservation as expressions see it, without its origins. The attributes of the type are named as in
// JSON.
func (r *Reserved) Value(t cty.Type) cty.Value {
	if r != nil {
		shown := *r
		shown.Origins = nil
		r = &shown
	}
	text, _ := json.Marshal(r) // cannot fail: it has texts and numbers only
	v, _ := codec.FromJSONTyped(text, t)

	return v
}

// FileKind is the type of a managed file.
type FileKind string

// The kinds of managed files.
const (
	Regular   FileKind = "file"
	Directory FileKind = "directory"
	Missing   FileKind = "absent"
)

// File is one managed file. Path is absolute on the node.
type File struct {
	Path       string
	Kind       FileKind
	Text       secret.Text
	Mode       uint32 // permission bits; 0 keeps those of an existing file; new files get 0644, new folders 0755
	Owner      string // "user:group" or numbers; "" keeps that of an existing file, and gives a new one root
	OwnerRange hcl.Range
	Notify     []string // names of restart stages; nil if the site does not set them
	CreateOnly bool
	Argv       []string       // of a file with the kubelet's flags: the words of them on its command line
	Config     map[string]any // of a file with the kubelet's configuration: the document that Text is
	// bootstrap-kubeconfig | kubeconfig | ca | kubelet-config | kubelet-flags | file | directory | state
	Purpose     string
	OutsideHash bool // bootstrap-kubelet.conf and kubelet.conf: planned only before the node has joined, or after
	Origins     []origin.Origin
}

// FindDeclaration returns where the site declares a file.
func (f File) FindDeclaration() hcl.Range {
	if len(f.Origins) == 0 {
		return hcl.Range{}
	}

	return f.Origins[0].Range
}

// FindFile returns the planned file at a path.
func (n Node) FindFile(path string) (File, bool) {
	return n.findFile(func(f File) bool { return f.Path == path })
}

// FindPurpose returns the planned file of a purpose.
func (n Node) FindPurpose(purpose string) (File, bool) {
	return n.findFile(func(f File) bool { return f.Purpose == purpose })
}

func (n Node) findFile(is func(File) bool) (f File, ok bool) {
	i := slices.IndexFunc(n.Files, is)
	if i < 0 {
		return f, false
	}

	return n.Files[i], true
}

// Activation describes how apply activates a generation on the kubelet.
type Activation struct {
	Stage           string `json:"-"` // the name of its restart stage
	Unit            string `json:"unit"`
	SettleMillis    int64  `json:"settle_ms"`
	TimeoutMillis   int64  `json:"timeout_ms"`
	BoundMillis     int64  `json:"bound_ms,omitempty"` // of the whole activation; 0: the sum of its parts
	Rollback        bool   `json:"rollback"`
	ReconcileLabels bool   `json:"reconcile_labels,omitempty"`   // the node patches its labels once healthy
	Configz         string `json:"configz_credential,omitempty"` // the name of the credential for /configz
	TaintCredential string `json:"taint_credential,omitempty"`   // the name of the credential for taints

	// Annotations is nil if the node does not annotate its Node. It is outside of the hash: it changes no file of the
	// node, and the revision of a site changes more often than its plans.
	Annotations *annotation.Settings `json:"-"`
	// Conditions are those of the Node that the site declares, by its checks alone. They are outside of the hash too:
	// they change no file, and their checks may find something else at each boot.
	Conditions []Condition `json:"-"`
	// Holds are those of the site that are not false on this machine. They are outside of the hash, too.
	Holds []Hold `json:"-"`
}

// Hold keeps the kubelet from starting at a boot.
type Hold struct {
	Name    string
	For     time.Duration // at most, over boots
	Message string        // one line
	Unknown bool          // whether it is true: it keeps nothing, and keeps its count
}

// Condition is a condition of the Node that the site declares.
type Condition struct {
	condition.Condition      // of a healthy kubelet, by the checks of the site
	Checked             bool // the site has checks for it
	Drift               bool `json:",omitempty"` // False while a run would change files, between boots
}

// Unit describes how apply activates a unit of the site when a file that notifies it changes.
type Unit struct {
	Stage         string    `json:"stage"` // the name of its restart stage
	Unit          string    `json:"unit"`
	Action        string    `json:"action"` // restart | reload
	TimeoutMillis int64     `json:"timeout_ms"`
	SettleMillis  int64     `json:"settle_ms"`
	Range         hcl.Range `json:"-"`
}

// Contribution is the output of one stage for the node. Zero fields add nothing. Labels, taints, flags and settings
// are in the stage's own order.
type Contribution struct {
	Stage    string // its address; "base" for the node before decide
	Labels   []Label
	Taints   []Taint
	Flags    []Flag
	Settings []Setting
	Reserved *Reserved

	// Fill returns more settings for a configuration that has all other settings merged in. Merge ignores those whose
	// field another contribution sets. It may be nil.
	Fill func(config map[string]any) []Setting
	// TaintFlag is set if taints go to --register-with-taints, which the kubelet prefers to its configuration.
	TaintFlag bool
	DropIn    string // the path of the kubelet's drop-in for the settings; "" if they go to the configuration itself
	// Inherited are the flags and labels that the kubelet inherits once the stage's files are written; nil if the
	// files change none.
	Inherited *Contribution
	// IfUnset has the flags that it inherits from elsewhere while its flags file does not set the variable; nil for
	// none.
	IfUnset *Contribution

	// Partly is set for inherited flags that may be incomplete: a program, or a file that prelet does not read,
	// may add others. ConfigFile is the inherited --config, "" if it is not known.
	Partly     bool
	ConfigFile string
	Line       CommandLine
}

// CommandLine has the words of the kubelet's unit before and after the flags file's variable, with variables replaced.
type CommandLine struct {
	Before, After []kubelet.Word
	// Hidden are the words that the variable has from elsewhere, such as Environment=: the kubelet gets them unless the
	// flags file sets it.
	Hidden   []kubelet.Word
	Folder   string // the working folder of the unit; "" for the root
	IsKnown  bool   // it is the line of a unit that is known to start the kubelet
	IsPassed bool   // the unit is known to pass the variable of the flags file
	AsOne    bool   // it passes it as one word, ${NAME}
	// OverriddenBy names the file or unit setting that sets or removes the variable after the flags file; "" for none.
	OverriddenBy string
	Assumed      bool // it is not known how the kubelet is started: the words are those of kubeadm's unit
}
