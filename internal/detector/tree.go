package pluginhost

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/prelet/prelet/internal/world"
)

// onTree is what is left of a site's grants when a detector looks at a recorded machine: no device, socket or program of this one would tell
// anything of that one. Of a script the interpreter stays. The error is a tree that the users of detectors could not read, and would take for
// an empty machine.
func (h *Host) onTree(program string, allow world.Grants) (g world.Grants, err error) {
	if os.Geteuid() == 0 {
		for at, need := h.o.Tree, os.FileMode(0o005); ; at, need = filepath.Dir(at), 0o001 {
			st, err := os.Stat(at)
			if err != nil {
				return g, err
			}
			if st.Mode()&need != need {
				return g, fmt.Errorf("users of detectors cannot get into the recorded machine: chmod o+rx %s", at)
			}
			if at == "/" {
				break
			}
		}
	}
	interpreters, err := Interpreters(program)
	for _, p := range interpreters {
		if slices.Contains(allow.Execute, p) {
			g.Execute = append(g.Execute, p)
		}
	}
	return g, err
}
