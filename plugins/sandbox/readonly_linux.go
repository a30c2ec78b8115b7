package sandbox

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/plugins/contract"
)

// RunReadOnly runs a command that may write below one folder only, "" for none, that cannot connect to anything, and
// that cannot make a session. It is for a trusted program that must not do its usual work. A machine that has no
// Landlock, or refuses it, does not restrict writes. It fails where a filter of system calls cannot be loaded, and as
// exec.Cmd.Run does.
func RunReadOnly(cmd *exec.Cmd, folder string) error {
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread is confined, and ends with this goroutine
		ended <- runConfined(cmd, folder)
	}()

	return <-ended
}

func runConfined(cmd *exec.Cmd, folder string) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := restrictWrites(folder); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	if err := load(readOnlyFilter(), 0); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}

	return cmd.Run()
}

// readOnlyFilter returns processFilter with connect(2) refused and setpgid(2) permitted: the start of a command calls
// it for a process group of its own.
func readOnlyFilter() []bpf.Instruction {
	calls := Calls()
	delete(calls, unix.SYS_SETPGID)
	calls[unix.SYS_CONNECT] = "connect"

	return makeFilter(calls)
}

// restrictWrites keeps the writes of the calling thread, and of its children, below a folder.
func restrictWrites(folder string) error {
	abi, err := LandlockABI()
	if errors.Is(err, ErrNone) || errors.Is(err, ErrRefused) {
		return nil
	}
	if err != nil {
		return err
	}

	const reads = execute | readAll | connect
	writes := configuration(abi).HandledAccessFS &^ reads
	ruleset, err := ll.LandlockCreateRuleset(&ll.RulesetAttr{HandledAccessFS: uint64(writes)}, 0)
	if err != nil {
		return err
	}
	defer unix.Close(ruleset)

	err = permit(ruleset, contract.Discard, uint64(writes&onFiles))
	if folder != "" {
		err = errors.Join(err, permit(ruleset, folder, uint64(writes)))
	}
	if err != nil {
		return err
	}

	return ll.LandlockRestrictSelf(ruleset, 0)
}

// permit adds a rule for a path to a ruleset.
func permit(ruleset int, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer unix.Close(fd)

	return ll.LandlockAddPathBeneathRule(ruleset, &ll.PathBeneathAttr{AllowedAccess: access, ParentFd: fd}, 0)
}
