package node

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// canonicalNode is the JSON form whose hash identifies a plan. Its fields and their order must not change.
type canonicalNode struct {
	Version    int
	Labels     [][2]string
	Taints     []string
	Flags      [][3]string
	Config     map[string]any
	Files      []canonicalFile
	Activation *Activation
	Units      []Unit `json:",omitempty"`

	StartupTaints []string `json:",omitempty"`
}

type canonicalFile struct {
	Path, Kind, Text, Owner string
	Mode                    uint32
	CreateOnly              bool
	Notify                  *[]string `json:",omitempty"`
}

// Canonical returns the plan as JSON: labels, taints, flags, the kubelet's configuration, files and activation.
// Secrets are included by name only. Left out are origins and source ranges, so that moving a line in a site file
// changes nothing, outputs for display (allocatable, reserved memory), and the bootstrap kubeconfig, which exists
// only until the node has joined.
func (n Node) Canonical() []byte {
	s := n.Stored()
	doc := canonicalNode{
		Version:    1,
		Labels:     s.Labels,
		Taints:     s.Taints,
		Flags:      s.Flags,
		Config:     s.Config,
		Activation: n.Activation,
		Units:      n.Units,
	}
	for _, t := range n.Taints {
		if t.Startup {
			doc.StartupTaints = append(doc.StartupTaints, t.String())
		}
	}

	for _, f := range n.Files {
		if !f.OutsideHash {
			doc.Files = append(doc.Files, f.canonical())
		}
	}

	b, err := json.Marshal(doc)
	if err != nil {
		// Cannot happen: values come from decoders of JSON, YAML and cty.
		panic("node: encode the plan: " + err.Error())
	}

	return b
}

// Stored is the node of a plan that was stored in its canonical form, without its files.
type Stored struct {
	Labels [][2]string // key and value
	Taints []string    // KEY=VALUE:EFFECT
	Flags  [][3]string // name, value, and "true" for a flag without a value
	Config map[string]any
}

// Stored returns the part of the node that a stored plan contains.
func (n Node) Stored() Stored {
	s := Stored{Config: n.Config}
	for _, l := range n.Labels {
		s.Labels = append(s.Labels, [2]string{l.Key, l.Value})
	}
	for _, t := range n.Taints {
		s.Taints = append(s.Taints, t.String())
	}
	for _, f := range n.Flags {
		s.Flags = append(s.Flags, [3]string{f.Name, f.Value, "false"})
	}

	return s
}

// ParseCanonical reads the canonical form of a plan, even if another version stored it.
func ParseCanonical(text []byte) (Stored, error) {
	var out Stored
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err := d.Decode(&out)

	return out, err
}

func (f File) canonical() canonicalFile {
	c := canonicalFile{
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

// Hash returns the plan's identity: sha256: and the hash of its canonical form.
func (n Node) Hash() string {
	h := sha256.Sum256(n.Canonical())
	return "sha256:" + hex.EncodeToString(h[:])
}
