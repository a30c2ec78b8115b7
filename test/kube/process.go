package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// process is a child that the kernel kills when this process ends.
type process struct {
	name string
	log  string // its output
	pid  int
	end  chan struct{} // closed when it has ended
	how  error         // then
}

// begin starts a process whose output goes to a file in dir, with extra files from descriptor 3 on.
func begin(
	dir string,
	namespaces uintptr,
	extra []*os.File,
	name string,
	args ...string,
) (*process, error) {
	p := &process{name: filepath.Base(name), end: make(chan struct{})}
	p.log = filepath.Join(dir, p.name+".log")
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = out, out, extra
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: namespaces,
	}
	started := make(chan error)
	go func() {
		// Pdeathsig is sent when the thread that made the process ends, so that thread has to stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			p.how = cmd.Wait()
			close(p.end)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	return p, nil
}

func (p *process) ended() bool {
	select {
	case <-p.end:
		return true
	default:
		return false
	}
}

// stop sends a signal, and SIGKILL when that does not help.
func (p *process) stop(s syscall.Signal, wait time.Duration) {
	if p == nil || p.ended() {
		return
	}
	_ = syscall.Kill(p.pid, s)
	select {
	case <-p.end:
	case <-time.After(wait):
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
		<-p.end
	}
}

// tail is the end of its output.
func (p *process) tail() string {
	text, _ := os.ReadFile(p.log)
	if len(text) > 4000 {
		text = text[len(text)-4000:]
	}
	return string(text)
}

// CommandResult is a command that ended.
type CommandResult struct {
	Exit     int
	Out, Err string
}

func (r CommandResult) String() string {
	return fmt.Sprintf("exit %d\n%s%s", r.Exit, r.Out, r.Err)
}

// command runs one to its end; an error means that it could not be run.
func command(ctx context.Context, environment []string, words ...string) (CommandResult, error) {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = environment
	cmd.WaitDelay = 10 * time.Second // a second is not enough on a busy machine to read the last output
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := CommandResult{-1, stdout.String(), stderr.String()}
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit):
		return r, fmt.Errorf("%s: %w", strings.Join(words, " "), err)
	case ctx.Err() != nil:
		return r, fmt.Errorf("%s: %w\n%s%s", strings.Join(words, " "), ctx.Err(), r.Out, r.Err)
	}
	r.Exit = cmd.ProcessState.ExitCode()

	return r, nil
}

// waitFor waits until look returns "". Its error has the last result.
func waitFor(ctx context.Context, d time.Duration, what string, look func() string) error {
	deadline := time.Now().Add(d)
	for {
		why := look()
		if why == "" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %s: %s: %s", d, what, why)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %s", what, ctx.Err(), why)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
