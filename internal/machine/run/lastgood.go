package run

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// machineMarks are the files that show a copied disk to prelet-fallback.service.
var machineMarks = []string{"/etc/machine-id", "/sys/class/dmi/id/product_uuid"}

// keepLastGood writes machine.LastGoodFile if the generation in place is good, and keeps the older one otherwise: that
// generation's files prove themselves.
func (r *nodeRun) keepLastGood(context.Context) error {
	h := r.host
	if r.Store.ReadOnly() != nil {
		return nil
	}
	j, err := r.Store.Journal()
	if err != nil || j != nil {
		return nil // reported elsewhere, or no verdict yet
	}
	current, err := r.Store.Current()
	if err != nil || current == nil || current.Status != generation.StatusGood {
		return nil
	}
	if r.Machine.WhyForeign(current.Gen) != "" { // of a copied disk: the marks here are not those of its machine
		return nil
	}

	lines := []string{fmt.Sprintf("# generation %d", current.Gen)}
	for _, file := range machineMarks {
		text, err := nodefile.Root(h.Root).ReadFile(file, nodefile.Max)
		isLasting := file != machineMarks[0] || !machineid.IsTransient(h.Root)
		if err == nil && isLasting {
			lines = append(lines, fmt.Sprintf("%x  %s", sha256.Sum256(text), file))
		}
	}
	head := strings.Join(lines, "\n") + "\n"
	file := filepath.Join(h.StateDir(), machine.LastGoodFile)
	if old, err := nodefile.ReadFile(file, nodefile.Max); err == nil && strings.HasPrefix(string(old), head) {
		return nil // the files of a generation never change
	}

	spec, err := r.Machine.SpecOf(current.Gen)
	if err != nil || len(spec.Files) == 0 {
		return nil
	}
	for _, file := range slices.Sorted(maps.Keys(spec.Files)) {
		if strings.ContainsAny(file, "\\\r\n") { // sha256sum writes such names in another way
			return nil
		}
		lines = append(lines, spec.Files[file]+"  "+file)
	}

	return atomicfile.File(file, 0o600, []byte(strings.Join(lines, "\n")+"\n"))
}
