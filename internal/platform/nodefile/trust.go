package nodefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
)

// Loose is a file or a folder that a user other than root and the user of this process may change. It is an error.
type Loose struct {
	Path string
	Why  string // a sentence without its subject: "belongs to uid 1000"
	Fix  string // the command that ends it
}

func (l *Loose) Error() string { return l.Path + " " + l.Why }

// below returns l with the command for the path on this machine. l may be nil.
func (l *Loose) below(r Root) *Loose {
	if l == nil || r == "" {
		return l
	}
	out := *l
	out.Fix = strings.TrimSuffix(l.Fix, l.Path) + r.Word(l.Path)

	return &out
}

// FindLoose reports the users, except for root and the user of this process, who may change an open file, or the names
// in an open folder; nil: none. The descriptor may have O_PATH. passed is for a folder that a path only leads through:
// there the sticky bit is enough, because it protects the folders of others. Every file that prelet trusts or writes is
// checked by this rule.
func FindLoose(fd int, path string, st *unix.Stat_t, passed bool) *Loose {
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		st = &unix.Stat_t{Uid: st.Uid, Gid: st.Gid} // the mode of a link has no effect
	}
	mode := st.Mode & 0o7777
	isFolder := st.Mode&unix.S_IFMT == unix.S_IFDIR
	passed = passed && isFolder

	loose := FindLooseState(path, int(st.Uid), int(st.Gid), mode, passed)
	isDecided := loose != nil && (!isOurs(st.Uid, os.Geteuid) || mode&0o002 != 0)
	if mode&0o020 == 0 || isDecided {
		return loose // the group's bit is the mask of an ACL: without it no entry allows to write
	}
	if passed && mode&unix.S_ISVTX != 0 {
		return nil
	}

	acl, err := readACL(fd)
	if err != nil {
		why := fmt.Sprintf("can be written by its group, and its ACL cannot be read: %s", err)
		return &Loose{path, why, "chmod g-w " + path}
	}
	if acl == nil {
		return loose
	}
	writer := acl.find(aclWrite, st.Gid) // the ACL is more precise than the group's bit
	if writer == "" {
		return nil
	}

	return &Loose{path, "has an ACL that lets " + writer + " write", "setfacl -b " + path}
}

// FindLooseState is FindLoose by owner and mode alone, for a folder that is planned.
func FindLooseState(path string, uid, gid int, mode uint32, passed bool) *Loose {
	switch {
	case !isOurs(uint32(uid), os.Geteuid):
		return &Loose{path, fmt.Sprintf("belongs to uid %d", uid), "chown root: " + path}
	case passed && mode&unix.S_ISVTX != 0:
		return nil
	case mode&0o002 != 0:
		return &Loose{
			path,
			fmt.Sprintf("can be written by everybody (mode %04o)", mode),
			"chmod o-w " + path,
		}
	case mode&0o020 != 0 && !isOurs(uint32(gid), os.Getegid):
		why := fmt.Sprintf("can be written by group %d (mode %04o)", gid, mode)
		return &Loose{path, why, "chmod g-w " + path}
	}

	return nil
}

// isOurs reports whether an id is root's or that of this process.
func isOurs(id uint32, ours func() int) bool { return id == 0 || id == uint32(ours()) }

// accessACL contains the entries of a POSIX access ACL as the kernel stores it.
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
	aclExecute    = 1
	aclWrite      = 2
	aclRead       = 4
)

// readACL reads the access ACL of an open file; nil: it has none. A descriptor with O_PATH cannot be asked for
// attributes, but its name in /proc can.
func readACL(fd int) (accessACL, error) {
	name := "/proc/self/fd/" + strconv.Itoa(fd)
	size, err := unix.Getxattr(name, aclName, nil)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	buf := make([]byte, size)
	n, err := unix.Getxattr(name, aclName, buf)
	if err != nil {
		return nil, err
	}

	isWhole := n >= aclHeader && (n-aclHeader)%aclEntry == 0
	if !isWhole || binary.LittleEndian.Uint32(buf) != aclVersion {
		return nil, fmt.Errorf("unknown format of %s", aclName)
	}

	return buf[aclHeader:n], nil
}

// isForAll reports whether the mode and the ACL of an open file give a permission to everyone: aclRead, or aclExecute
// to pass a folder. An entry without it takes it from a user or a group although all others have it.
func isForAll(fd int, st *unix.Stat_t, permission uint16) bool {
	all := uint32(permission) * 0o111
	if st.Mode&all != all {
		return false
	}
	acl, err := readACL(fd)
	if err != nil {
		return false
	}
	for ; len(acl) > 0; acl = acl[aclEntry:] {
		if binary.LittleEndian.Uint16(acl[2:])&permission == 0 {
			return false
		}
	}

	return true
}

// IsReachable reports whether everyone may pass the existing folders above a path.
func (r Root) IsReachable(p string) bool {
	for dir := path.Dir(p); dir != "/"; dir = path.Dir(dir) {
		look, err := r.Look(dir, FollowNone)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false
		}
		isClosed := level{fd: look.fd, path: dir, stat: look.Stat}.isClosed()
		look.Close()
		if isClosed {
			return false
		}
	}

	return true
}

// FindReader returns the users, except for root and the user of this process, who may read the file, as in "group 998";
// "" for none.
func (l *Look) FindReader() (string, error) {
	st := &l.Stat
	switch {
	case !isOurs(st.Uid, os.Geteuid):
		return fmt.Sprintf("uid %d", st.Uid), nil
	case st.Mode&0o004 != 0:
		return "everybody", nil
	case st.Mode&0o040 == 0: // the mask of an ACL
		return "", nil
	}

	acl, err := readACL(l.fd)
	switch {
	case err != nil:
		return "", fmt.Errorf("its ACL cannot be read: %w", err)
	case acl != nil:
		return acl.find(aclRead, st.Gid), nil
	case !isOurs(st.Gid, os.Getegid):
		return fmt.Sprintf("group %d", st.Gid), nil
	}

	return "", nil
}

// find returns the first user or group that has a permission by an ACL and that is neither root's nor that of this
// process; "" if there is none. gid is the owning group.
func (a accessACL) find(permission uint16, gid uint32) string {
	mask := uint16(0o7)
	for e := a; len(e) > 0; e = e[aclEntry:] {
		if binary.LittleEndian.Uint16(e) == aclMask {
			mask = binary.LittleEndian.Uint16(e[2:])
		}
	}

	for e := a; len(e) > 0; e = e[aclEntry:] {
		if binary.LittleEndian.Uint16(e[2:])&mask&permission == 0 {
			continue
		}
		id := binary.LittleEndian.Uint32(e[4:])
		switch tag := binary.LittleEndian.Uint16(e); {
		case tag == aclUser && !isOurs(id, os.Geteuid):
			return fmt.Sprintf("uid %d", id)
		case tag == aclOwnerGroup && !isOurs(gid, os.Getegid):
			return fmt.Sprintf("group %d", gid)
		case tag == aclGroup && !isOurs(id, os.Getegid):
			return fmt.Sprintf("group %d", id)
		}
	}

	return ""
}

// FindTrusted looks for a file or a folder of this machine, and checks it, every folder above it, and every link of the
// path. The error is a *Loose, or the reason why the file cannot be read.
func FindTrusted(path string) (*Look, error) {
	look, err := Find(path, FollowAll)
	if err == nil && look.Loose != nil {
		look.Close()
		return nil, look.Loose
	}

	return look, err
}

// CheckTrusted is FindTrusted for callers that need only its error.
func CheckTrusted(path string) error {
	look, err := FindTrusted(path)
	if err == nil {
		look.Close()
	}

	return err
}

// TrustedText reads a regular file that is UTF-8 and that decides which cluster this node trusts, or as which user it
// acts: a CA, a kubeconfig, a certificate, a key. If other users may change the file, it returns the fault of
// Untrusted.
func (r Root) TrustedText(path string) (string, *fault.Fault) {
	text, loose, f := r.InspectText(path)
	if loose != nil {
		return "", Untrusted(path, loose)
	}

	return text, f
}

// InspectText is TrustedText for a file that is only inspected: it also reads a file that other users may change, and
// returns why they may.
func (r Root) InspectText(path string) (text string, loose *Loose, f *fault.Fault) {
	found, f := r.readText(path, FollowAll)

	return found.Text, found.Loose, f
}

// Untrusted returns the fault of a file that other users may change: it, a folder above it, or a link of its path.
func Untrusted(path string, loose *Loose) *fault.Fault {
	why := loose.Error()
	if loose.Path != path {
		why = path + ": " + why
	}

	return &fault.Fault{
		Code: fault.ClusterUntrusted,
		Why:  why + ". A user who may do that decides which cluster this node trusts",
		Next: "End it:\n    " + loose.Fix,
	}
}
