package node

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Canonical is the plan as bytes: labels, taints, flags, the kubelet's configuration, files, activation. Secrets
// stand in it by name; origins, times and places of the site do not stand in it, so that moving a line in a site
// file is no change. Outputs that only inform (allocatable, reserved memory) and the bootstrap kubeconfig, which
// is there only until the node has joined, are left out as well.
func (n Node) Canonical() []byte {
	type file struct {
		Path, Kind, Text, Owner string
		Mode                    uint32
		CreateOnly              bool
		Notify                  *[]string `json:",omitempty"`
	}
	doc := struct {
		Version    int
		Labels     [][2]string
		Taints     []string
		Flags      [][3]string
		Config     map[string]any
		Files      []file
		Activation *Activation
		Units      []Unit `json:",omitempty"`
	}{Version: 1, Config: n.Config, Activation: n.Activation, Units: n.Units}
	for _, l := range n.Labels {
		doc.Labels = append(doc.Labels, [2]string{l.Key, l.Value})
	}
	for _, t := range n.Taints {
		doc.Taints = append(doc.Taints, t.String())
	}
	for _, f := range n.Flags {
		doc.Flags = append(doc.Flags, [3]string{f.Name, f.Value, fmt.Sprint(f.NoValue)})
	}
	for _, f := range n.Files {
		if !f.OutsideHash {
			x := file{f.Path, string(f.Kind), f.Text.Template(), f.Owner, f.Mode, f.CreateOnly, nil}
			if f.Notify != nil {
				x.Notify = &f.Notify
			}
			doc.Files = append(doc.Files, x)
		}
	}
	b, err := json.Marshal(doc)
	if err != nil {
		panic("node: a plan that is no JSON: " + err.Error()) // values come from decoders of JSON, YAML and cty
	}
	return b
}

// Hash is the plan's identity.
func (n Node) Hash() string {
	h := sha256.Sum256(n.Canonical())
	return "sha256:" + hex.EncodeToString(h[:])
}
