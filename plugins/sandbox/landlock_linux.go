package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/plugins/contract"
)

// ErrRefused means that the kernel has Landlock, but something on this machine forbids it.
var ErrRefused = errors.New(
	"the kernel has Landlock, but a filter of system calls on this machine refuses it " +
		"(EPERM): the unit needs SystemCallFilter=landlock_create_ruleset landlock_add_rule landlock_restrict_self",
)

// ErrNone means that the kernel has no Landlock.
var ErrNone = errors.New("no Landlock")

// LandlockABI returns the version of Landlock that the kernel has. The error is ErrNone or ErrRefused, which
// go-landlock's best effort does not distinguish.
func LandlockABI() (int, error) {
	abi, err := ll.LandlockGetABIVersion()
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return 0, ErrRefused
	case errors.Is(err, unix.ENOSYS):
		return 0, fmt.Errorf("%w: this kernel has none", ErrNone)
	case errors.Is(err, unix.EOPNOTSUPP):
		return 0, fmt.Errorf(
			"%w: it is turned off on this machine (the kernel's lsm= does not name it)",
			ErrNone,
		)
	case err != nil:
		return 0, err
	}

	// go-landlock takes a kernel whose scope of signals does not work (no erratum 2) for one without scopes.
	const signalScope = 1 << 1
	if errata, _ := ll.LandlockGetErrata(); abi >= ABIScopes && errata&signalScope == 0 {
		abi = ABIScopes - 1
	}

	return abi, nil
}

// Versions of Landlock from which something that matters here works (Documentation/userspace-api/landlock.rst).
const (
	// ABIScopes is the first version that keeps signals inside: below it, a detector without a uid of its own could
	// end other programs of the same user.
	ABIScopes = 6
	// ABISockets is the first version that distinguishes the sockets in a folder.
	ABISockets = 9
)

// configuration returns everything that a version of Landlock can refuse.
func configuration(abi int) landlock.Config {
	versions := []landlock.Config{
		landlock.V1, landlock.V2, landlock.V3, landlock.V4, landlock.V5, landlock.V6,
		landlock.V7, landlock.V8, landlock.V9, landlock.V10, landlock.V11,
	}

	return versions[min(abi, len(versions))-1]
}

const (
	readFile  = ll.AccessFSReadFile
	readAll   = ll.AccessFSReadFile | ll.AccessFSReadDir
	execute   = ll.AccessFSExecute
	writeFile = ll.AccessFSWriteFile
	device    = ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSIoctlDev
	connect   = ll.AccessFSResolveUnix
	// socketDir does not let a detector make folders: it could nest them deeper than anybody can remove them.
	socketDir = readAll | ll.AccessFSWriteFile | ll.AccessFSMakeSock | ll.AccessFSMakeReg | ll.AccessFSRemoveFile |
		ll.AccessFSResolveUnix

	// onFiles are the rights that a rule for a file may have; the others are for folders.
	onFiles = ll.AccessFSExecute | ll.AccessFSWriteFile | ll.AccessFSReadFile | ll.AccessFSTruncate |
		ll.AccessFSIoctlDev | ll.AccessFSResolveUnix
)

// Binary is the descriptor on which a detector's program is passed to prelet-detect.
const Binary = 3

// BinaryPath is the path of that program.
const BinaryPath = "/proc/self/fd/3"

// landlock restricts all threads of the process to the access of all detectors, the grants of this detector and the
// folder for its socket.
func (r *Confinement) landlock(p Policy) {
	if p.Without.Landlock {
		return
	}
	abi, err := p.landlockABI()
	switch {
	case errors.Is(err, ErrNone):
		r.addLack("Landlock", err.Error())
		return
	case err != nil:
		r.note("Landlock", err)
		return
	case abi < ABIScopes:
		const text = "this kernel has version %d; below %d it does not keep signals and abstract sockets inside"
		r.addLack("Landlock", fmt.Sprintf(text, abi, ABIScopes))
	}

	c := configuration(abi)
	c.Scoped = 0 // restrictScopes is for the detector only
	always := ruleset{config: c}
	always.allow(readAll, contract.Readable()...)
	always.allow(readFile|execute, listLoaders()...)
	always.allow(readFile|execute, BinaryPath)
	always.allow(readFile|writeFile, contract.Discard)
	always.allow(socketDir, p.Socket)

	granted := ruleset{config: c}
	granted.allow(readAll, p.Grants.Read...)
	granted.allow(readAll|execute, p.Grants.Execute...)
	granted.allow(device, p.Grants.Devices...)
	granted.allow(connect, p.Grants.Sockets...)

	err = c.Restrict(slices.Concat(always.rules, granted.rules)...)
	if err != nil && len(granted.rules) > 0 {
		granted.err = err
		err = c.Restrict(always.rules...)
	}

	// A missing rule makes the sandbox stricter, and the detector reports its missing access.
	for _, err := range []error{always.err, granted.err, err} {
		r.note("Landlock", err)
	}
}

// restrictScopes keeps signals and connections to abstract sockets of the calling thread, and of its children, inside.
// go-landlock would restrict all threads.
func (p Policy) restrictScopes() error {
	abi, err := p.landlockABI()
	if p.Without.Landlock || p.Without.Scopes || err != nil || abi < ABIScopes { // landlock has reported it
		return nil
	}

	ruleset := ll.RulesetAttr{Scoped: ll.ScopeAbstractUnixSocket | ll.ScopeSignal}
	fd, err := ll.LandlockCreateRuleset(&ruleset, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)

	return ll.LandlockRestrictSelf(fd, 0)
}

// ruleset collects rules for paths that exist. The first error is kept.
type ruleset struct {
	config landlock.Config
	rules  []landlock.Rule
	err    error
}

// allow adds a rule for each path that exists; for a file, with the rights that a file can have.
func (s *ruleset) allow(access landlock.AccessFSSet, paths ...string) {
	access &= s.config.HandledAccessFS

	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil && s.err == nil:
			s.err = err
		case err == nil && info.IsDir():
			s.rules = append(s.rules, landlock.PathAccess(access, path).IgnoreIfMissing())
		case err == nil:
			s.rules = append(s.rules, landlock.PathAccess(access&onFiles, path).IgnoreIfMissing())
		}
	}
}

// listLoaders returns the dynamic linkers of the machine (the ABI fixes their paths; musl has its own). What those of
// another architecture start cannot make a system call.
func listLoaders() []string {
	paths, _ := expand("/lib/ld-linux-*", "/lib64/ld-linux-*", "/lib/ld-musl-*")

	return paths
}
