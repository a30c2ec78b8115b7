package generation

import (
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSecretHasNoOtherReaders gives a secret to its owner and its group: no user in the ACL of the file before, or in
// the default ACL of the folder, reads it. Without a secret an ACL stays.
func TestSecretHasNoOtherReaders(t *testing.T) {
	b := newBox(t)
	b.write("/etc/kubernetes/old", "old", 0o644)
	b.write("/etc/kubernetes/plain", "old", 0o644)
	for path, name := range map[string]string{
		"/etc/kubernetes":       "system.posix_acl_default",
		"/etc/kubernetes/old":   accessACL,
		"/etc/kubernetes/plain": accessACL,
	} {
		if err := unix.Setxattr(b.path(path), name, makeACL(1000), 0); errors.Is(err, unix.ENOTSUP) {
			t.Skip("needs a TMPDIR whose file system has ACLs")
		} else if err != nil {
			t.Fatal(err)
		}
	}

	secret := func(path string) Target {
		target := file(path, "secret")
		target.Secret = true
		target.Mode = 0o640
		return target
	}
	plain := file("/etc/kubernetes/plain", "new")
	plain.Mode = Keep
	s := b.open()
	b.apply(s, plan("p1", secret("/etc/kubernetes/old"), secret("/etc/kubernetes/new"), plain))

	for path, want := range map[string]bool{
		"/etc/kubernetes/old": false, "/etc/kubernetes/new": false, "/etc/kubernetes/plain": true,
	} {
		var st unix.Stat_t
		if err := unix.Stat(b.path(path), &st); err != nil {
			t.Fatal(err)
		}
		_, err := unix.Getxattr(b.path(path), accessACL, make([]byte, maxXattr))
		if got := err == nil; got != want || !want && st.Mode&0o777 != 0o640 {
			t.Errorf("%s: got an ACL %t, mode %04o; want an ACL %t", path, got, st.Mode&0o777, want)
		}
	}
}

// makeACL returns an ACL that lets one user read, as the kernel stores it.
func makeACL(uid uint32) []byte {
	const version, noID = 2, ^uint32(0)
	acl := binary.LittleEndian.AppendUint32(nil, version)
	for _, e := range []struct {
		tag, permissions uint16
		id               uint32
	}{{0x01, 6, noID}, {0x02, 4, uid}, {0x04, 4, noID}, {0x10, 4, noID}, {0x20, 4, noID}} {
		acl = binary.LittleEndian.AppendUint16(acl, e.tag)
		acl = binary.LittleEndian.AppendUint16(acl, e.permissions)
		acl = binary.LittleEndian.AppendUint32(acl, e.id)
	}

	return acl
}
