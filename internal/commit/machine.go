package commit

import (
	"encoding/json"

	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/platform/machineid"
)

// KeepMachine keeps the machine here as the owner of the generations so far: if a person says so (isMeant), or if one
// of its marks has changed, or is known now, and another is the same.
func KeepMachine(s *generation.Store, here machineid.Machine, isMeant bool) error {
	cur := readCurrent(s)
	if cur == nil {
		return nil
	}
	v := machineid.Compare(s, cur.Gen, here)
	if !v.IsNews || v.Why != "" && !isMeant {
		return nil
	}

	text, err := json.Marshal(machineid.Accepted{
		FormatVersion: 1,
		Generation:    cur.Gen,
		Machine:       v.Here,
	})
	if err != nil {
		return err
	}

	return s.PutStateFile(machineid.AcceptedFile, text)
}
