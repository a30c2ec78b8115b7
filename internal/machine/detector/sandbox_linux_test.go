package detector

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/detector/wire"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/plugins/sandbox"
)

// field has files, folders, devices, sockets and processes of a machine that are not granted to a detector.
func (b *bench) field() map[string]any {
	b.t.Helper()
	b.write("open/secret", []byte("x"), 0o644)
	must(b.t, os.Chmod(filepath.Join(b.dir, "open"), 0o777))
	path := filepath.Join(b.dir, "open", "socket")
	for _, address := range []string{path, "@" + path} {
		l, err := net.Listen("unix", address)
		must(b.t, err)
		b.t.Cleanup(func() { _ = l.Close() })
	}
	log := path + ".datagrams"
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: log, Net: "unixgram"})
	must(b.t, err)
	b.t.Cleanup(func() { _ = c.Close() })
	must(b.t, errors.Join(os.Chmod(path, 0o777), os.Chmod(log, 0o777)))
	return map[string]any{
		"read_file": filepath.Join(
			b.dir,
			"open/secret",
		),
		"list_folder":      filepath.Join(b.dir, "open"),
		"read_passwd":      "/etc/passwd",
		"make_folder":      filepath.Join(b.dir, "open/made"),
		"run_program":      "/usr/bin/id",
		"device_zero":      "/dev/zero",
		"connect_path":     path,
		"send_path":        log,
		"connect_abstract": "@" + path,
		"signal_neighbour": strconv.Itoa(b.neighbour()),
		"read_cpuinfo":     "/proc/cpuinfo",
		"list_sys":         "/sys/devices",
	}
}

// neighbour is another program of the user that the detector will have.
func (b *bench) neighbour() int {
	b.t.Helper()
	c := exec.Command(b.dir + "/self")
	c.Args[0] = "sleeper"
	if os.Geteuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(b.uid), Gid: uint32(b.uid)}}
	}
	must(b.t, c.Start())
	b.t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c.Process.Pid
}

// tries asks the detector that tries everything.
func (b *bench) tries(config map[string]any, allow tape.Grants) map[string]string {
	b.t.Helper()
	_ = os.Remove(filepath.Join(b.dir, "open/made"))
	said, ans, _ := b.ask(tape.DetectorReq{Name: "tries", Config: config, Allow: allow}, longest)
	if ans.Fault != nil {
		b.t.Fatalf("got %s: %s, want an answer", ans.Name(), ans.Why())
	}
	return said.Attributes
}

// TestSandbox runs a detector that tries each forbidden action of the sandbox. It must fail, and with that one line of
// the sandbox left out it must succeed: otherwise the test proves nothing. Of Landlock it tests what this kernel has;
// TestLandlockVersions lists the additions of each version.
func TestSandbox(t *testing.T) {
	abi, err := sandbox.LandlockABI()
	if os.Geteuid() != 0 && (err != nil || abi < sandbox.ABIScopes) {
		b := newBench(t)
		b.install("good")
		if _, ans, _ := b.askFor("good"); ans.Code() != fault.Denied ||
			!strings.Contains(ans.Why(), unsandboxed) {
			t.Errorf("without Landlock and root: got %+v, want a refusal", ans)
		}
		return
	}
	b := newBench(t, "tries")
	config := b.field()
	leak, err := unix.FcntlInt(0, unix.F_DUPFD, 251) // as who starts prelet may have left one open
	if err == nil {
		defer unix.Close(leak)
	}
	confined := b.tries(config, tape.Grants{})
	for _, key := range slices.Sorted(maps.Keys(confined)) {
		t.Logf("%-26s %s", key, confined[key])
	}

	t.Run("stays", func(t *testing.T) { // what every detector may do
		for _, key := range []string{"cpuinfo", "null", "read_cpuinfo", "list_sys", "socket_unix_stream"} {
			if confined[key] != "ok" {
				t.Errorf("%s: got %s, want ok", key, confined[key])
			}
		}
	})
	t.Run("reported", func(t *testing.T) {
		want := map[string]string{
			"status_CapEff":     "0000000000000000",
			"status_CapPrm":     "0000000000000000",
			"status_CapAmb":     "0000000000000000",
			"status_NoNewPrivs": "1",
			"status_Seccomp":    "2",
			"oom_score":         "1000",
		}
		if os.Geteuid() == 0 {
			ids := strings.TrimSpace(strings.Repeat(fmt.Sprintf("%d ", b.uid), 4))
			want["status_Uid"], want["status_Gid"], want["status_Groups"] = ids, ids, ""
		}
		for key, v := range want {
			if confined[key] != v {
				t.Errorf("%s: %q, want %q", key, confined[key], v)
			}
		}
		if fds := confined["descriptors"]; !strings.Contains(fds, "3=tries") || strings.Contains(fds, "251=") {
			t.Errorf("got open files %s, want only its own", fds)
		}
		for v := range strings.FieldsSeq(confined["environment"]) {
			name, _, _ := strings.Cut(v, "=")
			if !slices.Contains(
				strings.Fields(`
					PATH LC_ALL GOMAXPROCS TMPDIR PLUGIN_UNIX_SOCKET_DIR PRELET_DETECTOR
					PLUGIN_PROTOCOL_VERSIONS
				`),
				name,
			) {
				t.Errorf("got %s in the environment, want only the variables of the protocol", v)
			}
		}
	})
	always := strings.Fields(`
		ptrace_host memory_of_host environment_of_host setuid raise_memory mount bpf perf core_file shadow_stack
	`)
	for _, key := range always {
		if confined[key] == "ok" {
			t.Errorf("%s: got ok, want a refusal", key)
		}
	}
	limits := []string{"write_next_to_the_socket"}
	if os.Geteuid() == 0 { // only root mounts a tmpfs of limited size, and gives a detector a user whose timers are counted
		limits = append(limits, "allocate_a_file", "timers")
	}
	for _, line := range []struct {
		name    string
		forbids []string
		allow   tape.Grants // without which another line forbids the same
		abi     int         // of Landlock, from which on it is there
	}{
		{name: "landlock", abi: 1, forbids: strings.Fields(`
			read_file read_passwd list_folder make_folder run_program device_zero fifo folder_next_to_the_socket
		`)},
		{name: "scopes", abi: sandbox.ABIScopes, forbids: []string{"connect_abstract", "signal_neighbour", "signal_host", "signal_its_threads"}, allow: tape.Grants{Sockets: []string{"/run/example.sock"}}},
		{name: "connect", forbids: []string{"connect_path"}},
		{name: "seccomp", forbids: strings.Fields(`
			setsid memfd shared_memory system_v_memory keyring socket_tcp socket_tcp6 socket_udp socket_netlink
			socket_unix_datagram socket_unix_packets send_path xattr xattr_of_a_link xattr_of_a_descriptor
			growing_memory moved_stack send_buffer receive_buffer huge_pages shmat shmctl semop semtimedop
			semctl msgsnd msgrcv msgctl mq_unlink mq_getsetattr io_setup fsync fdatasync drop_cached_pages flock
			record_lock bind_abstract limit_host
		`)},
		{name: "limits", forbids: limits},
	} {
		t.Run(line.name, func(t *testing.T) {
			if abi < line.abi {
				t.Skipf("needs a newer kernel: Landlock has version %d", abi)
			}
			b := *b
			b.t = t
			with := b.tries(config, line.allow)
			without := b.without(line.name).tries(config, line.allow)
			for _, key := range line.forbids {
				if with[key] == "ok" || with[key] == "" {
					t.Errorf("%s: got %q, want a failure", key, with[key])
				}
				if without[key] == syscall.EOPNOTSUPP.Error() && strings.HasPrefix(key, "xattr") {
					continue // a tmpfs has them from Linux 6.6 on
				}
				if without[key] != "ok" {
					t.Errorf("%s without this line: got %q, want ok", key, without[key])
				}
			}
		})
	}
	t.Run("granted", func(t *testing.T) {
		b := *b
		b.t = t
		for key, allow := range map[string]tape.Grants{
			"read_file": {Read: []string{b.dir + "/open"}}, "read_passwd": {Read: []string{"/etc/pass*"}}, "run_program": {Execute: []string{"/usr/bin/id"}},
			"device_zero": {Devices: []string{"/dev/ze*"}}, "connect_path": {Sockets: []string{b.dir + "/open/socket"}},
		} {
			inner := b.with(func(o *HostConfig) { o.Root, o.SiteLocks = "", []string{b.dir + "/site.json"} })
			inner.siteLock("tries")
			got := inner.tries(config, allow)
			if got[key] != "ok" {
				t.Errorf("%s is granted: got %s, want ok", key, got[key])
			}
			if key == "device_zero" && got[key+"_ioctl"] == syscall.EACCES.Error() {
				t.Errorf("ioctl on a granted device: got %s, want it to reach the driver", got[key+"_ioctl"])
			}
			for other, v := range got {
				if other != key && strings.HasPrefix(other, "read_pass") && v == "ok" {
					t.Errorf("%s is not granted: got ok, want a refusal", other)
				}
			}
		}
	})
}

// TestTimersOfOthers: a process of the user that has all of the timers that its detectors may have, as one that is still
// ending after it was killed, does not stop prelet-detect.
func TestTimersOfOthers(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	b := newBench(t, "good")
	c := exec.Command(b.dir + "/self")
	c.Args[0] = "timers"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(b.uid), Gid: uint32(b.uid)}}
	out, err := c.StdoutPipe()
	must(t, errors.Join(err, c.Start()))
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	if made, err := readLine(out, 100); err != nil || string(made) != "4096 <nil>" {
		t.Fatalf("timers of another process: got %q, %v; want 4096", made, err)
	}

	if said, ans, _ := b.askFor("good"); ans.Fault != nil || len(said.Findings) > 0 {
		t.Errorf("got %s, findings %q; want an answer", ans.Why(), said.Findings)
	}
}

// siteLock locks an installed detector by its path.
func (b *bench) siteLock(name string) {
	b.t.Helper()
	f, err := readLockFile(filepath.Join(b.dir, Fragments, name+".json"))
	must(b.t, err)
	f.Path = filepath.Join(b.dir, Programs, name)
	text, err := encodeLock(siteLock{lockFormat, []tape.LockEntry{f.LockEntry}})
	must(b.t, err)
	b.write("site.json", text, 0o644)
}

// Limits are kept by the kernel while the detector tries to pass them.
func TestLimits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, name := range []string{"fork-bomb", "shared-hog", "setsid"} {
		b.install(name)
	}
	said, ans, _ := b.ask(tape.DetectorReq{Name: "fork-bomb"}, longest)
	// It is stopped at some number, or its host ended because it could start no thread any more.
	n, _ := strconv.Atoi(said.Attributes["children"])
	if t.Logf("%d children: %s %s", n, said.Attributes["last"], ans.Why()); os.Geteuid() == 0 && ans.Fault == nil &&
		(n < 1 || n > 64 || said.Attributes["last"] == "ok") {
		t.Errorf("got %d children (%s), want the limit of processes", n, said.Attributes["last"])
	}
	said, ans, _ = b.ask(tape.DetectorReq{Name: "shared-hog"}, longest)
	if said.Attributes["mebibytes"] != "0" {
		t.Errorf("shared memory: got %s %s, want a refusal", said.Attributes, ans.Why())
	}
	said, ans, _ = b.askFor("setsid")
	if v := said.Attributes["start"]; v == "ok" || v == "" {
		t.Errorf("setsid: got %q %s, want a refusal", v, ans.Why())
	}
	b.nothingLeft(t)
}

// TestMemoryOfAll: what the limit of each process does not count is bounded for all processes together. One process that
// makes its memory read-only, and several with large page tables, are ended with the measured value and the limit.
func TestMemoryOfAll(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, name := range []string{"frozen-hog", "page-tables"} {
		b.install(name)
		said, ans, took := b.askFor(name)
		t.Logf("%s: %s, %s", name, took.Round(time.Millisecond), ans.Why())
		const want = "MiB with their page tables; together they may hold 256 MiB"
		if ans.Code() != fault.DetectorFailed || !strings.Contains(ans.Why(), want) {
			t.Errorf("%s: got %v, failure %q; want it to contain %q", name, said.Attributes, ans.Why(), want)
		}
		b.nothingLeft(t)
	}
	left, _ := filepath.Glob(b.dir + "/run/*.lock")
	for _, lock := range left {
		if st, err := os.Stat(lock); err != nil || st.Size() > 0 {
			t.Errorf("got slot %s of %d bytes, %v; want it clean", lock, st.Size(), err)
		}
	}
}

// Without the filter a child can leave the group. Then the pool's user is swept.
func TestSweep(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	b := newBench(t, "setsid")
	b = b.without("seccomp")
	said, _, _ := b.askFor("setsid")
	if said.Attributes["start"] != "ok" {
		t.Fatalf("without seccomp: got %v, want a process outside of the group", said.Attributes)
	}
	b.nothingLeft(t)
}

// TestContained checks what decides whether a detector's user is swept: a field of the reply, not the texts of its
// findings. A reply that is missing or from a program that does not set the field means that the user is swept.
func TestContained(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	for without, want := range map[string]bool{"": true, "landlock": true, "limits": true, "seccomp": false} {
		b := newBench(t)
		b.install("good")
		if without != "" {
			b = b.without(without)
		}
		j := job{program: filepath.Join(b.dir, Programs, "good"), memory: MinMemory}
		j.request.Ask, j.request.Name = wire.Describe, "good"
		reply, _, err := b.host.run(b.context(), j)
		if err != nil || reply.Report.Contained != want {
			t.Errorf("without %q: got contained %t, error %v; want %t and no error",
				without, reply.Report.Contained, err, want)
		}
	}
}

// TestSweepWithoutFindings has a helper that leaves a process outside of its group, and says neither that it is contained
// nor what is missing: the field decides, so the user is swept.
func TestSweepWithoutFindings(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	b := newBench(t, "good")
	o := b.host.o
	sleep := osfile.Read(t, "/bin/sleep")
	stays := filepath.Join(b.dir, "stays") // nothingLeft looks for programs of this folder
	osfile.Write(t, stays, sleep, 0o755)
	script := "#!/bin/sh\n" +
		"test \"$1\" = sweep && exec " + o.Helper + " sweep \"$2\"\n" +
		"read -r request\n" +
		"setsid " + stays + " 1000 >/dev/null 2>&1 </dev/null &\n" +
		"until read -r pid name state parent group rest </proc/$!/stat && [ $group = $! ]; do :; done\n" + // it has left
		"echo '{\"failed\":\"call\",\"text\":\"no\"}'\n"
	o.Helper = filepath.Join(b.dir, "leaves-one")
	osfile.Write(t, o.Helper, script, 0o755)
	b.host = New(o)
	if _, ans, _ := b.askFor("good"); !strings.Contains(ans.Why(), "no") {
		t.Fatalf("got failure %q, want that of the helper", ans.Why())
	}
	b.nothingLeft(t)
}

// TestReapUser: a child of the given user that has ended is waited for, also behind one of another user, which stays.
func TestReapUser(t *testing.T) {
	needsRoot(t)
	own, other := newBench(t), newBench(t)
	// end starts a program under the bench's user and returns once it has ended.
	end := func(b *bench) {
		c := exec.CommandContext(t.Context(), "true")
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(b.uid), Gid: uint32(b.uid)}}
		must(t, c.Start())
		if err := unix.Waitid(
			unix.P_PID,
			c.Process.Pid,
			nil,
			unix.WEXITED|unix.WNOWAIT,
			nil,
		); err != nil { // it stays a zombie
			t.Fatal(err)
		}
		if got := b.zombies(); len(got) != 1 {
			t.Fatalf("after a child has ended: got zombies %v; want one", got)
		}
	}

	end(other)
	end(own)
	reapUser(own.uid)
	if got := own.zombies(); len(got) != 0 {
		t.Errorf("after reaping its user: got zombies %v; want none", got)
	}
	if got := other.zombies(); len(got) != 1 {
		t.Errorf("after reaping another user: got zombies %v; want one", got)
	}

	own.nothingLeft(t)
	other.nothingLeft(t)
}

// TestMissingLines checks that parts of the sandbox that failed are in the answer.
func TestSandboxIsTold(t *testing.T) {
	t.Parallel()
	b := newBench(t, "good")
	for line, want := range map[string]string{"seccomp": "seccomp: left out", "landlock": "Landlock: left out"} {
		if said, ans, _ := b.without(line).askFor("good"); !slices.Contains(said.Findings, want) {
			t.Errorf("without %s: got findings %q %s, want it reported", line, said.Findings, ans.Why())
		}
	}
}

// TestSlowEnd: processes that the kernel needs a while to end, here because of their many mappings, have ended when the
// answer comes.
func TestSlowEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t, "mappings")
	said, ans, took := b.askFor("mappings")
	left := b.left()
	n, _ := strconv.Atoi(said.Attributes["children"])
	t.Logf("%s: %d children, %s", took.Round(time.Millisecond), n, ans.Why())
	if n < 40 || len(said.Findings) > 0 || len(left) > 0 {
		t.Errorf("got %d children, findings %q, processes %q; want at least 40, no finding, and no process", n, said.Findings, left)
	}
}
