package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/protocol"
	"github.com/prelet/prelet/plugins/sandbox"
)

// startTime is how long a detector may take to print its first line. prelet allows the detector's whole timeout, but
// a boot waits for it.
const startTime = 5 * time.Second

// process is a started detector.
type process struct {
	kit     *kit
	cmd     *exec.Cmd
	dir     string // the folder of its socket
	watch   *watcher
	trace   *os.File
	stdout  *output
	stderr  *output
	exited  chan struct{} // closed when the process has ended
	killed  bool
	startup time.Duration // until its first line
	conn    *grpc.ClientConn
}

// output keeps the beginning of a process's output.
type output struct {
	mu      sync.Mutex
	kept    bytes.Buffer
	line    chan struct{} // closed when the first line is complete, or too long
	hasLine bool
}

func newOutput() *output {
	return &output{line: make(chan struct{})}
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()

	room := contract.MaxStderr - o.kept.Len()
	size := min(room, len(p))
	o.kept.Write(p[:size])

	isFull := size == room
	hasLine := bytes.Contains(o.kept.Bytes(), []byte("\n"))
	if !o.hasLine && (isFull || hasLine) {
		o.hasLine = true
		close(o.line)
	}

	return len(p), nil
}

// String returns the output so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()

	return o.kept.String()
}

// start starts the detector as a node would: almost no environment, a process group and a folder of its own, limits,
// and the watch. Without the cookie it is as if a person started it. It does not wait for the handshake.
func (k *kit) start(withCookie bool) (*process, error) {
	k.processes++
	folder := filepath.Join(k.dir, strconv.Itoa(k.processes))
	if err := k.makeFolder(folder); err != nil {
		return nil, err
	}
	p := &process{
		kit:    k,
		dir:    contract.SocketFolder(folder),
		stdout: newOutput(),
		stderr: newOutput(),
		exited: make(chan struct{}),
	}
	env := protocol.Environment(p.dir)
	if !withCookie {
		isCookie := func(v string) bool {
			return strings.HasPrefix(v, protocol.CookieKey+"=")
		}
		env = slices.DeleteFunc(env, isCookie)
	}
	order := shimOrder{
		Args:   k.options.Args,
		Env:    env,
		UID:    k.user,
		Policy: k.policy(p.dir),
	}

	return p, p.start(order)
}

func (k *kit) policy(socket string) sandbox.Policy {
	p := sandbox.Policy{
		Socket: socket,
		Memory: k.options.Memory,
		Own:    k.user != 0,
		Grants: mergeNeeds(k.grants, contract.Needs{Read: slices.Concat(k.options.Roots, []string{k.dir})}),
	}
	for _, root := range k.roots {
		for _, s := range k.grants.Sockets {
			p.Grants.Sockets = append(p.Grants.Sockets, root+s)
		}
	}
	if interpreter, isScript := contract.Interpreter(k.program); isScript && len(interpreter) > 0 {
		p.Grants.Execute = append(p.Grants.Execute, interpreter[0])
	}

	return p
}

// start starts this program, which becomes the detector, and its trace.
func (p *process) start(order shimOrder) error {
	text, err := json.Marshal(order)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	trace, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirs.Close()

	command := append([]string{self}, p.kit.options.ShimArgs...)
	if p.kit.noWatch == "" {
		command = slices.Concat(traceCommand(), command)
	}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Env = []string{shimVariable + "=" + string(text)}
	p.cmd.Dir = "/"
	p.cmd.ExtraFiles = []*os.File{p.kit.program, theirs}
	p.cmd.Stdout = p.stdout
	p.cmd.Stderr = p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = 200 * time.Millisecond // a grandchild may hold the pipes open
	if err := p.cmd.Start(); err != nil {
		return errors.Join(err, trace.Close())
	}
	go func() {
		_ = p.cmd.Wait() // ProcessState has the result
		close(p.exited)
	}()

	p.trace = trace
	p.watch = p.kit.newWatcher(order.Policy)
	go p.watch.read(trace)

	return nil
}

// makeFolder makes a private folder of the detector.
func (k *kit) makeFolder(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err != nil || k.user == 0 {
		return err
	}

	return os.Chown(dir, k.user, k.user)
}

// connect starts a process, waits for its handshake and connects to it.
func (k *kit) connect() (*process, protocol.Client, error) {
	began := time.Now()
	p, err := k.start(true)
	if err != nil {
		return nil, protocol.Client{}, err
	}

	select {
	case <-p.stdout.line:
	case <-p.exited:
	case <-k.ctx.Done():
	case <-time.After(k.patient(startTime)):
	}
	p.startup = time.Since(began)

	client, err := p.dial()
	if err != nil {
		if text := strings.TrimSpace(p.stderr.String()); text != "" {
			err = fmt.Errorf("%w; its standard error: %s", err, text)
		}
		p.kill()
	}

	return p, client, err
}

// dial checks the handshake and connects to the socket that it names.
func (p *process) dial() (protocol.Client, error) {
	line, _, _ := strings.Cut(p.stdout.String(), "\n")
	hasEnded := p.waitForExit(0)
	switch {
	case line == "" && hasEnded:
		return protocol.Client{}, fmt.Errorf("it ended (%s) without a line on standard output", p.cmd.ProcessState)
	case line == "":
		return protocol.Client{}, fmt.Errorf("no line on standard output within %v", p.kit.patient(startTime))
	}

	socket, err := protocol.ParseHandshake(strings.TrimRight(line, "\r"), p.dir)
	if err != nil {
		return protocol.Client{}, err
	}
	if hasEnded {
		return protocol.Client{}, fmt.Errorf("it ended (%s) right after its handshake", p.cmd.ProcessState)
	}

	p.conn, err = grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
	)

	return protocol.NewClient(p.conn), err
}

// kill ends everything that was started and waits for the process. Later calls do nothing, because the number of the
// group may be reused.
func (p *process) kill() {
	if p.killed {
		return
	}
	p.killed = true

	if p.conn != nil {
		_ = p.conn.Close()
	}
	_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL) // ESRCH: all have ended
	<-p.exited

	_ = p.trace.SetReadDeadline(time.Now().Add(p.kit.patient(startTime)))
	<-p.watch.done
	p.kit.addAttempts(p.watch.attempts)
	if p.kit.stderr == "" {
		p.kit.stderr = p.stderr.String()
	}
}

// waitForExit reports whether the process ends within a time.
func (p *process) waitForExit(limit time.Duration) bool {
	select {
	case <-p.exited:
		return true
	case <-time.After(limit):
		return false
	}
}

// shutdown asks the detector to end: first as a go-plugin host does, then as systemd does.
func (p *process) shutdown(ctx context.Context) error {
	limit := p.kit.patient(2 * time.Second)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	// A detector that ends during the call returns an error of the connection.
	const method = "/plugin.GRPCController/Shutdown"
	err := p.conn.Invoke(ctx, method, &emptypb.Empty{}, &emptypb.Empty{})
	if status.Code(err) != codes.Unimplemented && p.waitForExit(limit) {
		return nil
	}

	err = p.cmd.Process.Signal(syscall.SIGTERM)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if !p.waitForExit(limit) {
		return fmt.Errorf("neither GRPCController.Shutdown nor SIGTERM ended it within %v", limit)
	}

	return nil
}
