package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/prelet/prelet/internal/model/kubelet"
)

// Stored is a node as a generation stores it: labels, taints, flags, the kubelet's configuration, files and
// activation. Its JSON is the canonical form, whose hash identifies a plan: its fields and their order must not
// change. Secrets are included by name only. Left out are origins and source ranges, so that moving a line in a site
// file changes nothing, outputs for display (allocatable, reserved memory), and the bootstrap kubeconfig, which exists
// only until the node has joined.
type Stored struct {
	Version    int
	Labels     [][2]string // key and value
	Taints     kubelet.Taints
	Flags      [][3]string // name, value, and "true" for a flag without a value
	Config     map[string]any
	Files      []CanonicalFile
	Activation *Activation
	Units      []Unit `json:",omitempty"`

	StartupTaints kubelet.Taints `json:",omitempty"` // those of Taints that another program removes
}

// CanonicalFile is a file of a stored node. Text has placeholders for secrets.
type CanonicalFile struct {
	Path, Kind, Text, Owner string
	Mode                    uint32
	CreateOnly              bool
	Notify                  *[]string `json:",omitempty"`
}

// Stored returns the node as a generation stores it.
func (n Node) Stored() Stored {
	s := Stored{
		Version:    1,
		Config:     n.Config,
		Activation: n.Activation,
		Units:      n.Units,
	}
	for _, l := range n.Labels {
		s.Labels = append(s.Labels, [2]string{l.Key, l.Value})
	}
	for _, t := range n.Taints {
		s.Taints = append(s.Taints, t.Taint)
		if t.Startup {
			s.StartupTaints = append(s.StartupTaints, t.Taint)
		}
	}
	for _, f := range n.Flags {
		s.Flags = append(s.Flags, [3]string{f.Name, f.Value, "false"})
	}
	for _, f := range n.Files {
		if !f.OutsideHash {
			s.Files = append(s.Files, f.canonical())
		}
	}

	return s
}

// Canonical returns the JSON of the stored node.
func (n Node) Canonical() []byte { return n.Stored().encode() }

func (s Stored) encode() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		// Cannot happen: values come from decoders of JSON, YAML and cty.
		panic("node: encode the plan: " + err.Error())
	}

	return b
}

func (f File) canonical() CanonicalFile {
	c := CanonicalFile{
		Path:       f.Path,
		Kind:       string(f.Kind),
		Text:       f.Text.Template(),
		Owner:      f.Owner,
		Mode:       f.Mode,
		CreateOnly: f.CreateOnly,
	}
	if f.Notify != nil {
		c.Notify = &f.Notify
	}

	return c
}

// Hash returns the plan's identity: sha256: and the hash of its canonical form, without values of flags and headers
// that may be secrets, and what evidently is one: recordings do not have them, and their replays have the same plan.
func (n Node) Hash() string {
	s := n.Stored()
	for i, f := range s.Flags {
		s.Flags[i][1] = kubelet.HideFlag(f[0], f[1])
	}
	for i, f := range s.Files {
		s.Files[i].Text = kubelet.HideSecrets(f.Text)
	}
	s.Config = kubelet.HideConfig(s.Config)
	h := sha256.Sum256(s.encode())
	return "sha256:" + hex.EncodeToString(h[:])
}
