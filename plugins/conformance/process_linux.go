package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
)

// start is how long a detector may take to its first line: prelet's own limit is the detector's whole time, but a boot
// waits for it.
const startTime = 5 * time.Second

// process is a detector that was started.
type process struct {
	kit    *kit
	cmd    *exec.Cmd
	dir    string // its socket folder
	watch  *watcher
	stdout *output
	stderr *output
	exited chan struct{}
	line   string // the first of its standard output
	took   time.Duration
	conn   *grpc.ClientConn
	dead   bool
}

// output keeps the beginning of what a process says, and whether there was more.
type output struct {
	mu    sync.Mutex
	kept  bytes.Buffer
	total int64
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.total += int64(len(p))
	if room := contract.MaxStderr - o.kept.Len(); room > 0 {
		o.kept.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (o *output) text() (string, int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kept.String(), o.total
}

// start starts the detector as a node would: nearly no environment, no terminal, its own process group, its own folder,
// limits, and the watch. With a cookie it is prelet's; without, it is a person's.
func (k *kit) start(cookie bool) (*process, error) {
	k.n++
	p := &process{kit: k, dir: filepath.Join(k.dir, fmt.Sprintf("s%d", k.n)), stdout: &output{}, stderr: &output{}, exited: make(chan struct{})}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return nil, err
	}
	if k.user != 0 {
		if err := os.Chown(p.dir, k.user, k.user); err != nil {
			return nil, err
		}
	}
	env := protocol.Environment(p.dir)
	if !cookie {
		env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, protocol.CookieKey+"=") })
	}
	told, err := json.Marshal(order{Args: k.options.Args, Env: env, UID: k.user, Memory: k.options.Memory})
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "watch"), os.NewFile(uintptr(pair[1]), "watch")
	defer theirs.Close()
	defer ours.Close()
	p.cmd = exec.Command("/proc/self/exe")
	p.cmd.Env = []string{shimVariable + "=" + string(told)}
	p.cmd.Dir = "/"
	p.cmd.ExtraFiles = []*os.File{k.program, theirs}
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = 200 * time.Millisecond // a grandchild that holds the pipes does not hold us
	began := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is told by what it said, or by its state
		close(p.exited)
	}()
	if err := p.watchOver(ours); err != nil {
		p.kill()
		return nil, err
	}
	for ; cookie; time.Sleep(time.Millisecond) {
		out, _ := p.stdout.text()
		line, _, whole := strings.Cut(out, "\n")
		if whole || len(out) >= contract.MaxStderr {
			p.line, p.took = line, time.Since(began)
			return p, nil
		}
		select {
		case <-p.exited:
			p.line = line
			return p, nil
		case <-k.ctx.Done():
			p.kill()
			return nil, k.ctx.Err()
		default:
		}
		if time.Since(began) > startTime {
			return p, nil
		}
	}
	return p, nil
}

func (p *process) watchOver(ours *os.File) error {
	c, err := net.FileConn(ours)
	if err != nil {
		return err
	}
	conn := c.(*net.UnixConn)
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(startTime)); err != nil {
		return err
	}
	listener, why, err := takeOver(conn)
	if err != nil {
		said, _ := p.stderr.text()
		return fmt.Errorf("%w\n%s", err, said)
	}
	p.kit.watch = why
	if listener >= 0 {
		p.watch = &watcher{fd: listener, names: calls(), grants: p.kit.grants(), open: p.kit.sockets, quit: make(chan struct{}), done: make(chan struct{}),
			free: []string{p.dir}, roots: p.kit.roots,
			read: slices.Concat(contract.Readable(), []string{p.kit.dir}, p.kit.readable())}
		go p.watch.serve()
	}
	_, err = conn.Write([]byte{1})
	return err
}

// kill ends everything that was started, and waits for it. Once is enough: the group's number may be another's then.
func (p *process) kill() {
	if p.dead {
		return
	}
	p.dead = true
	if p.conn != nil {
		_ = p.conn.Close() // the other end is about to die
	}
	_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL) // ESRCH: it has ended
	<-p.exited
	if p.watch != nil {
		p.kit.tried.merge(p.watch.stop())
	}
	if said, _ := p.stderr.text(); said != "" && p.kit.stderr == "" {
		p.kit.stderr = said
	}
}

// alive tells whether anything of the process's group is.
func (p *process) alive() bool { return unix.Kill(-p.cmd.Process.Pid, 0) == nil }

// ended waits until the process has.
func (p *process) ended(most time.Duration) bool {
	select {
	case <-p.exited:
		return true
	case <-time.After(most):
		return false
	}
}

// address returns the socket that the first line names, or what is wrong with the line.
func (p *process) address() (string, error) {
	said, _ := p.stderr.text()
	because := ""
	if said = strings.TrimSpace(said); said != "" {
		because = "; on standard error it says: " + said
	}
	ended := false
	select {
	case <-p.exited:
		ended = true
	default:
	}
	if p.line == "" {
		if ended {
			return "", fmt.Errorf("it ended (%s) without a line on standard output%s", p.cmd.ProcessState, because)
		}
		return "", fmt.Errorf("no line on standard output within %v%s", startTime, because)
	}
	socket, err := protocol.ParseHandshake(strings.TrimRight(p.line, "\r"), p.dir)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w%s", err, because)
	case ended:
		return "", fmt.Errorf("it ended (%s) right after its handshake%s", p.cmd.ProcessState, because)
	}
	return socket, nil
}

func short(s string) string { return contract.OneLine(s[:min(len(s), 120)]) }

// dial connects.
func (p *process) dial(address string) (protocol.Client, error) {
	conn, err := grpc.NewClient("passthrough:///detector", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", address)
		}))
	if err != nil {
		return protocol.Client{}, err
	}
	p.conn = conn
	return protocol.NewClient(conn), nil
}

// shutdown asks the detector to end, as go-plugin does and then as systemd would. It returns what it took, if anything.
func (p *process) shutdown(ctx context.Context) (how string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err = p.conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
	// One that ends inside the call answers with nothing, or with an error of the connection: both are an end.
	if status.Code(err) != codes.Unimplemented && p.ended(2*time.Second) {
		return "GRPCController.Shutdown", nil
	}
	if killed := p.cmd.Process.Signal(syscall.SIGTERM); killed != nil && !errors.Is(killed, os.ErrProcessDone) {
		return "", killed
	}
	if p.ended(2 * time.Second) {
		return "SIGTERM", nil
	}
	return "", errors.New("neither GRPCController.Shutdown nor SIGTERM end it within 2 s")
}

// unknownMethod calls what a later version may have.
func (p *process) unknownMethod(ctx context.Context) error {
	return p.conn.Invoke(ctx, "/detector.v1.DetectorService/OfALaterVersion", &emptypb.Empty{}, &emptypb.Empty{})
}

// interpreter returns what a script's first line names.
func interpreter(program io.ReaderAt) (words []string) {
	b := make([]byte, 256)
	n, _ := program.ReadAt(b, 0) // shorter is fine
	line, _, _ := strings.Cut(string(b[:n]), "\n")
	if rest, ok := strings.CutPrefix(line, "#!"); ok {
		return strings.Fields(rest)
	}
	return nil
}
