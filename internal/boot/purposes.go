package boot

import (
	"encoding/json"

	"github.com/prelet/prelet/internal/node"
)

// StoredFile is a file of a plan.json.
type StoredFile struct {
	Path    string   `json:"path"`
	Purpose string   `json:"purpose"`          // kubelet-config, kubelet-flags, state, and so on
	Notify  []string `json:"notify,omitempty"` // the units in the site's `notify`: "restart chrony.service"
}

// NewStoredFile returns the entry of a plan.json for a file of a node.
func NewStoredFile(n node.Node, f node.File) StoredFile {
	out := StoredFile{Path: f.Path, Purpose: f.Purpose}
	if f.Notify == nil {
		return out
	}

	units, isKubelet := findNotified(n, f, nil)
	for _, u := range units {
		out.Notify = append(out.Notify, u.Action+" "+u.Unit.Unit)
	}
	if isKubelet {
		out.Notify = append(out.Notify, "restart "+findKubeletUnit(n))
	}

	return out
}

// ParseStoredFiles returns the files of a generation's plan.json, by path. The result is empty if it cannot be
// parsed.
func ParseStoredFiles(plan []byte) map[string]StoredFile {
	out := map[string]StoredFile{}
	var doc struct {
		Files []StoredFile `json:"files"`
	}
	if json.Unmarshal(plan, &doc) == nil {
		for _, f := range doc.Files {
			out[f.Path] = f
		}
	}

	return out
}
