package detector

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// treeGrants returns the grants for a recorded machine: of all that the site allows, only the interpreter of a
// script. Devices, sockets and programs of this machine say nothing about the recorded one. It returns an error if
// the detectors' users cannot read the tree, which would look like an empty machine.
func (h *Host) treeGrants(program string, allow tape.Grants) (tape.Grants, error) {
	var grants tape.Grants
	if err := checkTree(h.o.Tree); err != nil {
		return grants, err
	}

	interpreters, err := Interpreters(program)
	for _, p := range interpreters {
		if slices.Contains(allow.Execute, p) {
			grants.Execute = append(grants.Execute, p)
		}
	}

	return grants, err
}

// checkTree checks, as root, that other users can read a folder and enter the folders above it.
func checkTree(tree string) error {
	if os.Geteuid() != 0 {
		return nil
	}

	need := os.FileMode(0o005)
	for at := tree; ; at = filepath.Dir(at) {
		st, err := nodefile.Stat(at)
		if err != nil {
			return err
		}
		if st.Mode()&need != need {
			return fmt.Errorf("the users of detectors cannot read the recorded machine: chmod o+rx %s", at)
		}
		if at == "/" {
			return nil
		}
		need = 0o001
	}
}
