package generation

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFolderWithACL commits nothing into a folder that an ACL lets another user write, though its mode shows root's
// group only.
func TestFolderWithACL(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, whose files other users must not change")
	}
	root := t.TempDir()
	dir := filepath.Join(root, "etc")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	none := ^uint32(0)
	acl := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct{ tagPerm, id uint32 }{{0x01 | 7<<16, none}, {0x02 | 7<<16, 1000}, {0x04 | 5<<16, none}, {0x10 | 7<<16, none}, {0x20 | 5<<16, none}} {
		acl = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(acl, e.tagPerm), e.id)
	}
	if err := unix.Setxattr(dir, "system.posix_acl_access", acl, 0); errors.Is(err, unix.ENOTSUP) {
		t.Skip("needs a TMPDIR whose file system has ACLs")
	} else if err != nil {
		t.Fatal(err)
	}

	s, err := Open(t.Context(), Options{Root: root, Dir: filepath.Join(root, "state"), BootID: strings.Repeat("0", 32)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tx, err := s.Begin(
		Proposal{
			PlanID:  "p",
			Targets: []Target{{Path: "/etc/a", Kind: File, Content: []byte("x"), Mode: 0o600, UID: Keep, GID: Keep}},
		},
	)
	if err == nil {
		_, err = tx.Commit()
	}
	if err == nil || !strings.Contains(err.Error(), "has an ACL that lets uid 1000 write") {
		t.Errorf("got %v, want a refusal for the ACL", err)
	}
}
