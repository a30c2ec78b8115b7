// Package inside is prelet-detect: it runs as the detector's own user, confines itself, starts one detector, asks it one
// question and prints one line. It trusts prelet, who gives it the request and the open program, and nothing that comes
// from the detector. What speaks gRPC is plugins/wire/rpc.
//
// It speaks go-plugin's protocol by itself: a line with the address of a socket, then gRPC. go-plugin's own client waits for
// pipes that a grandchild may hold for ever, dials whatever address it is told, and calls four different failures
// "unrecognized"; and since prelet ends the whole process group, nothing of what it would do at the end is wanted.
package inside

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/pluginhost/confine"
	"github.com/prelet/prelet/internal/pluginhost/wire"
	"github.com/prelet/prelet/plugins/contract"
	protocol "github.com/prelet/prelet/plugins/wire"
)

// early is how much sooner than prelet this process gives up, so that it can still say why, on a busy machine too.
func early(all time.Duration) time.Duration { return min(200*time.Millisecond, all/8) }

// Run reads the request, does what it asks and writes the reply. The process must have nothing else to do: it is confined
// for good. Without is for tests (confine.Policy).
func Run(in io.Reader, out io.Writer, without confine.Lines) error {
	began := time.Now()
	var req wire.Request
	d := json.NewDecoder(io.LimitReader(in, wire.MaxRequest))
	if err := d.Decode(&req); err != nil {
		return fmt.Errorf("no request came: %w", err) // the hash was wrong, or prelet is gone
	}
	all := time.Duration(req.Millis) * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), all-early(all))
	defer cancel()
	r := &run{req: req, began: began, reply: wire.Reply{Micros: map[wire.Step]int64{}}}
	r.policy = confine.Policy{Socket: req.Socket, Memory: req.Memory, Own: req.Own, Devices: req.Allow.Devices, Read: req.Allow.Read,
		Execute: req.Allow.Execute, Sockets: req.Allow.Sockets, Without: without}
	r.do(ctx)
	b, err := json.Marshal(r.reply)
	if err != nil || len(b) >= wire.MaxReply {
		b, _ = json.Marshal(wire.Reply{Failed: wire.Call, Text: "its answer has no form that can be passed on", Lacks: r.reply.Lacks, Findings: r.reply.Findings})
	}
	_, err = out.Write(append(b, '\n'))
	return err
}

type run struct {
	req    wire.Request
	policy confine.Policy
	began  time.Time
	reply  wire.Reply
}

func (r *run) lap(s wire.Step) { r.reply.Micros[s] = time.Since(r.began).Microseconds() }

func (r *run) fail(ctx context.Context, s wire.Step, err error) {
	r.reply.Failed, r.reply.Text = s, cut(err.Error(), contract.MaxText)
	r.reply.TimedOut = ctx.Err() != nil
}

func (r *run) do(ctx context.Context) {
	report := confine.Process(r.policy)
	r.lap(wire.Sandbox)
	p, thread, err := start(r.policy, r.req.Name)
	r.reply.Lacks, r.reply.Findings = append(report.Lacks, thread.Lacks...), append(report.Failed, thread.Failed...)
	if err != nil {
		r.fail(ctx, wire.Start, err)
		return
	}
	r.lap(wire.Start)
	address, err := p.handshake(ctx, r.req.Socket)
	if err != nil {
		r.fail(ctx, wire.Handshake, err)
		return
	}
	r.lap(wire.Handshake)
	if err := r.ask(ctx, address); err != nil {
		if errors.Is(err, errConnection) {
			select {
			case <-p.ended: // whatever the call says, that is why
				err = fmt.Errorf("it ended while it was asked (%s)", p.how)
			case <-time.After(50 * time.Millisecond):
			}
		}
		r.fail(ctx, wire.Call, err)
		return
	}
	r.lap(wire.Call)
}

// process is a detector that was started.
type process struct {
	stdout *os.File
	ended  chan struct{}
	how    string // it ended; set before ended is closed
}

// start runs the program behind descriptor 3, whose hash prelet has found right, from a thread that is confined further and
// never ends: its end would be the detector's. Standard error is prelet's pipe.
func start(policy confine.Policy, name string) (*process, confine.Report, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, confine.Report{}, err
	}
	defer null.Close()
	out, in, err := os.Pipe()
	if err != nil {
		return nil, confine.Report{}, err
	}
	defer in.Close()
	type started struct {
		proc   *os.Process
		report confine.Report
		err    error
	}
	done := make(chan started)
	go onOwnThread(func() {
		report := confine.Thread(policy)
		proc, err := os.StartProcess(fmt.Sprintf("/proc/self/fd/%d", confine.Binary), []string{name}, &os.ProcAttr{
			Dir: "/", Env: protocol.Environment(policy.Socket),
			// By its number, and open in the detector: the interpreter of a #! reads the program from there.
			Files: []*os.File{null, in, os.Stderr, os.NewFile(confine.Binary, "detector")},
			Sys:   &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
		})
		done <- started{proc, report, err}
	})
	s := <-done
	if s.err != nil {
		return nil, s.report, startError(s.err)
	}
	p := &process{stdout: out, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		st, err := s.proc.Wait()
		if p.how = "how is not known"; err == nil {
			p.how = st.String()
		}
	}()
	return p, s.report, nil
}

// onOwnThread runs f on a thread that is no other goroutine's and not the process's first, and keeps it for ever. The kernel
// asks the first one whether a signal to the process is let in: it must not be in the detector's own domain.
func onOwnThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		go onOwnThread(f)
	} else {
		f()
	}
	select {}
}

func startError(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	switch {
	case errors.Is(err, syscall.EACCES):
		return errors.New("this user may not run it: its mode must be 0755, on a file system that is not mounted noexec; a #! needs its interpreter in allow { execute }")
	case errors.Is(err, syscall.ENOEXEC):
		return errors.New("it is no program for this machine")
	case errors.Is(err, syscall.ENOENT):
		return errors.New("its interpreter (of a #!, or the dynamic linker) is not on this machine")
	case errors.Is(err, syscall.ETXTBSY):
		return errors.New("somebody is writing to it")
	}
	return err
}

// handshake reads the one line that a detector prints before anything else, and returns the path of its socket.
func (p *process) handshake(ctx context.Context, folder string) (string, error) {
	deadline, _ := ctx.Deadline()
	_ = p.stdout.SetReadDeadline(deadline)
	in := bufio.NewReaderSize(p.stdout, wire.MaxHandshake)
	line, err := in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", fmt.Errorf("its first line on standard output has more than %d bytes, and is no handshake", wire.MaxHandshake)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "", errors.New("it said nothing until its time was over")
	case err != nil:
		select {
		case <-p.ended:
			return "", fmt.Errorf("it ended before it was ready (%s)", p.how)
		case <-time.After(20 * time.Millisecond):
			return "", errors.New("it closed its standard output before it was ready")
		}
	}
	// What else it prints there is for nobody, but it must not block on it.
	text := strings.TrimSpace(string(line))
	_ = p.stdout.SetReadDeadline(time.Time{})
	go func() { _, _ = io.Copy(io.Discard, in) }()
	return socketOf(text, folder)
}

// socketOf checks a handshake: go-plugin's protocol, our version, and a socket in the folder that was given to it.
func socketOf(line, folder string) (string, error) {
	f := strings.Split(line, "|")
	if len(f) < 5 {
		return "", fmt.Errorf("its first line is no handshake: %q", cut(line, 100))
	}
	switch {
	case f[0] != strconv.Itoa(protocol.Core):
		return "", fmt.Errorf("it speaks version %q of go-plugin's protocol, and prelet 1", cut(f[0], 20))
	case f[1] != strconv.Itoa(protocol.Version):
		return "", fmt.Errorf("it speaks version %q of the detector protocol, and prelet %d", cut(f[1], 20), protocol.Version)
	case f[4] != "grpc":
		return "", fmt.Errorf("it speaks %q, and prelet gRPC", cut(f[4], 20))
	case f[2] != "unix":
		return "", fmt.Errorf("it listens on %s %q, and must listen on a Unix socket in $PLUGIN_UNIX_SOCKET_DIR", cut(f[2], 20), cut(f[3], 100))
	case len(f) > 5 && f[5] != "":
		return "", errors.New("it wants TLS, on a socket that nobody else can reach")
	}
	name, ok := strings.CutPrefix(f[3], strings.TrimSuffix(folder, "/")+"/")
	if !ok || strings.Contains(name, "..") || name == "" {
		return "", fmt.Errorf("it names the socket %q, which is not in the folder that it was given", cut(f[3], 100))
	}
	return f[3], nil
}

// cut is at most n bytes of a text, without breaking a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
