package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/refused"
)

// ownProgram is how a detector is executed, here and on a node: by descriptor, so that the opened file is what runs.
const ownProgram = "/proc/self/fd/3"

// shimVariable is set in the process that becomes the detector. Descriptor 3 is the program, 4 the channel to Run.
const shimVariable = "PRELET_CONFORMANCE_SHIM"

// shimOrder is what Run passes in that variable.
type shimOrder struct {
	Args   []string
	Env    []string
	UID    int // 0: keep the uid
	Memory uint64
}

// Shim becomes the detector if Run has started this process for that, and does not return then. Otherwise it does
// nothing. Call it before anything else in main.
func Shim() {
	order := os.Getenv(shimVariable)
	if order == "" {
		return
	}
	fmt.Fprintln(os.Stderr, "conformance:", becomeDetector(order))
	os.Exit(70)
}

// becomeDetector limits this process, gives Run the listener of the watch and executes the detector. It returns only
// on an error.
func becomeDetector(text string) error {
	var order shimOrder
	err := json.Unmarshal([]byte(text), &order)
	if err != nil {
		return err
	}

	runtime.LockOSThread() // the filter belongs to the thread that executes the program
	if err := setLimits(order); err != nil {
		return err
	}
	unix.Umask(0o077)
	err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}

	channel := os.NewFile(4, "channel")
	conn, err := net.FileConn(channel)
	if err != nil {
		return err
	}
	sendErr := sendListener(conn.(*net.UnixConn))
	err = errors.Join(sendErr, conn.Close(), channel.Close())
	if err != nil {
		return err
	}

	// The interpreter of a script opens the program by its descriptor.
	_, err = unix.FcntlInt(3, unix.F_SETFD, 0)
	if err != nil {
		return err
	}

	args := append([]string{"detector"}, order.Args...)
	// Last, because this process may already use more than a detector gets: its own runtime needs memory until here.
	err = setLimit(unix.RLIMIT_DATA, order.Memory)
	if err != nil {
		return err
	}
	return fmt.Errorf("exec: %w", syscall.Exec(ownProgram, args, order.Env))
}

// setLimits sets the limits of a node, except that on memory, and changes the user.
func setLimits(order shimOrder) error {
	limits := map[int]uint64{
		unix.RLIMIT_CORE:   contract.MaxCore,
		unix.RLIMIT_FSIZE:  0,
		unix.RLIMIT_NOFILE: contract.MaxFiles,
		unix.RLIMIT_STACK:  contract.MaxStack,
	}
	if order.UID != 0 {
		groupsErr := syscall.Setgroups(nil)
		gidErr := syscall.Setgid(order.UID)
		uidErr := syscall.Setuid(order.UID)
		err := errors.Join(groupsErr, gidErr, uidErr)
		if err != nil {
			return fmt.Errorf("changing to uid %d: %w", order.UID, err)
		}
		limits[unix.RLIMIT_NPROC] = contract.MaxProcesses
		limits[unix.RLIMIT_SIGPENDING] = contract.MaxTimers
	}

	for resource, value := range limits {
		err := setLimit(resource, value)
		if err != nil {
			return err
		}
	}

	return nil
}

func setLimit(resource int, value uint64) error {
	err := unix.Setrlimit(resource, &unix.Rlimit{Cur: value, Max: value})
	if err != nil {
		return fmt.Errorf("limit %d: %w", resource, err)
	}
	return nil
}

// sendListener installs the filter and sends its listener to Run, or the reason why there is none. It waits until Run
// has it.
func sendListener(conn *net.UnixConn) error {
	text := []byte("ok")
	var rights []byte
	listener, err := installWatch()
	if err != nil {
		text = []byte(err.Error())
	} else {
		rights = unix.UnixRights(listener)
	}

	_, _, err = conn.WriteMsgUnix(text, rights, nil)
	if err != nil {
		return fmt.Errorf("sending the listener: %w", err)
	}
	if rights != nil {
		_ = unix.Close(listener)
	}
	_, err = conn.Read(make([]byte, 1))
	if err != nil {
		return fmt.Errorf("waiting for the watch: %w", err)
	}

	return nil
}

// receiveListener receives what sendListener sends: the listener, or the reason why there is none.
func receiveListener(conn *net.UnixConn) (listener int, reason string, err error) {
	text := make([]byte, 512)
	rights := make([]byte, unix.CmsgSpace(4))
	n, r, _, _, err := conn.ReadMsgUnix(text, rights)
	switch {
	case err != nil:
		return 0, "", fmt.Errorf("receiving the listener: %w", err)
	case n == 0:
		return 0, "", errors.New("the process ended before it became the detector")
	case r == 0:
		return 0, string(text[:n]), nil
	}

	messages, err := unix.ParseSocketControlMessage(rights[:r])
	if err != nil {
		return 0, "", err
	}
	descriptors, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return 0, "", err
	}
	unix.CloseOnExec(descriptors[0])

	return descriptors[0], "", nil
}

// installWatch adds a filter to this thread that asks a listener about each system call that a node may refuse. It
// returns the listener's descriptor.
func installWatch() (int, error) {
	watched := []uint32{unix.SYS_CONNECT}
	for number := range pathCalls() {
		watched = append(watched, uint32(number))
	}
	const ask = unix.SECCOMP_RET_USER_NOTIF
	code := refused.Filter(ask, refused.AbsentResult, watched...)

	// Without the second flag (Linux 5.19) a signal repeats a request, and Go's scheduler sends many signals.
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	listener, err := refused.Load(code, flags|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if errors.Is(err, unix.EINVAL) {
		listener, err = refused.Load(code, flags)
	}
	if err != nil {
		return 0, fmt.Errorf("seccomp: %w", err)
	}

	return listener, nil
}
