package boot

import (
	"encoding/json"

	"github.com/prelet/prelet/internal/node"
)

// StoredFile is what a plan.json says of a file.
type StoredFile struct {
	Path    string   `json:"path"`
	Purpose string   `json:"purpose"`          // kubelet-config, kubelet-flags, state, and so on
	Notify  []string `json:"notify,omitempty"` // what the site says that it notifies: "restart chrony.service"
}

// NewStoredFile returns what a plan.json says of a file of a node.
func NewStoredFile(n node.Node, f node.File) StoredFile {
	out := StoredFile{Path: f.Path, Purpose: f.Purpose}
	if f.Notify == nil {
		return out
	}
	to := findNotified(n, f, nil)
	for _, u := range to.units {
		out.Notify = append(out.Notify, u.Action+" "+u.Unit.Unit)
	}
	if to.kubelet {
		out.Notify = append(out.Notify, "restart "+kubeletUnitOf(n))
	}

	return out
}

// ParseStoredFiles returns the files of a plan.json as a generation keeps it, by path. The result is empty if it cannot
// be parsed.
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
