package unitflags

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/testing/growth"
	"github.com/prelet/prelet/internal/testing/osfile"
)

// TestManyDropIns reads a unit with many drop-ins, each with many variables of its own: the work is in proportion.
func TestManyDropIns(t *testing.T) {
	const each = 256

	growth.Check(t, 64, func(size int) func() {
		root := t.TempDir()
		unit := filepath.Join(root, "etc/systemd/system/kubelet.service")
		osfile.Write(t, unit, "[Service]\nExecStart=/usr/bin/kubelet $A0\n", 0o644)
		for n := range size {
			text := "[Service]\nEnvironment="
			for i := range each {
				text += fmt.Sprintf(" A%d=--v=1", n*each+i)
			}
			osfile.Write(t, filepath.Join(unit+".d", fmt.Sprintf("%d.conf", n)), text+"\n", 0o644)
		}

		return func() {
			line, err := KubeletUnit{Root: nodefile.Root(root), Name: "kubelet.service"}.Read()
			if err != nil || len(line.Variables) != size*each {
				t.Fatalf("got %d variables, %v; want %d and no error", len(line.Variables), err, size*each)
			}
		}
	})
}
