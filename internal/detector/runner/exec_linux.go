package runner

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

	"github.com/prelet/prelet/internal/detector/wire"
	"github.com/prelet/prelet/plugins/protocol"
	"github.com/prelet/prelet/plugins/sandbox"
)

// BecomeCommand is the argument with which prelet-detect starts itself to become the detector.
const BecomeCommand = "become"

// reportDescriptor is where the process that becomes the detector reports. It is closed when the detector's program
// starts.
const reportDescriptor = sandbox.Binary + 1

// order is the standard input of that process.
type order struct {
	Name   string
	Policy sandbox.Policy
}

// exec starts the program of descriptor 3, whose hash prelet has checked. It starts prelet-detect again, which
// confines itself further and then executes the program. Standard error is prelet's pipe.
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
	program := os.NewFile(sandbox.Binary, "detector")
	c.ExtraFiles = []*os.File{program, reportWriter}
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

	err = c.Start()
	_ = reportWriter.Close()
	if err != nil {
		return err
	}

	d.stdout = stdout
	go func() {
		defer close(d.ended)

		_ = c.Wait() // ProcessState has the result
		d.how = c.ProcessState.String()
		if d.how == killed {
			d.how += ", most likely for lack of memory"
		}
	}()

	deadline, _ := ctx.Deadline()
	_ = report.SetReadDeadline(deadline)

	return d.readReport(report)
}

// readReport reads the report of the process before it becomes the detector. The pipe ends when the program starts.
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
	limited := io.LimitReader(in, wire.MaxRequest)
	err := json.NewDecoder(limited).Decode(&o)
	if err != nil {
		return fmt.Errorf("reading the order: %w", err)
	}

	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	err = unix.Dup3(int(null.Fd()), 0, 0)
	if err != nil {
		return fmt.Errorf("standard input: %w", err)
	}

	unix.CloseOnExec(reportDescriptor)
	out := json.NewEncoder(os.NewFile(reportDescriptor, "report"))
	err = out.Encode(sandbox.Detector(o.Policy))
	if err != nil {
		return fmt.Errorf("reporting: %w", err)
	}

	// The program stays open under its number: the interpreter of a #! reads it from there.
	err = syscall.Exec(sandbox.BinaryPath, []string{o.Name}, os.Environ())

	var errno syscall.Errno
	if errors.As(err, &errno) {
		err = out.Encode(errno)
	}

	return err
}

// killed is package os's text for a process that was killed. While prelet-detect runs, only the kernel kills a
// detector.
const killed = "signal: killed"

// explainExec explains the error of an exec to the administrator.
func explainExec(errno syscall.Errno) error {
	switch errno {
	case syscall.EACCES:
		return errors.New("no permission to execute it: it needs mode 0755 and a file system without noexec, " +
			"and the interpreter of a script must be in allow { execute }")
	case syscall.ENOEXEC:
		return errors.New("it is not an executable for this machine")
	case syscall.ENOENT:
		return errors.New("its interpreter (of a script, or the dynamic linker) does not exist on this machine")
	case syscall.ETXTBSY:
		return errors.New("another process has it open for writing")
	}

	return errno
}
