package pluginhost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/detector/sandbox"
	"github.com/prelet/prelet/internal/detector/wire"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/plugins/contract"
)

const (
	// unsandboxed is what is told of a user without root where the kernel cannot keep a detector from his other programs.
	unsandboxed = "without root a detector runs as you, and only Landlock 6 or newer keeps it from your other programs"
	// reapFor is how long the end of what was killed is waited for: a process in the kernel's hands (a driver that hangs)
	// ends when the driver lets it, or never.
	reapFor = 500 * time.Millisecond
)

// becomeSubreaper makes orphans of detectors children of this process, so that they can be waited for.
func becomeSubreaper() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// run runs one program: see the package's comment. When it returns, nothing of it is alive, or Trace says so.
func (h *Host) run(ctx context.Context, j job) (reply wire.Reply, t Trace, err error) {
	began := time.Now()
	defer func() { t.Took = time.Since(began) }()
	t.Step = wire.Sandbox
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = began.Add(DefaultTimeout)
	}
	if os.Geteuid() != 0 {
		if abi, err := confine.LandlockABI(); err != nil || abi < confine.ABIScopes {
			return reply, t, denied("%s", unsandboxed)
		}
	}
	if err := h.subreaper(); err != nil {
		t.Finds = append(t.Finds, "reaping of orphans: "+err.Error())
	}
	program, err := openProgram(j.program)
	if err != nil {
		return reply, t, err
	}
	defer program.Close()
	if err := unchanging(program); err != nil && j.sha256 != "" {
		return reply, t, fmt.Errorf("%s was not executed: %w", j.program, err)
	}
	sum := make(chan string, 1)
	go func() { sum <- hash(program) }() // while prelet-detect starts
	s, err := h.take(ctx, j.grants.Groups)
	if err != nil {
		<-sum
		return reply, t, err
	}
	clean := false
	defer func() { s.release(clean) }()
	t.User, t.Lacks = s.uid, s.lacks
	p, err := h.start(s, program)
	if err != nil {
		<-sum
		clean = true
		return reply, t, fmt.Errorf("prelet-detect: %w", err)
	}
	t.SHA256 = <-sum
	var answered error
	switch {
	case t.SHA256 == "":
		answered = fmt.Errorf("%s cannot be read", j.program)
	case j.sha256 != "" && j.sha256 != t.SHA256:
		answered = fmt.Errorf("%s is not the program that was locked, and was not executed: its sha256 is %s…, and the lock's %s…", j.program, t.SHA256[:12], j.sha256[:12])
	default:
		j.request.Socket, j.request.Own, j.request.Memory, j.request.Allow = s.dir, s.own, uint64(j.memory), h.granted(j.grants)
		j.request.Millis = time.Until(deadline).Milliseconds()
		t.Step = wire.Start
		reply, answered = p.ask(ctx, j.request, deadline)
	}
	ended := time.Now()
	clean = p.end()
	if !s.own || p.trustless(reply) { // what may have left the process group
		clean = h.sweepAfter(s, clean)
	}
	t.End, t.Left = time.Since(ended), !clean
	t.Stderr = p.stderr.text()
	t.Lacks, t.Finds = append(t.Lacks, reply.Lacks...), append(t.Finds, reply.Findings...)
	t.Micros = reply.Micros
	if !clean {
		t.Finds = append(t.Finds, world.NotEnded)
	}
	if answered == nil && reply.Failed != "" {
		t.Step = reply.Failed
		answered = errors.New(words(reply.Text))
	}
	return reply, t, answered
}

// process is one prelet-detect.
type process struct {
	proc   *os.Process
	stdin  *os.File
	stdout *os.File
	stderr *bounded
	waited chan struct{}
}

// start forks prelet-detect under the slot's user, in a process group of its own, with the program as descriptor 3 and
// next to nothing in its environment. It then waits for its request.
func (h *Host) start(s *slot, program *os.File) (*process, error) {
	var pipes [6]*os.File
	for i := 0; i < len(pipes); i += 2 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(pipes[:i])
			return nil, err
		}
		pipes[i], pipes[i+1] = r, w
	}
	in, out, stderr := pipes[0], pipes[3], pipes[5]
	attr := &os.ProcAttr{Dir: "/", Env: []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "GOMAXPROCS=1"}, Files: []*os.File{in, out, stderr, program},
		Sys: &syscall.SysProcAttr{Setpgid: true}}
	if s.own {
		attr.Sys.Credential = &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.gid), Groups: s.groups}
	}
	var proc *os.Process
	var err error
	s.start(func() { proc, err = os.StartProcess(h.o.Helper, []string{"prelet-detect"}, attr) })
	closeAll([]*os.File{in, out, stderr})
	if err != nil {
		closeAll([]*os.File{pipes[1], pipes[2], pipes[4]})
		return nil, err
	}
	p := &process{proc: proc, stdin: pipes[1], stdout: pipes[2], stderr: read(pipes[4]), waited: make(chan struct{})}
	return p, nil
}

func closeAll(l []*os.File) {
	for _, f := range l {
		_ = f.Close()
	}
}

// ask sends the request and reads one line. The end of the pipe is not waited for: a grandchild may hold it.
func (p *process) ask(ctx context.Context, req wire.Request, deadline time.Time) (reply wire.Reply, err error) {
	b, err := json.Marshal(req)
	if err != nil {
		return reply, err
	}
	_ = p.stdin.SetWriteDeadline(deadline)
	_ = p.stdout.SetReadDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = p.stdout.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	go func() {
		_, _ = p.stdin.Write(append(b, '\n'))
		_ = p.stdin.Close()
	}()
	line, err := readLine(p.stdout, wire.MaxReply)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return reply, errors.New("it did not end in its time, and was killed")
	case errors.Is(err, io.EOF):
		return reply, errors.New("prelet-detect ended without an answer: it or the detector was killed, or ran out of memory")
	case err != nil:
		return reply, err
	}
	err = wire.Bounded(line)
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(line)).Decode(&reply)
	}
	if err != nil {
		return wire.Reply{}, fmt.Errorf("prelet-detect's answer cannot be read: %w", err)
	}
	if reply.Failed == "" && reply.Answer == nil && reply.Describe == nil {
		return wire.Reply{}, errors.New("prelet-detect's answer is empty")
	}
	return reply, nil
}

func readLine(r io.Reader, most int) ([]byte, error) {
	var line []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if i := bytes.IndexByte(buf[:n], '\n'); i >= 0 {
			return append(line, buf[:i]...), nil
		}
		if line = append(line, buf[:n]...); len(line) > most {
			return nil, fmt.Errorf("the answer has more than %d KiB", most>>10)
		}
		if err != nil {
			return nil, err
		}
	}
}

// end kills the whole process group and reaps it. It says whether all of it is over.
func (p *process) end() bool {
	group := p.proc.Pid
	_ = unix.Kill(-group, unix.SIGKILL)
	closeAll([]*os.File{p.stdout, p.stdin})
	go func() {
		_, _ = p.proc.Wait()
		close(p.waited)
	}()
	limit := time.Now().Add(reapFor)
	select {
	case <-p.waited:
	case <-time.After(reapFor):
		p.stderr.stop()
		return false
	}
	// What the host started has become ours by its end.
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		pid, err := unix.Wait4(-group, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // ECHILD: none is left
			p.stderr.stop()
			return true
		case pid == 0:
			if time.Now().After(limit) {
				p.stderr.stop()
				return false
			}
			_ = unix.Kill(-group, unix.SIGKILL)
			time.Sleep(pause)
		}
	}
}

// trustless says that the filter which keeps everything in the process group is not known to have been there.
func (p *process) trustless(reply wire.Reply) bool {
	if len(reply.Micros) == 0 {
		return true
	}
	for _, s := range reply.Findings {
		if strings.HasPrefix(s, "seccomp") || strings.HasPrefix(s, "no_new_privs") {
			return true
		}
	}
	return false
}

// sweepAfter ends what may have left the group. Without a user of its own nothing can be told from this user's other programs.
func (h *Host) sweepAfter(s *slot, clean bool) bool {
	if !s.own {
		return clean
	}
	return h.sweep(s.uid)
}

// sweep ends all processes of a user of the pool, by prelet-detect under that user: prelet could not see them where /proc hides
// them, and must not ask the kernel to end everything that *root* may end.
func (h *Host) sweep(uid int) bool {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer null.Close()
	proc, err := os.StartProcess(h.o.Helper, []string{"prelet-detect", "sweep", strconv.Itoa(uid)}, &os.ProcAttr{Dir: "/", Env: []string{"GOMAXPROCS=1"},
		Files: []*os.File{null, null, null}, Sys: &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}})
	if err != nil {
		return false
	}
	st, err := proc.Wait()
	if err != nil || !st.Success() {
		return false
	}
	reapUser(uid)
	return true
}

// reapUser waits for the children that have become ours and whose user is the given one: those that left their group. The
// kernel shows the next child that has ended without taking it; one of somebody else is left to him, for a moment.
func reapUser(uid int) {
	const pid, user = 4, 5 // of struct siginfo, in words of 32 bits, on machines of 64
	for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
		var info [32]int32
		_, _, errno := unix.Syscall6(unix.SYS_WAITID, unix.P_ALL, 0, uintptr(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, 0, 0)
		if errno != 0 {
			return // there are no children
		}
		if info[pid] != 0 && int(info[user]) == uid {
			_, _ = unix.Wait4(int(info[pid]), nil, unix.WNOHANG, nil)
			continue
		}
		time.Sleep(time.Millisecond)
	}
}

// bounded reads a pipe to its end, or until it is stopped, and keeps the beginning and the end of what came.
type bounded struct {
	f    *os.File
	done chan struct{}
	mu   sync.Mutex
	head []byte
	tail []byte
	lost int
}

func read(f *os.File) *bounded {
	b := &bounded{f: f, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		buf := make([]byte, 64<<10)
		for {
			n, err := f.Read(buf)
			b.keep(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	return b
}

func (b *bounded) keep(p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	const half = contract.MaxStderr / 2
	if n := min(half-len(b.head), len(p)); n > 0 {
		b.head = append(b.head, p[:n]...)
		p = p[n:]
	}
	if b.tail = append(b.tail, p...); len(b.tail) > half {
		b.lost += len(b.tail) - half
		b.tail = append(b.tail[:0], b.tail[len(b.tail)-half:]...)
	}
}

// stop ends the reading: what was written is in the pipe already, and who still holds it is not waited for.
func (b *bounded) stop() {
	_ = b.f.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	<-b.done
	_ = b.f.Close()
}

func (b *bounded) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost > 0 {
		return string(b.head) + fmt.Sprintf("\n… %d bytes …\n", b.lost) + string(b.tail)
	}
	return string(b.head) + string(b.tail)
}
