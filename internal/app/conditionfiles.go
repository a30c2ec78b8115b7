package app

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/prelet/prelet/internal/commit"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet/condition"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// The files of the Node's conditions.
const (
	// conditionsFile is in the state folder, as a conditionRecord, and in the run folder, as conditionResults.
	conditionsFile = "conditions.json"
	// owedFile is in the run folder while the Node may not have the results. prelet-verify.service starts if it exists.
	owedFile = "conditions.owed"
)

// conditionRecord is which conditions prelet sets on which Node. It survives reboots: a boot makes them False before
// any site is read, and a condition that the site no longer has is removed.
type conditionRecord struct {
	FormatVersion int               `json:"format_version"`
	Node          string            `json:"node"`
	On            machineid.Machine `json:"on"`         // a copy of the disk is not this machine
	Conditions    []conditionState  `json:"conditions"` // in the order of the site
}

// conditionState is one condition of a record.
type conditionState struct {
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

// readConditionRecord returns the record of this machine; an empty one if there is none, or if it cannot be used.
func (h *Host) readConditionRecord() conditionRecord {
	var r conditionRecord
	text, err := nodefile.ReadFile(filepath.Join(h.stateDir(), conditionsFile), nodefile.Max)
	if err != nil || json.Unmarshal(text, &r) != nil || r.FormatVersion != 1 || r.On.IsForeign(machineid.Of(h.Root)) {
		return conditionRecord{}
	}

	return r
}

// writeConditionRecord replaces the record. An empty one is removed.
func (h *Host) writeConditionRecord(r conditionRecord) error {
	path := filepath.Join(h.stateDir(), conditionsFile)
	if len(r.Conditions) == 0 {
		return removeFile(path)
	}
	r.FormatVersion = 1
	r.On = machineid.Of(h.Root)
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}

	return commit.WriteIfChanged(path, text)
}

// readConditionResults returns the results of this boot; ok is false if there are none.
func (h *Host) readConditionResults() (r conditionResults, ok bool) {
	text, err := nodefile.ReadFile(filepath.Join(h.RunDir, conditionsFile), nodefile.Max)
	if err != nil || json.Unmarshal(text, &r) != nil {
		return conditionResults{}, false
	}

	return r, r.FormatVersion == 1 && r.BootID == h.BootID
}

// writeConditionResults replaces the results, and notes that the Node may not have them.
func (h *Host) writeConditionResults(r conditionResults) error {
	r.FormatVersion = 1
	r.BootID = h.BootID
	text, err := json.Marshal(r)
	if err == nil {
		err = atomicfile.File(filepath.Join(h.RunDir, conditionsFile), 0o644, text)
	}
	if err != nil {
		return err
	}

	return atomicfile.File(filepath.Join(h.RunDir, owedFile), 0o644, text)
}

// owesConditions reports whether the Node may not have the results of this boot.
func (h *Host) owesConditions() bool {
	_, err := os.Lstat(filepath.Join(h.RunDir, owedFile))

	return err == nil
}

// endOwing notes that the Node has these results, and no owned condition that is not among them. It takes the lock, and
// reports false if a run has replaced the results since they were read: the Node may not have those.
func (h *Host) endOwing(
	ctx context.Context,
	was conditionResults,
	owned []string,
) (isEnded bool, err error) {
	store, err := h.lock(ctx)
	if err == nil {
		defer store.Close()
	} else if fault.CodeOf(err) != fault.CannotWrite { // else no run can write now either
		return false, err
	}

	now, ok := h.readConditionResults()
	if ok && !reflect.DeepEqual(now, was) {
		return false, h.writeConditionResults(now)
	}

	record := h.readConditionRecord()
	record.Conditions = slices.DeleteFunc(record.Conditions, func(c conditionState) bool {
		return slices.Contains(owned, c.Type) && !slices.Contains(condition.Types(was.Conditions), c.Type)
	})

	return true, errors.Join(h.writeConditionRecord(record), removeFile(filepath.Join(h.RunDir, owedFile)))
}

// removeFile removes a file, if it exists.
func removeFile(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	return err
}
