package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/plugins/contract"
)

// ownProgram is how a detector is executed, here and on a node: by descriptor, so that what was opened is what runs.
const ownProgram = "/proc/self/fd/3"

// shimVariable is set in the process that is to become the detector.
const shimVariable = "PRELET_CONFORMANCE_SHIM"

// order is what that process is told. What it needs more has numbers: 3 is the program, 4 the way back.
type order struct {
	Args   []string
	Env    []string
	UID    int // 0: stay who you are
	Memory uint64
}

// Shim becomes the detector, if Run has started this process for that, and then does not return. It does nothing
// otherwise. Call it before anything else in main.
func Shim() {
	said := os.Getenv(shimVariable)
	if said == "" {
		return
	}
	fmt.Fprintln(os.Stderr, "conformance:", become(said))
	os.Exit(70)
}

// become replaces this process. It only returns when it cannot.
func become(said string) error {
	var o order
	if err := json.Unmarshal([]byte(said), &o); err != nil {
		return err
	}
	runtime.LockOSThread() // the filter is the thread's, and so is the exec
	for _, l := range []struct {
		name  string
		limit int
		value uint64
	}{
		{"CORE", unix.RLIMIT_CORE, contract.MaxCore}, {"FSIZE", unix.RLIMIT_FSIZE, 0}, {"NOFILE", unix.RLIMIT_NOFILE, contract.MaxFiles},
		{"STACK", unix.RLIMIT_STACK, contract.MaxStack}, {"DATA", unix.RLIMIT_DATA, o.Memory},
	} {
		if err := unix.Setrlimit(l.limit, &unix.Rlimit{Cur: l.value, Max: l.value}); err != nil {
			return fmt.Errorf("limit %s: %w", l.name, err)
		}
	}
	if o.UID != 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(o.UID), syscall.Setuid(o.UID)); err != nil {
			return fmt.Errorf("becoming uid %d: %w", o.UID, err)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: contract.MaxProcesses, Max: contract.MaxProcesses}); err != nil {
			return fmt.Errorf("limit NPROC: %w", err)
		}
	}
	unix.Umask(0o077)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	way := os.NewFile(4, "way back")
	conn, err := net.FileConn(way)
	if err != nil {
		return err
	}
	if err := errors.Join(handOver(conn.(*net.UnixConn)), conn.Close(), way.Close()); err != nil {
		return err
	}
	// Not close-on-exec, for an interpreter opens it.
	if _, err := unix.FcntlInt(3, unix.F_SETFD, 0); err != nil {
		return err
	}
	return fmt.Errorf("exec: %w", syscall.Exec(ownProgram, append([]string{"detector"}, o.Args...), o.Env))
}

// handOver starts the watch and gives its end to Run, or says why there is none; and waits for Run to hold it.
func handOver(conn *net.UnixConn) error {
	listener, err := installWatch()
	text, rights := []byte("ok"), []byte(nil)
	if err != nil {
		text = []byte(err.Error())
	} else {
		rights = unix.UnixRights(listener)
	}
	if _, _, err := conn.WriteMsgUnix(text, rights, nil); err != nil {
		return fmt.Errorf("handing over the watch: %w", err)
	}
	if err == nil {
		_ = unix.Close(listener) // Run has it
	}
	var b [1]byte
	if _, err := conn.Read(b[:]); err != nil {
		return fmt.Errorf("waiting for the watch: %w", err)
	}
	return nil
}

// takeOver is Run's side of handOver. Without a watch the reason is told.
func takeOver(conn *net.UnixConn) (listener int, why string, err error) {
	text, rights := make([]byte, 512), make([]byte, unix.CmsgSpace(4))
	n, r, _, _, err := conn.ReadMsgUnix(text, rights)
	if err != nil || n == 0 {
		return -1, "", fmt.Errorf("the process that was to become the detector ended before: %w", errors.Join(err, os.ErrProcessDone))
	}
	if r == 0 {
		return -1, string(text[:n]), nil
	}
	messages, err := unix.ParseSocketControlMessage(rights[:r])
	if err != nil || len(messages) != 1 {
		return -1, "", fmt.Errorf("the watch was handed over wrongly (%s): %w", strconv.Quote(string(text[:n])), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, "", fmt.Errorf("the watch was handed over wrongly: %w", err)
	}
	unix.CloseOnExec(fds[0])
	return fds[0], "", nil
}
