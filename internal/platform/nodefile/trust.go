package nodefile

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

// Loose is a file or a folder that somebody besides root and the user of this process may change. It is an error.
type Loose struct {
	Path string
	Why  string // who may, as a sentence without its subject: "belongs to uid 1000"
	Fix  string // the command that ends it
}

func (l *Loose) Error() string { return l.Path + " " + l.Why }

// Judge returns who besides root and the user of this process may change an open file, or the names in an open folder; nil:
// nobody. The descriptor may be one of O_PATH. passed is for a folder that a path only goes through: there the sticky bit is
// enough, because it protects the folders of others. This is the one rule for whatever prelet acts on or writes into.
func Judge(fd int, path string, st *unix.Stat_t, passed bool) *Loose {
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		st = &unix.Stat_t{Uid: st.Uid, Gid: st.Gid} // the mode of a link means nothing
	}
	mode := st.Mode & 0o7777
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		passed = false
	}
	loose := JudgeState(path, int(st.Uid), int(st.Gid), mode, passed)
	if mode&0o020 == 0 || loose != nil && (!isOurs(st.Uid, os.Geteuid()) || mode&0o002 != 0) {
		return loose // the group's bit is the mask of an ACL: without it no entry allows to write
	}
	if passed && mode&unix.S_ISVTX != 0 {
		return nil
	}

	switch acl, err := readACL(fd); {
	case err != nil:
		return &Loose{path, fmt.Sprintf("can be written by its group, and its ACL cannot be read: %s", err), "chmod g-w " + path}
	case acl != nil: // it says more than the group's bit
		if who := acl.foreignWriter(st.Gid); who != "" {
			return &Loose{path, "has an ACL that lets " + who + " write", "setfacl -b " + path}
		}
		return nil
	}
	return loose
}

// JudgeState is Judge by owner and mode alone, as for a folder that is planned.
func JudgeState(path string, uid, gid int, mode uint32, passed bool) *Loose {
	switch {
	case !isOurs(uint32(uid), os.Geteuid()):
		return &Loose{path, fmt.Sprintf("belongs to uid %d", uid), "chown root: " + path}
	case passed && mode&unix.S_ISVTX != 0:
		return nil
	case mode&0o002 != 0:
		return &Loose{path, fmt.Sprintf("can be written by everybody (mode %04o)", mode), "chmod o-w " + path}
	case mode&0o020 != 0 && !isOurs(uint32(gid), os.Getegid()):
		return &Loose{path, fmt.Sprintf("can be written by group %d (mode %04o)", gid, mode), "chmod g-w " + path}
	}
	return nil
}

// isOurs reports whether an id is root's or ours.
func isOurs(id uint32, ours int) bool { return id == 0 || id == uint32(ours) }

// accessACL is a POSIX access ACL as the kernel keeps it.
// Source: include/uapi/linux/posix_acl_xattr.h: a version, then entries of tag, permissions and id.
type accessACL []byte

const (
	aclName       = "system.posix_acl_access"
	aclVersion    = 2
	aclHeader     = 4
	aclEntry      = 8
	aclUser       = 0x02
	aclOwnerGroup = 0x04
	aclGroup      = 0x08
	aclMask       = 0x10
	aclWrite      = 2
)

// readACL reads the access ACL of an open file; nil: it has none. A descriptor of O_PATH has no attributes of its own, but the
// name of it in /proc does.
func readACL(fd int) (accessACL, error) {
	buf := make([]byte, 64<<10)
	n, err := unix.Getxattr("/proc/self/fd/"+strconv.Itoa(fd), aclName, buf)
	switch err {
	case nil:
	case unix.ENODATA, unix.ENOTSUP:
		return nil, nil
	default:
		return nil, err
	}
	if n < aclHeader || binary.LittleEndian.Uint32(buf) != aclVersion || (n-aclHeader)%aclEntry != 0 {
		return nil, fmt.Errorf("unknown form of %s", aclName)
	}
	return buf[aclHeader:n], nil
}

// foreignWriter names the first user or group that an ACL allows to write and that is neither root's nor ours; "" for none.
// gid is the owning group.
func (a accessACL) foreignWriter(gid uint32) string {
	mask := uint16(0o7)
	for e := a; len(e) > 0; e = e[aclEntry:] {
		if binary.LittleEndian.Uint16(e) == aclMask {
			mask = binary.LittleEndian.Uint16(e[2:])
		}
	}
	for e := a; len(e) > 0; e = e[aclEntry:] {
		if binary.LittleEndian.Uint16(e[2:])&mask&aclWrite == 0 {
			continue
		}
		id := binary.LittleEndian.Uint32(e[4:])
		switch tag := binary.LittleEndian.Uint16(e); {
		case tag == aclUser && !isOurs(id, os.Geteuid()):
			return fmt.Sprintf("uid %d", id)
		case tag == aclOwnerGroup && !isOurs(gid, os.Getegid()):
			return fmt.Sprintf("group %d", gid)
		case tag == aclGroup && !isOurs(id, os.Getegid()):
			return fmt.Sprintf("group %d", id)
		}
	}
	return ""
}

// FindTrusted looks for a file or a folder of this machine, and judges it and every folder above it, through links, each of
// which is judged as well. The error is a *Loose, or why it could not be looked at.
func FindTrusted(path string) (*Look, error) { return refuseLoose(Find(path, FollowAll)) }

func refuseLoose(look *Look, err error) (*Look, error) {
	if err == nil && look.Loose != nil {
		look.Close()
		return nil, look.Loose
	}
	return look, err
}

// CheckTrusted is FindTrusted for who only wants the error.
func CheckTrusted(path string) error {
	look, err := FindTrusted(path)
	if err == nil {
		look.Close()
	}
	return err
}

// TrustedText reads a regular file that is UTF-8 and that decides whom this node trusts, or as whom it acts: a CA, a
// kubeconfig, a certificate, a key. One that others may change is not returned; its fault is that of Untrusted.
func (r Root) TrustedText(path string) (string, *fault.Fault) {
	text, loose, f := r.JudgedText(path)
	if loose != nil {
		return "", Untrusted(path, loose)
	}
	return text, f
}

// JudgedText is TrustedText for a file that is only looked at: it reads one that others may change too, and says who may.
func (r Root) JudgedText(path string) (text string, loose *Loose, f *fault.Fault) {
	look, err := r.Look(path, FollowAll)
	if err != nil {
		return "", nil, Failure(path, err)
	}
	defer look.Close()
	b, f := look.content(path)
	if f == nil && !utf8.Valid(b) {
		f = Unusable("%s is no UTF-8 text", path)
	}
	return string(b), look.Loose, f
}

// Untrusted returns the fault of a file that others may change: it, a folder above, or a link on the way.
func Untrusted(path string, loose *Loose) *fault.Fault {
	why := loose.Error()
	if loose.Path != path {
		why = path + ": " + why
	}
	return &fault.Fault{
		Code: fault.ClusterUntrusted, Why: why + ". Whoever may do that decides whom this node trusts",
		Next: "End it:\n    " + loose.Fix,
	}
}
