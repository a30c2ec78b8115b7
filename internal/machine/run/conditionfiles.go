package run

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/model/kubelet/condition"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

const (
	// conditionsFile is in the state folder, as a conditionRecord, and in the run folder, as conditionResults.
	conditionsFile = "conditions.json"
	// owedFile is in the run folder while the Node may not have the results. prelet-verify.service starts if it exists.
	owedFile = "conditions.owed"
)

// conditionFiles keeps which conditions of the Node prelet sets, and their results in this boot, in files of the state
// folder and the run folder. It asks no cluster, and takes no lock.
type conditionFiles struct{ *machine.Host }

// conditionRecord is which conditions prelet sets on which Node. It survives reboots: a boot makes them False before
// any site is read, and a condition that the site no longer has is removed.
type conditionRecord struct {
	FormatVersion int                 `json:"format_version"`
	Node          string              `json:"node"`
	On            machineid.Hashes    `json:"on"`         // a copy of the disk is not this machine
	Conditions    []recordedCondition `json:"conditions"` // in the order of the site
}

type recordedCondition struct {
	Type    string `json:"type"`
	Checked bool   `json:"checked"` // the site has checks for it: it needs a plan to be True
}

func (r conditionRecord) types() (out []string) {
	for _, c := range r.Conditions {
		out = append(out, c.Type)
	}

	return out
}

// conditionResults are the conditions by the checks of the site in this boot, for a healthy kubelet.
type conditionResults struct {
	FormatVersion int                   `json:"format_version"`
	BootID        string                `json:"boot_id"`
	Node          string                `json:"node"`
	Healthz       string                `json:"healthz,omitempty"` // URL of the planned kubelet; "": not known
	Conditions    []condition.Condition `json:"conditions"`
}

// readRecord returns the record of this machine; an empty one if there is none, or if it cannot be used.
func (f conditionFiles) readRecord() conditionRecord {
	var r conditionRecord
	text, err := nodefile.ReadFile(filepath.Join(f.StateDir(), conditionsFile), nodefile.Max)
	if err != nil || json.Unmarshal(text, &r) != nil || r.FormatVersion != 1 || r.On.IsForeign(machineid.Of(f.Root)) {
		return conditionRecord{}
	}

	return r
}

// writeRecord replaces the record. An empty one is removed.
func (f conditionFiles) writeRecord(r conditionRecord) error {
	path := filepath.Join(f.StateDir(), conditionsFile)
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

// readResults returns the results of this boot; ok is false if there are none.
func (f conditionFiles) readResults() (r conditionResults, ok bool) {
	text, err := nodefile.ReadFile(filepath.Join(f.RunDir, conditionsFile), nodefile.Max)
	if err != nil || json.Unmarshal(text, &r) != nil {
		return conditionResults{}, false
	}

	return r, r.FormatVersion == 1 && r.BootID == f.BootID
}

// writeResults replaces the results, and notes that the Node may not have them.
func (f conditionFiles) writeResults(r conditionResults) error {
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

// isOwed reports whether the Node may not have the results of this boot.
func (f conditionFiles) isOwed() bool {
	_, err := os.Lstat(filepath.Join(f.RunDir, owedFile))

	return err == nil
}

// end notes that the Node has these results, and no owned condition that is not among them. It reports false if a run
// has replaced the results since they were read: the Node may not have those.
func (f conditionFiles) end(was conditionResults, owned []string) (isEnded bool, err error) {
	now, ok := f.readResults()
	if ok && !reflect.DeepEqual(now, was) {
		return false, f.writeResults(now)
	}

	record := f.readRecord()
	record.Conditions = slices.DeleteFunc(record.Conditions, func(c recordedCondition) bool {
		return slices.Contains(owned, c.Type) && !slices.Contains(condition.Types(was.Conditions), c.Type)
	})

	return true, errors.Join(f.writeRecord(record), f.forget())
}

// forget notes that no results are owed.
func (f conditionFiles) forget() error { return atomicfile.Remove(filepath.Join(f.RunDir, owedFile)) }
