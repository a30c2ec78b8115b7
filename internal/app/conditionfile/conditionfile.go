// Package conditionfile keeps which conditions of the Node prelet sets, and their results in this boot, in files of the
// state folder and the run folder. It asks no cluster, and takes no lock.
package conditionfile

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/prelet/prelet/internal/commit"
	"github.com/prelet/prelet/internal/kubelet/condition"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

const (
	// conditionsFile is in the state folder, as a Record, and in the run folder, as Results.
	conditionsFile = "conditions.json"
	// owedFile is in the run folder while the Node may not have the results. prelet-verify.service starts if it exists.
	owedFile = "conditions.owed"
)

// Files are the folders of the files.
type Files struct {
	Root     string // of the machine; "" is /
	StateDir string
	RunDir   string
	BootID   string
}

// Record is which conditions prelet sets on which Node. It survives reboots: a boot makes them False before
// any site is read, and a condition that the site no longer has is removed.
type Record struct {
	FormatVersion int               `json:"format_version"`
	Node          string            `json:"node"`
	On            machineid.Machine `json:"on"`         // a copy of the disk is not this machine
	Conditions    []Condition       `json:"conditions"` // in the order of the site
}

// Condition is one condition of a record.
type Condition struct {
	Type    string `json:"type"`
	Checked bool   `json:"checked"` // the site has checks for it: it needs a plan to be True
}

// Types returns the types of its conditions.
func (r Record) Types() (out []string) {
	for _, c := range r.Conditions {
		out = append(out, c.Type)
	}

	return out
}

// Results are the conditions by the checks of the site in this boot, for a healthy kubelet.
type Results struct {
	FormatVersion int                   `json:"format_version"`
	BootID        string                `json:"boot_id"`
	Node          string                `json:"node"`
	Healthz       string                `json:"healthz,omitempty"` // URL of the planned kubelet; "": not known
	Conditions    []condition.Condition `json:"conditions"`
}

// ReadRecord returns the record of this machine; an empty one if there is none, or if it cannot be used.
func (f Files) ReadRecord() Record {
	var r Record
	text, err := nodefile.ReadFile(filepath.Join(f.StateDir, conditionsFile), nodefile.Max)
	if err != nil || json.Unmarshal(text, &r) != nil || r.FormatVersion != 1 || r.On.IsForeign(machineid.Of(f.Root)) {
		return Record{}
	}

	return r
}

// WriteRecord replaces the record. An empty one is removed.
func (f Files) WriteRecord(r Record) error {
	path := filepath.Join(f.StateDir, conditionsFile)
	if len(r.Conditions) == 0 {
		return atomicfile.Remove(path)
	}
	r.FormatVersion = 1
	r.On = machineid.Of(f.Root)
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}

	return commit.WriteIfChanged(path, text)
}

// ReadResults returns the results of this boot; ok is false if there are none.
func (f Files) ReadResults() (r Results, ok bool) {
	text, err := nodefile.ReadFile(filepath.Join(f.RunDir, conditionsFile), nodefile.Max)
	if err != nil || json.Unmarshal(text, &r) != nil {
		return Results{}, false
	}

	return r, r.FormatVersion == 1 && r.BootID == f.BootID
}

// WriteResults replaces the results, and notes that the Node may not have them.
func (f Files) WriteResults(r Results) error {
	r.FormatVersion = 1
	r.BootID = f.BootID
	text, err := json.Marshal(r)
	if err == nil {
		err = atomicfile.File(filepath.Join(f.RunDir, conditionsFile), 0o644, text)
	}
	if err != nil {
		return err
	}

	return atomicfile.File(filepath.Join(f.RunDir, owedFile), 0o644, text)
}

// IsOwed reports whether the Node may not have the results of this boot.
func (f Files) IsOwed() bool {
	_, err := os.Lstat(filepath.Join(f.RunDir, owedFile))

	return err == nil
}

// End notes that the Node has these results, and no owned condition that is not among them. It reports false if a run
// has replaced the results since they were read: the Node may not have those.
func (f Files) End(was Results, owned []string) (isEnded bool, err error) {
	now, ok := f.ReadResults()
	if ok && !reflect.DeepEqual(now, was) {
		return false, f.WriteResults(now)
	}

	record := f.ReadRecord()
	record.Conditions = slices.DeleteFunc(record.Conditions, func(c Condition) bool {
		return slices.Contains(owned, c.Type) && !slices.Contains(condition.Types(was.Conditions), c.Type)
	})

	return true, errors.Join(f.WriteRecord(record), f.Forget())
}

// Forget notes that no results are owed.
func (f Files) Forget() error { return atomicfile.Remove(filepath.Join(f.RunDir, owedFile)) }
