package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

const maxPluginOutput = 1 << 20 // bytes of a plugin's stdout

// errNoPlugin is the error of a plugin that does not exist or cannot be executed. Retrying does not help.
var errNoPlugin = errors.New("cannot be run")

// Plugin is a program that writes credentials to its stdout. client-go and the kubelet start theirs without a limit of
// its output, and do not stop the processes that it starts; client-go has no context, and connects it to stderr.
type Plugin struct {
	Command string // a path, or a name in PATH
	Args    []string
	Env     []string // in addition to the environment of prelet
	Stdin   []byte
	Timeout time.Duration
}

// startEnvironment is the environment that prelet was started with, and that plugins get. Later variables are for
// libraries in this process only: internal/machine/probe/hardware sets PCIDB_PATH to a file that other processes cannot
// open.
var startEnvironment = os.Environ()

// Run starts the plugin in its own process group, without stderr, and returns its stdout. It kills the group at the
// end, when ctx or the timeout expires, or when the output is too large. Errors follow the plugin's name in a message,
// and do not quote its output.
func (p Plugin) Run(ctx context.Context) (stdout []byte, err error) {
	program, err := findProgram(p.Command)
	if err != nil {
		return nil, err
	}

	limited, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()

	out := &limitedOutput{onOverflow: cancel}
	cmd := p.command(limited, program, out)

	err = cmd.Start()
	if err == nil {
		// The processes that the plugin started are killed, whether it succeeds or fails.
		defer func() { _ = cmd.Cancel() }()
		err = cmd.Wait()
	}

	var status *exec.ExitError

	switch {
	case out.isFull:
		return nil, errors.New("writes more than 1 MiB")
	case ctx.Err() != nil:
		return nil, errors.New("did not respond in time")
	case limited.Err() != nil:
		return nil, fmt.Errorf("did not respond within %s", p.Timeout)
	case errors.As(err, &status):
		return nil, fmt.Errorf("fails: %s", status.ProcessState)
	case errors.Is(err, fs.ErrNotExist), // of its interpreter
		errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: %w", errNoPlugin, err)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay): // a process that it started may keep stdout open
		return nil, fmt.Errorf("cannot be started: %w", err)
	}

	return out.data, nil
}

func (p Plugin) command(ctx context.Context, program string, out *limitedOutput) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, p.Args...)
	cmd.Args[0] = p.Command
	if p.Stdin != nil {
		cmd.Stdin = bytes.NewReader(p.Stdin)
	}
	cmd.Stdout = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	cmd.WaitDelay = time.Second
	cmd.Env = append(slices.Clone(startEnvironment), p.Env...)

	return cmd
}

// findProgram returns the path of a command, searched in PATH as os/exec does. A program that users besides root may
// change is refused. Errors follow the plugin's name in a message.
func findProgram(command string) (string, error) {
	program, err := exec.LookPath(command)
	if err == nil {
		err = nodefile.CheckTrusted(program)
	}

	var loose *nodefile.Loose

	switch {
	case errors.As(err, &loose):
		return "", fmt.Errorf("is not run: %w", &untrustedError{program, loose})
	case err != nil:
		return "", fmt.Errorf("%w: %w", errNoPlugin, err)
	}

	return program, nil
}

// limitedOutput keeps at most maxPluginOutput bytes, and then calls onOverflow. It does not embed bytes.Buffer,
// because io.Copy would use its ReadFrom, which has no limit.
type limitedOutput struct {
	data       []byte
	isFull     bool
	onOverflow func()
}

// Write implements io.Writer.
func (o *limitedOutput) Write(p []byte) (int, error) {
	if len(o.data)+len(p) > maxPluginOutput {
		o.isFull = true
		o.onOverflow()

		return 0, errors.New("too much output")
	}

	o.data = append(o.data, p...)

	return len(p), nil
}
