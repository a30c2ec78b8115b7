package runner

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/plugins/protocol"
	"github.com/prelet/prelet/plugins/sandbox"
)

// exec starts the program of descriptor 3, whose hash prelet has checked. Standard error is prelet's pipe.
func (d *detector) exec() error {
	stdout, stdoutWriter, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdoutWriter.Close()
	d.stdout = stdout

	c := exec.Command(sandbox.BinaryPath)
	c.Args[0] = d.name
	c.Dir = "/"
	c.Env = protocol.Environment(d.policy.Socket)
	c.Stdout = stdoutWriter
	c.Stderr = os.Stderr
	// The program stays open under its number: the interpreter of a #! reads it from there.
	c.ExtraFiles = []*os.File{os.NewFile(sandbox.Binary, "detector")}
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

	started := make(chan error)
	startThread(func() { d.run(c, started) })

	return <-started
}

// startThread runs a function on a thread of its own, which ends with the function. It is never the first thread of the
// process, whose sandbox decides which programs may signal the process.
func startThread(f func()) {
	locked := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			startThread(f) // gets another thread while this goroutine has the first one
			close(locked)
			runtime.UnlockOSThread()
			return
		}
		close(locked)
		f()
	}()
	<-locked
}

// run confines its thread, starts the detector from it and waits for the end. No other thread has the detector's
// sandbox. The kernel kills the detector when the thread that started it ends.
func (d *detector) run(c *exec.Cmd, started chan<- error) {
	d.report = sandbox.Detector(d.policy)

	err := c.Start()
	var errno syscall.Errno
	if errors.As(err, &errno) {
		err = explainExec(errno)
	}
	started <- err
	if err != nil {
		return
	}

	defer close(d.ended)
	_ = c.Wait() // ProcessState has the result
	d.how = c.ProcessState.String()
	if d.how == killed {
		d.how += ", most likely for lack of memory"
	}
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
