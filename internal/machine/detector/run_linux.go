package detector

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/machine/detector/wire"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/sandbox"
)

// heldTime is how long a killed process may be in the kernel without a pause, before it counts as held by a driver: it
// may never end. Others need the processor, which a busy machine gives late, or the end of others: they have endTime.
const heldTime = 500 * time.Millisecond

var endTime = 20 * time.Second // longer in tests, which a busy machine must not fail

// pipeTime is how long standard error is read after the end of prelet-detect. A process that left its group may hold
// the pipe.
const pipeTime = 20 * time.Millisecond

// becomeSubreaper makes orphans of detectors children of this process, so that it can wait for them.
func becomeSubreaper() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// run runs one program, as described in the package comment. When it returns, all its processes have ended, or Trace
// reports that some have not.
func (h *Host) run(ctx context.Context, j job) (reply wire.Reply, t Trace, err error) {
	asked := time.Now()
	t.Step = wire.Sandbox
	if err := checkIsolation(); err != nil {
		return reply, t, err
	}
	if err := h.subreaper(); err != nil {
		t.Finds = append(t.Finds, "reaping of orphans: "+err.Error())
	}

	program, err := j.open()
	if err != nil {
		return reply, t, err
	}
	defer program.Close()

	before := identify(j, program)
	sum := make(chan string, 1)
	go func() { sum <- h.hash(j, program) }() // while prelet-detect starts
	s, err := h.take(ctx, j.request.Name, j.grants.Groups)
	if err != nil {
		<-sum
		return reply, t, err
	}
	end, hasEnd := ctx.Deadline()
	ctx, cancel := tape.BeginWork(ctx, DefaultTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	waited, left := time.Since(asked).Round(time.Second), time.Until(deadline).Round(time.Second)
	clean := false
	defer func() { s.release(clean) }()
	t.Lacks = s.lacks

	p, err := h.start(s, program)
	t.SHA256 = <-sum
	if err != nil {
		clean = true
		return reply, t, explainHelper("prelet-detect", err)
	}

	err = j.checkHash(t.SHA256)
	if err == nil {
		t.Step = wire.Call
		request := h.completeRequest(j, s, deadline)
		watched, stop := context.WithCancelCause(ctx)
		go p.watchMemory(watched, memoryProcesses*j.memory, stop)
		reply, err = p.ask(watched, request, deadline)
		stop(nil)
	}
	if after := identify(j, program); err == nil && after != before {
		err = fmt.Errorf("%s was changed while it was started, so its answer does not count", j.program)
	}
	clean = p.end()
	if s.own && !reply.Report.Contained { // also without a reply
		clean = h.sweep(s.uid)
	}
	t.Stderr = p.stderr.text()
	t.Lacks = append(t.Lacks, reply.Report.Lacks...)
	t.Finds = append(t.Finds, reply.Report.Failed...)
	if !clean {
		t.Finds = append(t.Finds, tape.NotEnded)
	}
	if err == nil && reply.Failed != "" {
		t.Step = reply.Failed
		err = errors.New(cmp.Or(cleanText(reply.Text), "it failed without a message"))
	}
	if err != nil && hasEnd && !deadline.Before(end) && waited > 0 {
		err = fmt.Errorf("%w. It had only %s, after %s in which other detectors had all users", err, left, waited)
	}

	return reply, t, err
}

// identify returns the state of an open program: it shows whether the program was written after its hash was read. The
// change time is left out, because an update that replaces the file changes it too.
func identify(j job, program *os.File) nodefile.Identity {
	var st unix.Stat_t
	_ = unix.Fstat(int(program.Fd()), &st) // it is open; a failure is the same state twice

	id := nodefile.Identify(j.program, &st)
	id.Changed = 0

	return id
}

// open opens the program. Without a lock it is only described, so that others may be able to write it.
func (j job) open() (*os.File, error) {
	program, err := openProgram(j.program)
	if err != nil || j.sha256 == "" {
		return program, err
	}

	if err := checkWriters(program); err != nil {
		_ = program.Close()
		return nil, fmt.Errorf("%s was not executed: %w", j.program, err)
	}

	return program, nil
}

// checkWriters rejects, as root, a program that other users can write: they could change it between its hash and its
// start. Without root a user runs his own programs at his own risk.
func checkWriters(f *os.File) error {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	if err != nil {
		return err
	}
	loose := nodefile.FindLoose(int(f.Fd()), f.Name(), &st, false)
	if os.Geteuid() == 0 && loose != nil {
		return fmt.Errorf("other users than root can write it: %w", loose)
	}

	return nil
}

// checkIsolation refuses a user without root where the kernel cannot keep a detector from his other programs.
func checkIsolation() error {
	if os.Geteuid() == 0 {
		return nil
	}
	abi, err := sandbox.LandlockABI()
	if err != nil || abi < sandbox.ABIScopes {
		return denied("%s", unsandboxed)
	}

	return nil
}

const unsandboxed = "without root a detector runs as your user, and this kernel cannot keep it from " +
	"your other programs: that needs Landlock 6 or newer"

// checkHash compares the hash of a program with the lock.
func (j job) checkHash(sum string) error {
	switch {
	case sum == "":
		return fmt.Errorf("%s cannot be read", j.program)
	case j.sha256 != "" && j.sha256 != sum:
		const text = "%s was not executed, because it is not the locked program: its sha256 is %s…, the lock has %s…"
		return fmt.Errorf(text, j.program, sum[:12], j.sha256[:12])
	}

	return nil
}

// completeRequest adds the fields that depend on the slot and the deadline.
func (h *Host) completeRequest(j job, s *slot, deadline time.Time) wire.Request {
	r := j.request
	r.Policy = sandbox.Policy{
		Socket: contract.SocketFolder(s.dir),
		Memory: uint64(j.memory),
		Own:    s.own,
		Grants: h.placeGrants(j.grants),
	}
	r.Millis = time.Until(deadline).Milliseconds()

	return r
}

type process struct {
	*exec.Cmd
	stdin  io.WriteCloser
	stdout *os.File
	stderr capture
}

// start starts prelet-detect as the slot's user, with the program as descriptor 3. It waits for a request then.
func (h *Host) start(s *slot, program *os.File) (*process, error) {
	c := h.helper()
	c.ExtraFiles = []*os.File{program}
	if s.own {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.gid), Groups: s.groups}
	}

	stdin, inErr := c.StdinPipe()
	stdout, outErr := c.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, err
	}
	p := &process{Cmd: c, stdin: stdin, stdout: stdout.(*os.File)}
	c.Stderr = &p.stderr
	c.WaitDelay = pipeTime

	return p, c.Start()
}

// helper returns a command of prelet-detect, in a process group of its own and with almost no environment.
func (h *Host) helper(args ...string) *exec.Cmd {
	c := exec.Command(h.o.Helper, args...)
	c.Args[0] = "prelet-detect"
	c.Dir = "/"
	c.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "GOMAXPROCS=1"}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	return c
}

// ask sends the request and reads one line. It does not wait for the end of the pipe, which a grandchild may hold
// open.
func (p *process) ask(
	ctx context.Context,
	req wire.Request,
	deadline time.Time,
) (reply wire.Reply, err error) {
	b, err := json.Marshal(req)
	if err != nil {
		return reply, err
	}
	_ = p.stdout.SetReadDeadline(deadline)
	defer context.AfterFunc(ctx, func() {
		_ = p.stdout.SetReadDeadline(time.Unix(1, 0))
	})()
	go func() {
		_, _ = p.stdin.Write(append(b, '\n')) // a failure shows as a missing reply
		_ = p.stdin.Close()
	}()

	line, err := readLine(p.stdout, wire.MaxReply)
	cause := context.Cause(ctx)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && errors.Is(cause, errMemory):
		return reply, cause
	case errors.Is(err, os.ErrDeadlineExceeded):
		return reply, errors.New("it exceeded its deadline and was killed")
	case errors.Is(err, io.EOF):
		const text = "prelet-detect ended without a reply: it or the detector was killed, or ran out of memory"
		return reply, errors.New(text)
	case err != nil:
		return reply, err
	}

	err = wire.ReplyBounds.Check(line)
	if err == nil {
		err = json.Unmarshal(line, &reply)
	}
	if err != nil {
		return wire.Reply{}, fmt.Errorf("its answer cannot be read: %w", tape.ExplainJSON(err))
	}

	return reply, nil
}

// readLine reads until the first newline, or fails after a number of bytes.
func readLine(r io.Reader, limit int) ([]byte, error) {
	line, err := bufio.NewReader(io.LimitReader(r, int64(limit)+1)).ReadBytes('\n')
	if len(line) > limit {
		return nil, fmt.Errorf("the reply has more than %d KiB", limit>>10)
	}

	return bytes.TrimSuffix(line, []byte("\n")), err
}

// end kills the process group and reaps it. It reports whether all processes have ended.
func (p *process) end() bool {
	group := p.Process.Pid
	_ = unix.Kill(-group, unix.SIGKILL)

	exited := make(chan struct{})
	go func() {
		_ = p.Wait() // it was killed
		close(exited)
	}()
	began := time.Now()
	lastFree, alive := began, 0
	isLate := func() bool {
		if time.Since(lastFree) > heldTime/2 {
			now, held := countThreads(group)
			if held == 0 || now < alive {
				lastFree = time.Now()
			}
			alive = now
		}
		return time.Since(began) > endTime || time.Since(lastFree) > heldTime
	}
	for isReaped := false; !isReaped; {
		late := isLate() // before it is looked whether it has ended
		select {
		case <-exited:
			isReaped = true
		case <-time.After(heldTime / 5):
			if late {
				return false
			}
		}
	}

	// The processes that it started are our children now.
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		late := isLate()
		pid, err := unix.Wait4(-group, nil, unix.WNOHANG, nil)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR): // mostly ECHILD: no process is left
			return true
		case late && pid == 0:
			return false
		case err == nil && pid == 0:
			_ = unix.Kill(-group, unix.SIGKILL)
			time.Sleep(pause)
		}
	}
}

// countThreads returns how many threads of a process group have not ended, and how many of these wait in the kernel and
// cannot be interrupted (state D), as for a driver that hangs.
func countThreads(group int) (alive, held int) {
	for _, pid := range members(group) {
		states, _ := filepath.Glob("/proc/" + pid + "/task/*/status")
		for _, path := range states {
			text, _ := os.ReadFile(path) // "" if it has ended
			_, state, _ := strings.Cut(string(text), "\nState:\t")
			if state != "" && state[0] != 'Z' {
				alive++
			}
			if strings.HasPrefix(state, "D") {
				held++
			}
		}
	}

	return alive, held
}

// members returns the process ids of a group, as text.
func members(group int) (pids []string) {
	paths, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range paths {
		name := filepath.Base(path)
		pid, _ := strconv.Atoi(name)
		if of, _ := unix.Getpgid(pid); of == group {
			pids = append(pids, name)
		}
	}

	return pids
}

// sweep kills all processes of a detector's user and reports whether it could. A prelet-detect under that user does
// it: prelet may not see the processes where /proc hides them, and as root kill(-1) would end the machine.
func (h *Host) sweep(uid int) bool {
	c := h.helper("sweep", strconv.Itoa(uid))
	c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	if c.Run() != nil {
		return false
	}
	reapUser(uid)

	return true
}

// reapUser reaps the ended children that belong to a user: processes of a detector that left their group. Other
// children are left to their owner. It looks 20 times, as a killed process needs a moment to end.
func reapUser(uid int) {
	for range 20 {
		pids := childrenOf(uid)
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
		time.Sleep(time.Millisecond)
	}
}

// childrenOf returns the process ids of this process's children that run, or ran, as the given user. wait(2) shows only
// the first of the ended children, which may be another user's.
func childrenOf(uid int) (pids []int) {
	lists, _ := filepath.Glob("/proc/self/task/*/children") // a child is listed at the thread that started it
	for _, path := range lists {
		text, _ := os.ReadFile(path)
		for _, word := range strings.Fields(string(text)) {
			var st unix.Stat_t
			err := unix.Stat("/proc/"+word, &st)
			if pid, _ := strconv.Atoi(word); err == nil && int(st.Uid) == uid {
				pids = append(pids, pid)
			}
		}
	}

	return pids
}
