package activation

import (
	"fmt"
	"slices"

	"github.com/prelet/prelet/internal/fault"
)

// countTry counts this boot as an attempt to verify, before it begins: the boot may not survive to record its end. If
// the store is read-only or full, nothing is counted, and the kubelet starts anyway.
func (m *StateMachine) countTry(t *walkState) error {
	if m.Store.ReadOnly() != nil {
		return nil
	}

	_, err := m.Store.AddTry(m.BootID)
	if fault.CodeOf(err) == fault.CannotWrite {
		m.reportUnwritten(t, "this boot could not be counted as a try", err)
		return nil
	}

	return err
}

// uncountTry records that this boot's verification ended without a verdict. If that fails, the boot counts as a try.
func (m *StateMachine) uncountTry(t *walkState) {
	if err := m.Store.UndoTry(m.BootID); err != nil {
		m.reportUnwritten(t, "a boot without a verdict could not be recorded", err)
	}
}

func (m *StateMachine) reportUnwritten(t *walkState, what string, err error) {
	why := fmt.Sprintf("%s: %v", what, err)
	if !slices.Contains(t.unwritten, why) {
		t.unwritten = append(t.unwritten, why)
		m.note("verify", "notice", "%s", why)
	}
}
