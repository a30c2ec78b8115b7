package inside

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/detector/sandbox"
	"github.com/prelet/prelet/internal/detector/wire"
	"github.com/prelet/prelet/plugins/protocol"
)

// BecomeCommand is the argument with which prelet-detect starts itself to become the detector.
const BecomeCommand = "become"

// reportDescriptor is where the process that becomes the detector reports. It is closed when the detector's program
// starts.
const reportDescriptor = confine.Binary + 1

// order is what that process reads on standard input.
type order struct {
	Name   string
	Policy confine.Policy
}

// exec starts the program behind descriptor 3, whose hash prelet has found right. It starts prelet-detect once more,
// which confines itself further and then executes the program. Standard error is prelet's pipe.
func (d *detector) exec(ctx context.Context) error {
	input, err := json.Marshal(order{d.name, d.policy})
	if err != nil {
		return err
	}

	stdout, stdoutWriter, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdoutWriter.Close()

	report, reportWriter, err := os.Pipe()
	if err != nil {
		return err
	}
	defer report.Close()

	c := exec.Command("/proc/self/exe", BecomeCommand)
	c.Args[0] = "prelet-detect"
	c.Dir = "/"
	c.Env = protocol.Environment(d.policy.Socket)
	c.Stdin = bytes.NewReader(input)
	c.Stdout = stdoutWriter
	c.Stderr = os.Stderr
	c.ExtraFiles = []*os.File{os.NewFile(confine.Binary, "detector"), reportWriter}
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

	err = c.Start()
	_ = reportWriter.Close()
	if err != nil {
		return err
	}

	d.stdout = stdout
	go func() {
		defer close(d.ended)

		_ = c.Wait() // the state says how it ended
		if d.how = "how is not known"; c.ProcessState != nil {
			d.how = c.ProcessState.String()
		}
		if d.how == killed {
			d.how += ", most likely for lack of memory"
		}
	}()

	deadline, _ := ctx.Deadline()
	_ = report.SetReadDeadline(deadline)

	return d.readReport(report)
}

// readReport reads what the process reports before it becomes the detector. The end of the pipe is the start of the
// program.
func (d *detector) readReport(report io.Reader) error {
	in := json.NewDecoder(io.LimitReader(report, wire.MaxReply))
	if err := in.Decode(&d.report); err != nil {
		return fmt.Errorf("it could not be confined: %w", err)
	}

	var errno syscall.Errno
	switch err := in.Decode(&errno); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}

	return explainExec(errno)
}

// Become confines this process, which Run has started, and replaces it with the detector's program. It returns only
// when it cannot.
func Become(in io.Reader) error {
	runtime.LockOSThread() // a filter of system calls is the thread's, and so is the exec

	var o order
	if err := json.NewDecoder(io.LimitReader(in, wire.MaxRequest)).Decode(&o); err != nil {
		return fmt.Errorf("reading the order: %w", err)
	}

	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	if err := unix.Dup3(int(null.Fd()), 0, 0); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}

	unix.CloseOnExec(reportDescriptor)
	out := json.NewEncoder(os.NewFile(reportDescriptor, "report"))
	if err := out.Encode(confine.Detector(o.Policy)); err != nil {
		return fmt.Errorf("reporting: %w", err)
	}

	// The program stays open under its number: the interpreter of a #! reads it from there.
	err = syscall.Exec(confine.BinaryPath, []string{o.Name}, os.Environ())

	var errno syscall.Errno
	if errors.As(err, &errno) {
		err = out.Encode(errno)
	}

	return err
}

// killed is how a process ended that got SIGKILL, in the words of package os. While its host lives, the kernel alone sends it.
const killed = "signal: killed"

// explainExec turns the error of an exec into words for the person who installs the detector.
func explainExec(errno syscall.Errno) error {
	switch errno {
	case syscall.EACCES:
		return errors.New("this user may not run it: its mode must be 0755, on a file system that is not mounted noexec; " +
			"a #! needs its interpreter in allow { execute }")
	case syscall.ENOEXEC:
		return errors.New("it is not a program for this machine")
	case syscall.ENOENT:
		return errors.New("its interpreter (of a #!, or the dynamic linker) is not on this machine")
	case syscall.ETXTBSY:
		return errors.New("somebody is writing to it")
	}

	return errno
}
