package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/prelet/prelet/plugins/sandbox"
)

// shimVariable is set in the process that becomes the detector. Descriptor 3 is the program, 4 the trace of Run.
const shimVariable = "PRELET_CONFORMANCE_SHIM"

// shimOrder is the JSON that Run passes in that variable.
type shimOrder struct {
	Args   []string
	Env    []string
	UID    int // 0: keep the uid
	Policy sandbox.Policy
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

// becomeDetector confines this process as a node does and executes the detector. It returns only on an error.
func becomeDetector(text string) error {
	runtime.LockOSThread() // a filter of system calls is the thread's, and so is the exec
	trace := os.NewFile(4, "trace")

	var order shimOrder
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		return err
	}
	if order.UID != 0 {
		groupsErr := syscall.Setgroups(nil)
		gidErr := syscall.Setgid(order.UID)
		uidErr := syscall.Setuid(order.UID)
		if err := errors.Join(groupsErr, gidErr, uidErr); err != nil {
			return fmt.Errorf("changing to uid %d: %w", order.UID, err)
		}
	}

	confined := sandbox.Process(&order.Policy)
	if !confined.Contained {
		return fmt.Errorf("the sandbox: %q", confined.Failed)
	}
	sandbox.Detector(order.Policy)

	if _, err := trace.WriteString(startMark + "\n"); err != nil {
		return err
	}
	args := append([]string{"detector"}, order.Args...)

	return fmt.Errorf("exec: %w", syscall.Exec(sandbox.BinaryPath, args, order.Env))
}
