package detector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prelet/prelet/internal/testing/table"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/detector/hostile"
	"github.com/prelet/prelet/internal/model/tape"
)

// helperName is what prelet calls its helper.
const helperName = "prelet-detect"

// longest only bounds a hang: no machine is so busy that a detector which answers needs it.
const longest = 10 * time.Minute

// program is the content of the file that plays prelet-detect and all detectors, and programHash its hash in a lock.
var (
	program     []byte
	programHash string
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(askVariable); dir != "" {
		askAndWait(dir)
		return
	}
	if err := buildProgram(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	endTime = longest
	os.Exit(m.Run())
}

func buildProgram() error {
	dir, err := os.MkdirTemp("", "prelet-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	path := filepath.Join(dir, "program")
	if err := hostile.Build(context.Background(), path); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	programHash = hashProgram(f)
	program, err = os.ReadFile(path)

	return err
}

// bench is a machine for detectors: a folder that the pool's users can reach, with this program in every role.
type bench struct {
	t    *testing.T
	dir  string
	host *Host
	uid  int // of the pool's first user; the second has the next
}

func newBench(t *testing.T, detectors ...string) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "prelet-") // the paths of sockets are short
	must(t, err)
	t.Cleanup(func() {
		folders, _ := filepath.Glob(dir + "/run/sockets/*")
		for _, folder := range folders {
			_ = unix.Unmount(folder, unix.MNT_DETACH) // of a slot that was not released
		}
		_ = os.RemoveAll(dir)
	})
	must(t, os.Chmod(dir, 0o711))
	uid, claim, err := ownUsers()
	must(t, err)
	b := &bench{t: t, dir: dir, uid: uid}
	t.Cleanup(func() { _ = claim.Close() })
	syscall.ForkLock.RLock() // a process that starts meanwhile has the file open: it could not be executed
	defer syscall.ForkLock.RUnlock()
	b.write("self", program, 0o755)
	b.link(helperName)
	b.write(
		"passwd",
		fmt.Appendf(
			nil,
			"root:x:0:0::/root:/bin/sh\n%[1]s1:x:%[2]d:%[2]d::/:/bin/false\n%[1]s2:x:%[3]d:%[3]d::/:/bin/false\n",
			UserPrefix,
			b.uid,
			b.uid+1,
		),
		0o644,
	)
	b.host = New(HostConfig{Root: dir, RunDir: dir + "/run", Helper: dir + "/" + helperName, Passwd: dir + "/passwd",
		Redact: func(s string) string { return strings.ReplaceAll(s, hostile.Secret, "(sensitive)") }})
	for _, name := range detectors {
		b.install(name)
	}
	return b
}

// needsRoot skips a test of the pool's users.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to run a detector as a user of the pool")
	}
}

// with returns the bench with other options of its host.
func (b *bench) with(change func(*HostConfig)) *bench {
	inner, o := *b, b.host.o
	change(&o)
	inner.host = New(o)
	return &inner
}

// without returns the bench with a prelet-detect that leaves out a line of the sandbox.
func (b *bench) without(line string) *bench {
	b.t.Helper()
	return b.with(func(o *HostConfig) { o.Helper = b.link(helperName + "-without-" + line) })
}

func (b *bench) write(name string, content []byte, mode os.FileMode) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	must(b.t, errors.Join(
		os.MkdirAll(filepath.Dir(path), 0o755),
		os.WriteFile(path, content, 0o600),
		os.Chmod(path, mode),
	))
	return path
}

// link is this program under another name.
func (b *bench) link(name string) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	must(b.t, errors.Join(
		os.MkdirAll(filepath.Dir(path), 0o755),
		os.Link(filepath.Join(b.dir, "self"), path),
	))
	return path
}

// install makes a hostile detector and the lock that it would have.
func (b *bench) install(name string) {
	b.t.Helper()
	b.link(filepath.Join(Programs, name))
	b.lock(name, programHash)
}

// lock writes the lock of a program with this hash.
func (b *bench) lock(name, hash string) {
	b.t.Helper()
	describe, err := json.Marshal(hostile.Describe(name))
	must(b.t, err)
	text, err := WriteFragment(tape.LockEntry{Name: name, SHA256: hash, Describe: describe})
	must(b.t, err)
	b.write(filepath.Join(Fragments, name+".json"), text, 0o644)
}

// ask is one question, with a deadline, and how long its answer took.
func (b *bench) ask(r tape.DetectorReq, deadline time.Duration) (tape.DetectorAns, tape.Answer, time.Duration) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), deadline)
	defer cancel()
	began := time.Now()
	said, ans, _ := tape.Detector.Ask(ctx, b.host, r)
	return said, ans, time.Since(began)
}

// context ends with the test, and after that long: without a deadline a detector has the usual one.
func (b *bench) context() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), longest)
	b.t.Cleanup(cancel)
	return ctx
}

// askFor asks a detector, with a deadline that only bounds a hang: a busy machine keeps it.
func (b *bench) askFor(name string) (tape.DetectorAns, tape.Answer, time.Duration) {
	b.t.Helper()
	return b.ask(tape.DetectorReq{Name: name}, longest)
}

// left are the processes that run this bench's program and are not this test.
func (b *bench) left() (out []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, pid := range b.zombies() {
		out = append(out, fmt.Sprintf("%d (zombie)", pid))
	}
	for _, l := range links {
		pid := strings.Split(l, "/")[2]
		if exe, err := os.Readlink(l); err == nil && strings.HasPrefix(exe, b.dir) && pid != fmt.Sprint(os.Getpid()) {
			cmdline, _ := os.ReadFile("/proc/" + pid + "/cmdline")
			out = append(out, pid+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return out
}

// nothingLeft waits until all killed processes have ended, which takes time on a busy machine.
func (b *bench) nothingLeft(t *testing.T) {
	t.Helper()
	// Polled: they are children of others, and /proc alone shows them.
	for late := time.Now().Add(longest); len(b.left()) > 0; time.Sleep(10 * time.Millisecond) {
		for _, pid := range b.zombies() {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
		if time.Now().After(late) {
			t.Fatalf("got processes %q, want none", b.left())
		}
	}
}

// zombies are processes of this bench's users that ended and were not waited for.
func (b *bench) zombies() (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/status")
	user := fmt.Sprintf("\nUid:\t%d\t", b.uid)
	for _, p := range stats {
		text, _ := os.ReadFile(p)
		pid, err := strconv.Atoi(strings.Split(p, "/")[2])
		isZombie := strings.Contains(string(text), user) && strings.Contains(string(text), "State:\tZ")
		if os.Geteuid() == 0 && err == nil && isZombie {
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestGood(t *testing.T) {
	t.Parallel()
	b := newBench(t, "good")
	said, ans, took := b.askFor("good")
	if ans.Fault != nil {
		t.Fatalf("got %+v, want an answer", ans)
	}
	t.Logf("%s, %s", took, ans.Value)
	if said.Version != "1.0.0" || said.Attributes["firmware"] != "1.20" ||
		said.Labels[hostile.Domain+"/firmware"] != "1.20" ||
		len(said.Devices) != 1 ||
		len(said.Warnings) != 1 {
		t.Errorf("got answer %s, want that of hostile.Good", ans.Value)
	}
	if said.Evidence["facts.sensors"] != "/sys/class/hwmon" || said.Facts["sensors"] == nil {
		t.Errorf("got facts %s, want those of hostile.Good", ans.Value)
	}
	if len(said.Findings) > 0 || os.Geteuid() == 0 && len(said.Sandbox) > 0 {
		t.Errorf("got missing parts of the sandbox %q, %q, want none", said.Sandbox, said.Findings)
	}
	b.nothingLeft(t)
	left, _ := filepath.Glob(b.dir + "/run/sockets/*/*")
	if len(left) > 0 {
		t.Errorf("in the folders of sockets: got %q; want nothing", left)
	}
}

// TestHostile has a row for each way to fail: the reason and the output are reported, what hangs is ended at its deadline
// and not before, and no process is left.
func TestHostile(t *testing.T) {
	tests := table.YAML[[]struct {
		Name string
		Want string // in the answer's text; "" for one that answers all the same
	}](t, `
- {name: crash-before,
   want: 'it ended before it was ready (exit status 3). Its output: loading libvendor.so.1 |
     vendor library not found: libvendor.so.1'}
- {name: crash-after, want: 'it ended during the call (exit status 2). Its output: panic: nil device table'}
- {name: crash-call,
   want: 'it ended during the call (exit status 134). Its output: ioctl failed: no such device |
     assertion failed: table != NULL'}
- {name: says-nothing, want: it failed without a message}
- {name: says-no, want: the driver is older than 1.20; install a newer one}
- {name: secret, want: 'Its output: cannot log in with (sensitive)'}
- {name: hang-start, want: it printed no handshake before its deadline}
- {name: hang-call, want: it exceeded its deadline}
- {name: flood-stdout, want: it exceeded its deadline}
- {name: flood-stderr}
- {name: long-line, want: its first line on standard output has more than 4096 bytes}
- {name: noise, want: 'its first line is not a handshake: "Vendor driver 1.2 starting"'}
- {name: wrong-core, want: 'unsupported version of go-plugin''s protocol "9": prelet supports 1'}
- {name: wrong-version, want: 'unsupported version of the detector protocol "7": prelet supports 1'}
- {name: netrpc, want: 'unsupported protocol "netrpc": prelet supports grpc'}
- {name: tcp, want: 'unsupported network "tcp": prelet supports unix'}
- {name: foreign-socket, want: invalid socket path "/run/dbus/system_bus_socket"}
- {name: dotted-socket, want: invalid socket path}
- {name: dead-socket, want: its socket does not answer}
- {name: other-protocol,
   want: 'it does not speak HTTP/2: http2: failed reading the frame payload: http2: frame too large'}
- {name: ping-flood, want: it exceeded its deadline}
- {name: bad-label, want: 'its answer was rejected: labels[0].key'}
- {name: foreign-label, want: other.example.org is not in the description}
- {name: role-label, want: node-role.kubernetes.io is not in the description}
- {name: undescribed, want: '"seats" is not in the description'}
- {name: wrong-type, want: 'its answer was rejected: sensors: wrong type'}
- {name: bad-address, want: invalid PCI address "../../1"}
- {name: placeholder, want: not a printable text}
- {name: terminal, want: not a printable text}
- {name: huge, want: its answer is larger than 1024 KiB}
- {name: crowd, want: 'its answer cannot be read: it has more than 8192 elements'}
- {name: nulls, want: 'its answer cannot be read: a list or object in it has more than 4096 members'}
- {name: warns, want: 'its answer cannot be read: a list or object in it has more than 4096 members'}
- {name: no-number, want: 'google.protobuf.Value.number_value: invalid NaN value'}
- {name: no-speed, want: 'it cannot be read: its number +Inf is not finite'}
- {name: flood-stdio}
- {name: chatty, want: 'it ended during the call (exit status 1). Its output: the driver is older than 1.20'}
- {name: huge-stdio}
- {name: many, want: 'devices: too many'}
- {name: grandchild}
- {name: ignores}
- {name: hog, want: 'it ended during the call (exit status 2). Its output: '}
- {name: kill-host}
`)
	for _, test := range tests {
		t.Run(test.Name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, test.Name)
			isLate := strings.HasSuffix(test.Want, "its deadline") // it takes all of its time
			deadline := longest
			if isLate {
				deadline = 2 * time.Second
			}
			r := tape.DetectorReq{Name: test.Name}
			if test.Name == "huge" {
				r.Memory = 1 << 30 // else it ends of that
			}
			_, ans, took := b.ask(r, deadline)
			text := ans.Why() + " " + next(ans)
			for isLate && !strings.Contains(text, test.Want) && deadline < time.Minute { // a busy machine did not get so far
				deadline *= 2
				_, ans, took = b.ask(r, deadline)
				text = ans.Why() + " " + next(ans)
			}
			t.Logf("%s %s %.300s", took.Round(time.Millisecond), ans.Name(), text)
			// Without time for prelet-detect to report, prelet reports the same deadline with fewer words.
			killed := isLate && strings.Contains(text, "it exceeded its deadline and was killed")
			switch {
			case test.Want == "" && ans.Fault != nil:
				t.Errorf("got the failure %s, want an answer", text)
			case killed:
			case test.Want != "" && (ans.Code() != fault.DetectorFailed || !strings.Contains(text, test.Want)):
				t.Errorf("want %q, got %s: %s", test.Want, ans.Name(), text)
			}
			if strings.Contains(text, hostile.Secret) || len(text) > 3000 || strings.Contains(text, "\n") {
				t.Errorf("got text %q, want one short line without secrets", text)
			}
			if isLate && took < deadline*3/4 {
				t.Errorf("got an answer after %s, want it near the deadline", took)
			}
			b.nothingLeft(t)
		})
	}
}

// TestWrongChecksum checks that a program other than the locked one is never executed.
func TestWrongChecksum(t *testing.T) {
	t.Parallel()
	b := newBench(t, "good")
	mark := filepath.Join(b.dir, "ran")
	b.write("evil", []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o755)
	must(t, os.Rename(b.dir+"/evil", b.dir+Programs+"/good"))
	_, ans, _ := b.askFor("good")
	if !strings.Contains(ans.Why(), "was not executed, because it is not the locked program") {
		t.Errorf("got %+v, want a refusal of the program", ans)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("it was executed")
	}
	b.nothingLeft(t)
}

// TestSwapped checks that the hashed program runs, whatever is at its path then.
func TestSwapped(t *testing.T) {
	t.Parallel()
	b := newBench(t, "good", "says-no")
	f, err := openProgram(b.dir + Programs + "/good")
	must(t, err)
	defer f.Close()
	must(t, os.Remove(b.dir+Programs+"/good"))
	b.write(Programs+"/good", []byte("#!/bin/sh\nexit 9\n"), 0o755)
	s, err := b.host.take(t.Context(), "good", nil)
	must(t, err)
	defer s.release(true)
	p, err := b.host.start(s, f)
	must(t, err)
	defer p.end()
	deadline := time.Now().Add(longest)
	req := b.host.completeRequest(job{memory: MinMemory}, s, deadline)
	req.Ask, req.Name = "detect", "good"
	reply, err := p.ask(t.Context(), req, deadline)
	if err != nil || reply.Failed != "" || reply.Answer == nil {
		t.Errorf("got %+v, %v, want the answer of the opened program", reply, err)
	}
}

// TestSwappedMeanwhile swaps the program all the time: each run is the locked program or a refusal. It ends once there
// were both.
func TestSwappedMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t, "good")
	at := b.dir + Programs + "/good"
	locked, other, next := at+".locked", at+".other", at+".next"
	must(t, os.Rename(at, locked))
	b.write(Programs+"/good.other", []byte("#!/bin/sh\nexit 9\n"), 0o755)
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if err := errors.Join(os.Link([]string{locked, other}[i%2], next), os.Rename(next, at)); err != nil {
				stopped <- err
				return
			}
		}
	}()
	ran, refused := 0, 0
	for asked := 0; asked < 10 || ran == 0 || refused == 0; asked++ {
		said, ans, _ := b.askFor("good")
		switch {
		case ans.Fault == nil && said.Version == "1.0.0":
			ran++
		case strings.Contains(ans.Why(), "was not executed"):
			refused++
		case ans.Code() == fault.Absent: // before the first link
		default:
			t.Fatalf("got %+v, want the locked program or a refusal", ans)
		}
	}
	close(stop)
	must(t, <-stopped)
}

// TestWrittenMeanwhile writes over the program between its hash and its answer: the answer does not count.
func TestWrittenMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	program := b.write(Programs+"/mine", []byte("#!/bin/sh\nexit 8\n"), 0o755)
	common := b.dir + "/common"
	must(t, errors.Join(os.Mkdir(common, 0o777), os.Chmod(common, 0o777)))
	helper := b.write("/helper", []byte("#!/bin/sh\nread -r request\ntouch "+common+"/started\n"+
		"while [ ! -e "+common+"/go ]; do sleep 0.01; done\necho '{}'\n"), 0o755)
	b = b.with(func(o *HostConfig) { o.Helper = helper })
	written := make(chan error, 1)
	go func() {
		for late := time.Now().Add(longest); ; time.Sleep(5 * time.Millisecond) {
			_, err := os.Stat(common + "/started")
			if err == nil || time.Now().After(late) {
				break
			}
		}
		written <- errors.Join(
			os.WriteFile(program, []byte("#!/bin/sh\nexit 9\n"), 0o755), os.WriteFile(common+"/go", nil, 0o644),
		)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	_, _, err := b.host.run(ctx, job{program: program, memory: MinMemory})
	must(t, <-written)
	if err == nil || !strings.Contains(err.Error(), "was changed while it was started") {
		t.Errorf("got %v; want that the program was changed", err)
	}
}

// TestHelperIsMissing names the two places of prelet-detect, and how it is built.
func TestHelperIsMissing(t *testing.T) {
	t.Parallel()
	b := newBench(t, "good").with(func(o *HostConfig) { o.Helper = "/nonexistent/prelet-detect" })
	_, _, err := b.host.run(t.Context(), job{program: b.dir + Programs + "/good", memory: MinMemory})
	if err == nil || !strings.Contains(err.Error(), "nor next to this program: install the package, or build it with `make build`") {
		t.Errorf("detect: got %v; want where prelet-detect is looked for", err)
	}
	_, err = b.host.Check(t.Context(), nil, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "prelet-detector-check is neither in") {
		t.Errorf("check: got %v; want where prelet-detector-check is looked for", err)
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, want := range map[string]string{"gone": "does not exist", "../x": "invalid detector name"} {
		if _, ans, _ := b.askFor(name); !strings.Contains(ans.Why(), want) {
			t.Errorf("%s: got %+v, want %q", name, ans, want)
		}
	}
	b.link(Programs + "/unlocked")
	if _, ans, _ := b.askFor("unlocked"); ans.Code() != fault.Denied ||
		!strings.Contains(next(ans), "\n    prelet detectors lock "+b.dir+Programs+"/unlocked") {
		t.Errorf("unlocked program: got %+v, want the command that locks it", ans)
	}
	b.install("vanished")
	_ = os.Remove(b.dir + Programs + "/vanished")
	if _, ans, _ := b.askFor("vanished"); ans.Code() != fault.Absent {
		t.Errorf("vanished program: got %+v, want it absent", ans)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lock, _, err := b.host.Describe(b.context(), b.link(Programs+"/good"), tape.Grants{})
	if err != nil || lock.Name != "good" || lock.Path != "" || len(lock.SHA256) != 64 {
		t.Errorf("Describe(good): got %+v, %v, want a lock without path", lock, err)
	}
	lock, _, err = b.host.Describe(b.context(), b.link("opt/vendor/says-no"), tape.Grants{})
	if err != nil || lock.Path != "/opt/vendor/says-no" {
		t.Errorf("Describe(says-no): got %+v, %v, want a lock with path", lock, err)
	}
	for name, want := range map[string]string{"nameless": `invalid detector name "../../etc"`, "wordy": "larger than 64 KiB",
		"no-limit": "it cannot be read: its number -Inf is not finite"} {
		if _, _, err := b.host.Describe(b.context(), b.link(Programs+"/"+name), tape.Grants{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("Describe(%s): got %v, want %q", name, err, want)
		}
	}
}

// TestPool checks that a slot is held once, and that a busy pool is waited for until the deadline.
func TestPool(t *testing.T) {
	needsRoot(t)
	b := newBench(t)
	one, err1 := b.host.take(t.Context(), "good", nil)
	two, err2 := b.host.take(t.Context(), "good", nil)
	must(t, errors.Join(err1, err2))
	defer two.release(true)
	if one.uid == two.uid {
		t.Errorf("got user %d twice, want two users", one.uid)
	}
	synctest.Test(t, func(t *testing.T) {
		const limit = 10 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		began := time.Now()
		s, err := b.host.take(ctx, "good", nil)
		if waited := time.Since(began); err == nil || waited != limit {
			t.Errorf("third slot: got %+v, %v after %s; want none after %s", s, err, waited, limit)
		}
	})
	one.release(false)
	again, err := b.host.take(t.Context(), "good", nil)
	if err != nil || !again.unclean {
		t.Errorf("slot of user %d: got %v, want it unclean", one.uid, err)
	}
}

// TestOthersHang: the time of an honest detector counts from its own start, also after 60 that hang. Without time for a
// start it is not blamed: the message names those that took it. The clock is synctest's, which stands still while a
// process runs; what a process may take of its limit is real time.
func TestOthersHang(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	outside := newBench(t, "hang-call", "good")
	synctest.Test(t, func(t *testing.T) {
		b := outside.with(func(*HostConfig) {}) // a host whose channel is of this clock
		ask := func(ctx context.Context, name string, limit time.Duration) (tape.Answer, time.Duration) {
			began := time.Now()
			_, ans, _ := tape.Detector.Ask(tape.WithLimit(ctx, limit), b.host, tape.DetectorReq{Name: name})
			return ans, time.Since(began)
		}
		const limit = longest
		one, err1 := b.host.take(t.Context(), "hang-call", nil)
		two, err2 := b.host.take(t.Context(), "hang-call", nil)
		must(t, errors.Join(err1, err2))
		time.AfterFunc(limit+time.Second, func() {
			one.release(true)
			two.release(true)
		})

		var all sync.WaitGroup
		for range 60 {
			all.Go(func() { ask(t.Context(), "hang-call", 400*time.Millisecond) })
		}
		all.Go(func() {
			if ans, took := ask(t.Context(), "good", limit); ans.Fault != nil || took <= limit {
				t.Errorf("got %q after %s; want an answer, after more than its %s", ans.Why(), took, limit)
			}
		})
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		ans, _ := ask(short, "good", limit)
		const want = "it was not started, because all users for detectors were busy until the end, with hang-call"
		if !strings.HasSuffix(ans.Why(), want) || !strings.Contains(next(ans), "Lower the timeout of these detectors") {
			t.Errorf("got %q, %q; want %q", ans.Why(), next(ans), want)
		}
		all.Wait()
	})
}

// TestStartedLate: a detector that is ended with its stage, because it had to wait, has that in its message.
func TestStartedLate(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	outside := newBench(t, "hang-call")
	synctest.Test(t, func(t *testing.T) {
		b := outside.with(func(*HostConfig) {})
		one, err1 := b.host.take(t.Context(), "other", nil)
		two, err2 := b.host.take(t.Context(), "other", nil)
		must(t, errors.Join(err1, err2))
		defer two.release(true)
		time.AfterFunc(10*time.Second, func() { one.release(true) })
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		_, ans, _ := tape.Detector.Ask(tape.WithLimit(ctx, longest), b.host, tape.DetectorReq{Name: "hang-call"})
		if want := ". It had only 2s, after 10s in which other detectors had all users"; !strings.Contains(ans.Why(), want) {
			t.Errorf("got %q; want %q", ans.Why(), want)
		}
	})
}

func TestReadLine(t *testing.T) {
	for _, test := range []struct{ in, want string }{{"a\nb", "a"}, {"\n", ""}, {"", "EOF"}, {"abc", "EOF"}, {strings.Repeat("x", 100), "more than"}} {
		got, err := readLine(
			io.MultiReader(strings.NewReader(test.in[:len(test.in)/2]), strings.NewReader(test.in[len(test.in)/2:])),
			50,
		)
		if err != nil && !strings.Contains(err.Error(), test.want) || err == nil && string(got) != test.want {
			t.Errorf("readLine(%q): got %q, %v, want %q", test.in, got, err, test.want)
		}
	}
}

// TestOthersMayWrite checks that root refuses a program that other users can write.
func TestOthersMayWrite(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to run a program of another user")
	}
	b := newBench(t, "good")
	program := b.dir + Programs + "/good" // shares its inode with prelet-detect here, so that must stay executable
	for _, mode := range []os.FileMode{0o757, 0o777} {
		must(t, os.Chmod(program, mode))
		_, ans, _ := b.askFor("good")
		if !strings.Contains(ans.Why(), "was not executed: other users than root can write it") {
			t.Errorf("mode %o: got %q, want a refusal", mode, ans.Why())
		}
	}
}

// TestSurveyOfABadLock checks that an unusable lock is reported, independent of its program.
func TestSurveyOfABadLock(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write(filepath.Join(Fragments, "good.json"), []byte("{}"), 0o646)
	rows := b.host.Survey(t.Context(), nil, nil)
	if len(rows) != 1 || !strings.Contains(rows[0].Why, "other users than root can change it") || rows[0].Locked {
		t.Errorf("got %+v, want one detector without a usable lock", rows)
	}
}

// next is the next step of an answer without a value; "" with one.
func next(a tape.Answer) string {
	if a.Fault == nil {
		return ""
	}

	return a.Fault.Next
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
