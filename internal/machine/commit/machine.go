package commit

import (
	"encoding/json"

	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/platform/machineid"
)

// KeepMachine keeps the machine here as the owner of the generations so far: if a person says so (isMeant), or if one
// of its marks has changed, or is known now, and it is the same machine.
func KeepMachine(s *generation.Store, here machineid.Hashes, certified machineid.Certified, isMeant bool) error {
	gen := 0
	if cur := readCurrent(s); cur != nil {
		gen = cur.Gen
	}
	if gen == 0 && !isMeant {
		return nil
	}
	v := machineid.Compare(s, gen, here, certified)
	if !v.IsNews || v.Verdict != machineid.ThisMachine && !isMeant {
		return nil
	}

	text, err := json.Marshal(machineid.Accepted{
		FormatVersion: 1,
		Generation:    gen,
		Hashes:        v.Here,
	})
	if err != nil {
		return err
	}

	return s.PutStateFile(machineid.AcceptedFile, text)
}
