package pluginhost

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
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/detector/hostile"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/world"
)

// helperName is what prelet calls its helper.
const helperName = "prelet-detect"

// program is the file that plays prelet-detect and all detectors.
var program string

func TestMain(m *testing.M) {
	if dir := os.Getenv(askVariable); dir != "" {
		askAndWait(dir)
		return
	}
	dir, err := os.MkdirTemp("", "prelet-")
	if err == nil {
		program = filepath.Join(dir, "program")
		err = hostile.Build(context.Background(), program)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// bench is a machine for detectors: a folder that the pool's users can reach, with this program in every role.
type bench struct {
	t    *testing.T
	dir  string
	host *Host
	uid  int // of the pool's first user; the second has the next
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "prelet-") // the paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	uid, claim, err := ownUsers()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, dir: dir, uid: uid}
	t.Cleanup(func() { _ = claim.Close() })
	self, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	b.write("self", self, 0o755)
	b.link(helperName)
	b.write("passwd", fmt.Appendf(nil, "root:x:0:0::/root:/bin/sh\n%[1]s1:x:%[2]d:%[2]d::/:/bin/false\n%[1]s2:x:%[3]d:%[3]d::/:/bin/false\n", UserPrefix, b.uid, b.uid+1), 0o644)
	b.host = New(Options{Root: dir, RunDir: dir + "/run", Helper: dir + "/" + helperName, Passwd: dir + "/passwd",
		Redact: func(s string) string { return strings.ReplaceAll(s, hostile.Secret, "(sensitive)") }})
	return b
}

func (b *bench) write(name string, content []byte, mode os.FileMode) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o600), os.Chmod(path, mode)); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// link is this program under another name.
func (b *bench) link(name string) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Link(filepath.Join(b.dir, "self"), path)); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// install makes a hostile detector and the lock that it would have.
func (b *bench) install(name string) {
	b.t.Helper()
	b.link(filepath.Join(Programs, name))
	f, err := os.Open(filepath.Join(b.dir, "self"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer f.Close()
	describe, err := json.Marshal(hostile.Describe(name))
	if err != nil {
		b.t.Fatal(err)
	}
	text, err := WriteFragment(world.Lock{Name: name, SHA256: hash(f), Describe: describe})
	if err != nil {
		b.t.Fatal(err)
	}
	b.write(filepath.Join(Fragments, name+".json"), text, 0o644)
}

// ask is one question, with a deadline, and how long its answer took.
func (b *bench) ask(r world.DetectorReq, deadline time.Duration) (world.DetectorAns, world.Answer, time.Duration) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), deadline)
	defer cancel()
	began := time.Now()
	said, ans, _ := world.DetectorOf.Ask(ctx, b.host, r)
	return said, ans, time.Since(began)
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

// nothingLeft waits until what was killed has ended, for a busy machine takes its time over that.
func (b *bench) nothingLeft(t *testing.T) {
	t.Helper()
	// Polled: they are children of others, and /proc alone shows them.
	for late := time.Now().Add(10 * time.Second); len(b.left()) > 0; time.Sleep(10 * time.Millisecond) {
		for _, pid := range b.zombies() { // reapUser sees no zombie behind one of another bench
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
		if time.Now().After(late) {
			t.Fatalf("still there: %q", b.left())
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
	b := newBench(t)
	b.install("good")
	said, ans, took := b.ask(world.DetectorReq{Name: "good"}, 10*time.Second)
	if ans.Fault != nil {
		t.Fatalf("%+v", ans)
	}
	t.Logf("%s, %s", took, ans.Value)
	if said.Version != "1.0.0" || said.Attributes["firmware"] != "1.20" || said.Labels[hostile.Domain+"/firmware"] != "1.20" || len(said.Devices) != 1 || len(said.Warnings) != 1 {
		t.Errorf("got %s", ans.Value)
	}
	if said.Evidence["facts.sensors"] != "/sys/class/hwmon" || said.Facts["sensors"] == nil {
		t.Errorf("facts: %s", ans.Value)
	}
	if len(said.Findings) > 0 || os.Geteuid() == 0 && len(said.Sandbox) > 0 {
		t.Errorf("not set up: %q, %q", said.Sandbox, said.Findings)
	}
	b.nothingLeft(t)
	left, _ := filepath.Glob(b.dir + "/run/sockets/*/*")
	if len(left) > 0 {
		t.Errorf("in the folders of sockets: got %q; want nothing", left)
	}
}

// TestHostile is one row for each way to fail: the reason is told, what was printed is shown, the time is kept, nothing is left.
func TestHostile(t *testing.T) {
	tests := []struct {
		name string
		want string // in the answer's text; "" for one that answers all the same
		late bool   // it takes all of its time
	}{
		{name: "crash-before", want: "it ended before it was ready (exit status 3). It said: loading libvendor.so.1 | vendor library not found: libvendor.so.1"},
		{name: "crash-after", want: "it ended while it was asked (exit status 2). It said: panic: nil device table"},
		{name: "crash-call", want: "it ended while it was asked (exit status 134). It said: ioctl failed: no such device | assertion failed: table != NULL"},
		{name: "says-no", want: "the driver is older than 1.20; install a newer one"},
		{name: "secret", want: "It said: cannot log in with (sensitive)"},
		{name: "hang-start", want: "it said nothing until its time was over", late: true},
		{name: "hang-call", want: "it did not answer in its time", late: true},
		{name: "flood-stdout", want: "it did not answer in its time", late: true},
		{name: "flood-stderr"},
		{name: "long-line", want: "its first line on standard output has more than 4096 bytes"},
		{name: "noise", want: `its first line is not a handshake: "Vendor driver 1.2 starting"`},
		{name: "wrong-core", want: `it speaks version "9" of go-plugin's protocol, and prelet 1`},
		{name: "wrong-version", want: `it speaks version "7" of the detector protocol, and prelet 1`},
		{name: "netrpc", want: `it speaks "netrpc", and prelet gRPC`},
		{name: "tcp", want: `it listens on tcp "127.0.0.1:6443", and must listen on a Unix socket`},
		{name: "foreign-socket", want: `it names the socket "/run/dbus/system_bus_socket", which is not in the folder that it was given`},
		{name: "dotted-socket", want: "which is not in the folder that it was given"},
		{name: "dead-socket", want: "its socket does not answer"},
		{name: "other-protocol", want: "what it sends is not HTTP/2 as gRPC has it: http2: failed reading the frame payload: http2: frame too large"},
		{name: "ping-flood", want: "it did not answer in its time", late: true},
		{name: "bad-label", want: "its answer is refused whole: labels[0].key"},
		{name: "foreign-label", want: "other.example.org is not a described domain"},
		{name: "role-label", want: "is not a described domain"},
		{name: "undescribed", want: `"seats" is not described`},
		{name: "wrong-type", want: "its answer is refused whole: sensors: wrong type"},
		{name: "bad-address", want: `"../../1" is no PCI address`},
		{name: "placeholder", want: "U+E000"},
		{name: "terminal", want: "not a text of one line"},
		{name: "huge", want: "its answer is larger than the 1024 KiB that are read"},
		{name: "crowd", want: "its answer cannot be read: it has more than 8192 elements"},
		{name: "nulls", want: "its answer cannot be passed on: a list or object in it has more than 4096 members"},
		{name: "warns", want: "its answer cannot be passed on: a list or object in it has more than 4096 members"},
		{name: "no-number", want: "its answer has a number that is not finite: facts[0].value[0][\"celsius\"] is NaN"},
		{name: "no-speed", want: "its answer has a number that is not finite: devices[0].speed_gbps is +Inf"},
		{name: "flood-stdio"},
		{name: "chatty", want: "it ended while it was asked (exit status 1). It said: the driver is older than 1.20"},
		{name: "huge-stdio"},
		{name: "many", want: "devices: too many"},
		{name: "grandchild"},
		{name: "ignores"},
		{name: "hog", want: "it ended while it was asked (exit status 2). It said: "},
		{name: "kill-host"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.install(test.name)
			deadline := 20 * time.Second // a busy machine is no detector's fault
			if test.late {
				deadline = 2 * time.Second
			}
			r := world.DetectorReq{Name: test.name}
			if test.name == "huge" {
				r.Memory = 1 << 30 // else it ends of that
			}
			_, ans, took := b.ask(r, deadline)
			text := ans.Why() + " " + next(ans)
			t.Logf("%s %s %.300s", took.Round(time.Millisecond), ans.Name(), text)
			// Where prelet-detect had no time to tell, prelet does: after the same deadline, and with less to say.
			killed := test.late && strings.Contains(text, "it did not end in its time, and was killed")
			switch {
			case test.want == "" && ans.Fault != nil:
				t.Errorf("it failed: %s", text)
			case killed:
			case test.want != "" && (ans.Code() != fault.DetectorFailed || !strings.Contains(text, test.want)):
				t.Errorf("want %q, got %s: %s", test.want, ans.Name(), text)
			}
			if strings.Contains(text, hostile.Secret) || len(text) > 3000 || strings.Contains(text, "\n") {
				t.Errorf("what is told is not fit to be shown: %q", text)
			}
			if most := deadline + 5*time.Second; took > most {
				t.Errorf("it took %s, and at most %s was allowed", took, most)
			}
			if test.late && took < deadline*3/4 {
				t.Errorf("it ended after %s, before its time was over", took)
			}
			b.nothingLeft(t)
		})
	}
}

// What is not what was locked is never executed.
func TestWrongChecksum(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.install("good")
	mark := filepath.Join(b.dir, "ran")
	b.write("evil", []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o755)
	if err := os.Rename(b.dir+"/evil", b.dir+Programs+"/good"); err != nil {
		t.Fatal(err)
	}
	_, ans, _ := b.ask(world.DetectorReq{Name: "good"}, 5*time.Second)
	if !strings.Contains(ans.Why(), "is not the program that was locked, and was not executed") {
		t.Errorf("%+v", ans)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("it was executed")
	}
	b.nothingLeft(t)
}

// What was hashed is what runs, whatever lies at its path by then.
func TestSwapped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.install("good")
	b.install("says-no")
	f, err := openProgram(b.dir + Programs + "/good")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Remove(b.dir + Programs + "/good"); err != nil {
		t.Fatal(err)
	}
	b.write(Programs+"/good", []byte("#!/bin/sh\nexit 9\n"), 0o755)
	s, err := b.host.take(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.release(true)
	p, err := b.host.start(s, f)
	if err != nil {
		t.Fatal(err)
	}
	defer p.end()
	req := job{memory: MinMemory}.request
	req.Ask, req.Name, req.Socket, req.Own, req.Memory, req.Millis = "detect", "good", s.dir, s.own, MinMemory, 5000
	reply, err := p.ask(t.Context(), req, time.Now().Add(5*time.Second))
	if err != nil || reply.Failed != "" || reply.Answer == nil {
		t.Errorf("%v %+v", err, reply)
	}
}

// What is hashed is what is executed, also while somebody swaps the program for another all the time: each time it is the locked
// one, or none.
func TestSwappedMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.install("good")
	at := b.dir + Programs + "/good"
	locked, other, next := at+".locked", at+".other", at+".next"
	if err := os.Rename(at, locked); err != nil {
		t.Fatal(err)
	}
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
	for end := time.Now().Add(30 * time.Second); (ran < 5 || refused < 5) && time.Now().Before(end); {
		said, ans, _ := b.ask(world.DetectorReq{Name: "good"}, 10*time.Second)
		switch {
		case ans.Fault == nil && said.Version == "1.0.0":
			ran++
		case strings.Contains(ans.Why(), "was not executed"):
			refused++
		case ans.Code() == fault.Absent: // before the first link
		default:
			t.Fatalf("neither the locked program nor a refusal: %+v", ans)
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if ran == 0 || refused == 0 {
		t.Errorf("%d times the locked program and %d times a refusal: nothing was swapped", ran, refused)
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, want := range map[string]string{"gone": "There is no program", "../x": "no name of a detector"} {
		if _, ans, _ := b.ask(world.DetectorReq{Name: name}, time.Second); !strings.Contains(ans.Why(), want) {
			t.Errorf("%s: %+v", name, ans)
		}
	}
	b.link(Programs + "/unlocked")
	if _, ans, _ := b.ask(world.DetectorReq{Name: "unlocked"}, time.Second); ans.Code() != fault.Denied || !strings.Contains(next(ans), "\n    prelet detectors lock "+b.dir+Programs+"/unlocked") {
		t.Errorf("%+v", ans)
	}
	b.install("vanished")
	_ = os.Remove(b.dir + Programs + "/vanished")
	if _, ans, _ := b.ask(world.DetectorReq{Name: "vanished"}, time.Second); ans.Code() != fault.Absent {
		t.Errorf("%+v", ans)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lock, _, err := b.host.Describe(t.Context(), b.link(Programs+"/good"), world.Grants{})
	if err != nil || lock.Name != "good" || lock.Path != "" || len(lock.SHA256) != 64 {
		t.Errorf("%v %+v", err, lock)
	}
	lock, _, err = b.host.Describe(t.Context(), b.link("opt/vendor/says-no"), world.Grants{})
	if err != nil || lock.Path != "/opt/vendor/says-no" {
		t.Errorf("%v %+v", err, lock)
	}
	for name, want := range map[string]string{"nameless": "no name of a detector", "wordy": "larger than the 64 KiB",
		"no-limit": "its description has a number that is not finite: config[0].maximum is -Inf"} {
		if _, _, err := b.host.Describe(t.Context(), b.link(Programs+"/"+name), world.Grants{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A slot is held by one at a time; who finds none waits, and no longer than his time.
func TestPool(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has the users of the pool")
	}
	b := newBench(t)
	one, err1 := b.host.take(t.Context(), nil)
	two, err2 := b.host.take(t.Context(), nil)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if one.uid == two.uid {
		t.Errorf("both have user %d", one.uid)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if s, err := b.host.take(ctx, nil); err == nil {
		t.Errorf("a third one has user %d", s.uid)
	}
	one.release(false)
	again, err := b.host.take(t.Context(), nil)
	if err != nil || !again.unclean {
		t.Errorf("%v: nobody knows that user %d may still run something", err, one.uid)
	}
}

func TestReadLine(t *testing.T) {
	for _, test := range []struct{ in, want string }{{"a\nb", "a"}, {"\n", ""}, {"", "EOF"}, {"abc", "EOF"}, {strings.Repeat("x", 100), "more than"}} {
		got, err := readLine(io.MultiReader(strings.NewReader(test.in[:len(test.in)/2]), strings.NewReader(test.in[len(test.in)/2:])), 50)
		if err != nil && !strings.Contains(err.Error(), test.want) || err == nil && string(got) != test.want {
			t.Errorf("%q: %q, %v", test.in, got, err)
		}
	}
}

// As root, a program that others may write is not what was hashed for long.
func TestOthersMayWrite(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root runs programs of others")
	}
	b := newBench(t)
	b.install("good")
	program := b.dir + Programs + "/good" // shares its inode with prelet-detect here, so that must stay executable
	for _, mode := range []os.FileMode{0o757, 0o777} {
		if err := os.Chmod(program, mode); err != nil {
			t.Fatal(err)
		}
		_, ans, _ := b.ask(world.DetectorReq{Name: "good"}, 5*time.Second)
		if !strings.Contains(ans.Why(), "was not executed: others than root may write it") {
			t.Errorf("mode %o: %q", mode, ans.Why())
		}
	}
}

// A lock that cannot be used is told as that, wherever the program is that it names.
func TestSurveyOfABadLock(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write(filepath.Join(Fragments, "good.json"), []byte("{}"), 0o646)
	rows := b.host.Survey(t.Context(), nil, nil)
	if len(rows) != 1 || !strings.Contains(rows[0].Why, "others than root may change it") || rows[0].Locked {
		t.Errorf("%+v", rows)
	}
}

// next is the next step of an answer without a value; "" with one.
func next(a world.Answer) string {
	if a.Fault == nil {
		return ""
	}

	return a.Fault.Next
}
