package nodefile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/internal/testing/table"
)

// TestOwnerName names ids by the files below the root, not by those of this machine.
func TestOwnerName(t *testing.T) {
	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "etc"), 0o755))
	for file, text := range map[string]string{
		"passwd": "root:x:0:0::/:\nbroken\netcd:x:998:997::/:\n",
		"group":  "root:x:0:\netcd:x:997:\n",
	} {
		osfile.Write(t, filepath.Join(root, "etc", file), text, 0o644)
	}

	for _, c := range table.YAML[[]struct {
		UID, GID int
		Want     string
	}](t, `
- {uid: 0, gid: 0, want: root:root}
- {uid: 998, gid: 997, want: etcd:etcd}
- {uid: 998, gid: 5, want: etcd:5}
- {uid: 7, gid: 997, want: 7:etcd}
`) {
		if got := Root(root).OwnerName(c.UID, c.GID); got != c.Want {
			t.Errorf("%d:%d: got %s, want %s", c.UID, c.GID, got, c.Want)
		}
	}
}

// TestFindID wants that no id is cut to 32 bits: 4294967296 would be root's.
func TestFindID(t *testing.T) {
	root := t.TempDir()
	text := "etcd:x:997:\nhuge:x:4294967296:\nminus:x:-1:\nword:x:etcd:\n"
	osfile.Write(t, filepath.Join(root, "group"), text, 0o644)

	for name, want := range map[string]int{"etcd": 997, "12": 12, "root": 0} {
		if got, err := Root(root).FindID("/group", name); got != want || err != nil {
			t.Errorf("id of %s: got %d, %v; want %d, no error", name, got, err, want)
		}
	}
	for _, name := range []string{"huge", "minus", "word", "absent", "4294967296"} {
		if got, err := Root(root).FindID("/group", name); err == nil {
			t.Errorf("id of %s: got %d and no error, want an error", name, got)
		}
	}
}
