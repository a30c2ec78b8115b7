// Package sandbox confines the calling process and all programs that it starts later: limits, Landlock, seccomp.
// Nothing can undo it, so only a process that becomes a detector, or that calls one, may use it: prelet-detect, and
// the conformance kit, so that a detector is checked under the sandbox of a node.
//
// Landlock is go-landlock's. The kernel's version is checked first, because go-landlock's best effort cannot
// distinguish a refusal from an old kernel. Filters of system calls are assembled by golang.org/x/net/bpf:
// elastic/go-seccomp-bpf 1.6.0 permits calls of a foreign architecture, so that int 0x80 on amd64 is a way out
// (TestFilter).
package sandbox

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/plugins/contract"
)

// Policy lists the access that one detector has and others do not. Paths are absolute, or shell patterns.
type Policy struct {
	Socket string         // the private folder for its socket, which Process makes
	Memory uint64         // bytes of writable private memory of each process: RLIMIT_DATA
	Own    bool           // the uid is the detector's own, and no other program runs under it
	Grants contract.Needs // the files to open, programs to run and sockets to connect to

	// Without leaves lines of the sandbox out, for tests that show that each line is needed. prelet never sets it.
	Without Lines
}

// Lines selects parts of the sandbox.
type Lines struct {
	Limits, Landlock, Scopes, Seccomp, Connect bool

	Newer int // the features of Landlock versions after this one; 0: none are left out
}

// landlockABI is the version of Landlock that is used.
func (p Policy) landlockABI() (int, error) {
	abi, err := LandlockABI()
	if p.Without.Newer > 0 {
		abi = min(abi, p.Without.Newer)
	}
	return abi, err
}

// Confinement lists the parts that could not be set up, one sentence each. Lacks are parts that this kernel or user
// does not have; Failed are parts that something on this machine prevents, which a person should fix.
type Confinement struct {
	Lacks, Failed []string

	// Contained reports that no_new_privs and the filter of system calls are in force: no process can leave the group
	// or this user.
	Contained bool
}

func (r *Confinement) note(what string, err error) {
	if err != nil {
		r.Failed = append(r.Failed, fmt.Sprintf("%s: %s", what, err))
	}
}

func (r *Confinement) addLack(what, why string) {
	r.Lacks = append(r.Lacks, what+": "+why)
}

// expand replaces the policy's patterns by the paths that exist. A confined process could not list their folders.
func (p *Policy) expand() error {
	var errs []error

	lists := []*[]string{&p.Grants.Devices, &p.Grants.Read, &p.Grants.Execute, &p.Grants.Sockets}
	for _, list := range lists {
		var err error
		*list, err = expand(*list...)
		errs = append(errs, err)
	}

	return errors.Join(errs...)
}

// expand returns the patterns that are paths, and the paths that match the others.
func expand(patterns ...string) (paths []string, err error) {
	for _, pattern := range patterns {
		if !strings.ContainsAny(pattern, `*?[\`) {
			paths = append(paths, pattern)
			continue
		}

		found, bad := filepath.Glob(pattern)
		if bad != nil {
			err = fmt.Errorf("invalid pattern %q: %w", pattern, bad)
		}
		paths = append(paths, found...)
	}

	return paths, err
}

// Process confines prelet-detect itself, and with it the detector. It must be called before the detector starts,
// once. It replaces the policy's patterns by the paths that exist.
func Process(p *Policy) (r Confinement) {
	syscall.Umask(0o077)
	r.note("the folder of its socket", os.Mkdir(p.Socket, 0o700))

	// A detector must not inherit files that prelet was started with.
	r.note("closing of inherited files", unix.CloseRange(Binary+1, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC))

	without := p.Without
	for name, out := range map[string]bool{
		"limits": without.Limits, "Landlock": without.Landlock, "seccomp": without.Seccomp,
	} {
		if out {
			r.note(name, errors.New("left out"))
		}
	}

	if !p.Without.Limits {
		r.limits(*p)
	}

	// Everything ends with prelet. This needs rights that are dropped below.
	endWithParent := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	r.note("the end with prelet", endWithParent)
	noPrivs := ll.AllThreadsPrctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	r.note("no_new_privs", noPrivs)
	r.note("Landlock", p.expand())
	r.landlock(*p)

	// Go signals each thread for the calls above, and waits for ever where the kernel has no room for the signal: the
	// limit counts all that this user runs, and processes of an earlier detector may still be ending.
	if p.Own && !p.Without.Limits {
		r.limit("timers and queued signals", unix.RLIMIT_SIGPENDING, contract.MaxTimers)
	}

	// The detector has the same user and must not read this process. exec(2) resets it for the detector's program.
	r.note("closing its memory", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))

	if !p.Without.Seccomp {
		err := load(processFilter(), unix.SECCOMP_FILTER_FLAG_TSYNC)
		r.note("seccomp", err)
		r.Contained = noPrivs == nil && err == nil
	}

	return r
}

// Detector confines the calling thread of prelet-detect further, and the detector that the thread starts or becomes:
// prelet-detect has to connect to the detector's socket, and the detector must not reach prelet-detect. The goroutine
// must be locked to its thread, for good.
func Detector(p Policy) (r Confinement) {
	r.note("Landlock", p.restrictScopes())

	if p.Without.Seccomp {
		return r
	}
	if len(p.Grants.Sockets) == 0 && !p.Without.Connect {
		r.note("refusing connections", load(connectFilter(), 0))
	}
	// For Landlock this thread is inside, and a signal to one thread ends the process.
	thread := unix.Gettid()
	if thread != unix.Getpid() && !p.Without.Scopes {
		r.note("refusing signals", load(threadFilter(thread), 0))
	}

	return r
}

// limit lowers a limit of this process and of all that it starts.
func (r *Confinement) limit(name string, which int, v uint64) {
	var now unix.Rlimit
	err := unix.Getrlimit(which, &now)
	if err == nil && now.Max < v {
		v = now.Max // the unit has a lower limit
	}
	err = unix.Setrlimit(which, &unix.Rlimit{Cur: v, Max: v})
	r.note("limit of "+name, err)
}

func (r *Confinement) limits(p Policy) {
	// 0 would still start a core_pattern that is a program, as root and with the detector's memory as input.
	r.limit("core files", unix.RLIMIT_CORE, contract.MaxCore)
	r.limit("file size", unix.RLIMIT_FSIZE, 0)
	r.limit("open files", unix.RLIMIT_NOFILE, contract.MaxFiles)
	r.limit("stack", unix.RLIMIT_STACK, contract.MaxStack)
	r.limit("memory", unix.RLIMIT_DATA, p.Memory)
	if p.Own {
		r.limit("processes", unix.RLIMIT_NPROC, contract.MaxProcesses)
	} else { // the kernel counts all that this user runs
		r.addLack("limit of processes and timers", "not without a user of the detector's own")
	}
	r.note("oom_score_adj", os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0))
}
