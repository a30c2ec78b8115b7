package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/plugins/contract"
)

// ErrRefused is a kernel that has Landlock and something on this machine that forbids it.
var ErrRefused = errors.New("the kernel has Landlock, but a filter of system calls on this machine refuses it (EPERM): " +
	"the unit needs SystemCallFilter=landlock_create_ruleset landlock_add_rule landlock_restrict_self")

// ErrNone is a kernel without Landlock.
var ErrNone = errors.New("no Landlock")

// LandlockABI is the version of Landlock that the kernel has. The error tells a kernel without it from a refusal.
func LandlockABI() (int, error) {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch errno {
	case 0:
		return int(v), nil
	case unix.EPERM, unix.EACCES:
		return 0, ErrRefused
	case unix.ENOSYS:
		return 0, fmt.Errorf("%w: this kernel has none", ErrNone)
	case unix.EOPNOTSUPP:
		return 0, fmt.Errorf("%w: it is turned off on this machine (the kernel's lsm= does not name it)", ErrNone)
	}
	return 0, errno
}

// What each version of Landlock brought, as far as it is used (Documentation/userspace-api/landlock.rst).
const (
	abiRefer    = 2
	abiTruncate = 3
	abiNetwork  = 4
	abiIoctl    = 5
	// ABIScopes is the first version that keeps signals inside: below it, a detector that has no uid of its own could end other
	// programs of the same user.
	ABIScopes = 6
	// ABISockets is the first version that tells one socket in a folder from another.
	ABISockets = 9
)

const (
	readFile  = unix.LANDLOCK_ACCESS_FS_READ_FILE
	readAll   = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	execute   = unix.LANDLOCK_ACCESS_FS_EXECUTE
	device    = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	onFiles   = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
	socketDir = readAll | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
)

// handled are the accesses that a version can refuse.
func handled(abi int) (fs, net uint64) {
	fs = unix.LANDLOCK_ACCESS_FS_REFER - 1 // all of version 1
	for version, right := range map[int]uint64{abiRefer: unix.LANDLOCK_ACCESS_FS_REFER, abiTruncate: unix.LANDLOCK_ACCESS_FS_TRUNCATE,
		abiIoctl: unix.LANDLOCK_ACCESS_FS_IOCTL_DEV, ABISockets: unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX} {
		if abi >= version {
			fs |= right
		}
	}
	if abi >= abiNetwork {
		net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	return fs, net
}

// Binary is the descriptor on which a detector's program is passed to prelet-detect.
const Binary = 3

// landlock leaves to all threads of the process what any detector may read, and what was granted to this one.
func (r *Report) landlock(p Policy) {
	abi, err := p.landlockABI()
	if errors.Is(err, ErrNone) {
		r.lack("Landlock", err.Error())
		return
	}
	if err != nil {
		r.note("Landlock", err)
		return
	}
	if abi < ABIScopes {
		r.lack("Landlock", fmt.Sprintf("this kernel has version %d; below %d it does not keep signals and abstract sockets inside", abi, ABIScopes))
	}
	fs, net := handled(abi)
	rules, err := newRuleset(unix.LandlockRulesetAttr{Handled_access_fs: fs, Handled_access_net: net})
	if err != nil {
		r.note("Landlock", err)
		return
	}
	defer rules.close()
	rules.allow(readAll, contract.Readable()...)
	rules.allow(readFile|execute, loaders()...)
	rules.allowFile(readFile|execute, Binary)
	rules.allow(readFile|unix.LANDLOCK_ACCESS_FS_WRITE_FILE, contract.Discard)
	rules.allow(socketDir, p.Socket)
	rules.allow(readAll, p.Read...)
	rules.allow(readAll|execute, p.Execute...)
	rules.allow(device, p.Devices...)
	if abi >= ABISockets {
		rules.allow(unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX, p.Sockets...)
	}
	if rules.err != nil { // a rule that is missing makes the sandbox tighter, and the detector says what it lacks
		r.note("Landlock", rules.err)
	}
	if err := onAllThreads(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules.fd), 0); err != nil {
		r.note("Landlock", err)
	}
}

// loaders are the dynamic linkers that a program of this architecture can name (the ABI fixes their paths; musl has its own).
// They are named where seccomp knows the architecture and refuses others: to look for them costs more than all rules.
func loaders() []string {
	switch runtime.GOARCH {
	case "amd64":
		return []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"}
	case "arm64":
		return []string{"/lib/ld-linux-aarch64.so.1", "/lib64/ld-linux-aarch64.so.1", "/lib/ld-musl-aarch64.so.1"}
	}
	return []string{"/lib/ld-linux-*", "/lib64/ld-linux-*", "/lib/ld-musl-*"}
}

// scopes keeps signals and abstract sockets of the calling thread, and of what it starts, to themselves.
func (r *Report) scopes(p Policy) {
	abi, err := p.landlockABI()
	if err != nil || abi < ABIScopes {
		return // told for the process
	}
	rules, err := newRuleset(unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL})
	if err == nil {
		defer rules.close()
		if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules.fd), 0, 0); errno != 0 {
			err = errno
		}
	}
	r.note("Landlock's scopes", err)
}

// ruleset is one that is being written. The first error is kept.
type ruleset struct {
	fd      int
	handled uint64
	err     error
}

func newRuleset(a unix.LandlockRulesetAttr) (*ruleset, error) {
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&a)), unsafe.Sizeof(a), 0)
	if errno != 0 {
		return nil, errno
	}
	return &ruleset{fd: int(fd), handled: a.Handled_access_fs}, nil
}

func (s *ruleset) close() { _ = unix.Close(s.fd) }

// allow adds a rule for each path that is there; of a file, what can be done with one.
func (s *ruleset) allow(access uint64, patterns ...string) {
	for _, p := range patterns {
		found := []string{p}
		if strings.ContainsAny(p, `*?[\`) {
			var err error
			if found, err = filepath.Glob(p); err != nil {
				s.fail(fmt.Errorf("%s is no pattern", p))
			}
		}
		for _, path := range found {
			fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				if !errors.Is(err, os.ErrNotExist) {
					s.fail(fmt.Errorf("%s: %w", path, err))
				}
				continue
			}
			s.allowFile(access, fd)
			_ = unix.Close(fd)
		}
	}
}

func (s *ruleset) allowFile(access uint64, fd int) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		s.fail(err)
		return
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= onFiles
	}
	if access &= s.handled; access == 0 {
		return
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(s.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		s.fail(fmt.Errorf("rule for descriptor %d: %w", fd, errno))
	}
}

func (s *ruleset) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}
