package desired

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// PlanBlob is the name under which a generation keeps its StoredPlan.
const PlanBlob = "plan.json"

// StoredPlan is a plan as a generation stores it: for history, and for the purpose of each file.
type StoredPlan struct {
	FormatVersion int          `json:"format_version"`
	Hash          string       `json:"plan_hash"`
	Node          Stored       `json:"node"`
	Files         []StoredFile `json:"files"` // also those that were adopted from the generation before
}

// StoredFile is the purpose of a file in a stored plan.
type StoredFile struct {
	Path    string   `json:"path"`
	Purpose string   `json:"purpose"`          // kubelet-config, kubelet-flags, state, and so on
	Notify  []string `json:"notify,omitempty"` // the units in the site's `notify`: "restart chrony.service"
}

// blobs has the parts of generations other than their files.
type blobs interface {
	Blob(gen int, name string) ([]byte, error)
}

// ReadStoredPlan reads the plan of a generation, even if another version stored it.
func ReadStoredPlan(store blobs, gen int) (StoredPlan, error) {
	text, err := store.Blob(gen, PlanBlob)
	if err != nil {
		return StoredPlan{}, err
	}

	return ParseStoredPlan(text)
}

func ParseStoredPlan(text []byte) (StoredPlan, error) {
	var p StoredPlan
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&p); err != nil {
		return StoredPlan{}, fmt.Errorf("%s is damaged: %w", PlanBlob, err)
	}

	return p, nil
}

// File returns the purpose of a file; a zero value if the plan does not have the file.
func (p StoredPlan) File(path string) StoredFile {
	i := slices.IndexFunc(p.Files, func(f StoredFile) bool { return f.Path == path })
	if i < 0 {
		return StoredFile{}
	}

	return p.Files[i]
}
