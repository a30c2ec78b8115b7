package boot

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A kubelet that is masked is refused before COMMIT: nothing is written, and nothing is started.
func TestMasked(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Do("systemctl", "mask", "--now", "kubelet")
	m.edit(pool, `"example.com/pool" = "b"`)
	before := m.disk()
	if r := m.Try("prelet", "run"); r.Exit != 52 || !strings.Contains(r.Errors, "masked") {
		t.Errorf("prelet run: got %+v; want exit 52 and text with \"masked\"", r)
	}
	if d := differs(before, m.disk()); len(d) > 0 {
		t.Errorf("written: got %q; want none", d)
	}
	m.Off()
	m.Boot()
	if s := m.status(); s.Exit != 52 || s.Generation != 1 {
		t.Errorf("status after a reboot: got %+v; want Exit 52 and Generation 1", s)
	}
	m.Do("systemctl", "unmask", "kubelet")
	m.Do("systemctl", "start", "--no-block", "kubelet")
	m.Within(60*time.Second, "the next try applies the site", func() string {
		if s := m.status(); s.Generation != 2 || s.Verdict != "good" {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	m.well(2)
}

// What makes systemd refuse to start or stop the kubelet by hand, or tie it to prelet's own units, is refused before
// COMMIT, with the line that helps.
func TestRefusedByHand(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.edit(pool, `"example.com/pool" = "b"`)
	const dropIn = "/etc/systemd/system/kubelet.service.d/90-odd.conf"
	for _, c := range [][2]string{
		{"RefuseManualStop=yes", "paste RefuseManualStop=no"},
		{"RefuseManualStart=yes", "paste RefuseManualStart=no"},
		{"Requires=prelet.service", "kubelet.service requires prelet.service"},
		{"BindsTo=prelet.service", "kubelet.service requires prelet.service"},
		{"Conflicts=prelet-apply.service", "prelet-apply.service conflict"}, // whose start stops the kubelet
	} {
		line, want := c[0], c[1]
		m.put(dropIn, "[Unit]\n"+line+"\n")
		m.Do("systemctl", "daemon-reload")
		before := m.disk()
		r := m.Try("prelet", "run")
		if said := strings.Join(strings.Fields(r.Errors), " "); r.Exit != 52 || !strings.Contains(said, want) {
			t.Errorf("%s: got %+v, want 52 and %q", line, r, want)
		}
		if d := differs(before, m.disk()); len(d) > 0 {
			t.Errorf("%s: written: got %q; want none", line, d)
		}
		m.Do("systemctl", "stop", "prelet-apply.service") // which tries again
	}
	if err := os.Remove(m.Root + dropIn); err != nil {
		t.Fatal(err)
	}
	m.Do("systemctl", "daemon-reload")
	m.Do("systemctl", "start", "kubelet")
	m.Do("prelet", "run")
	m.well(2)

	// A plan reads all environment files of the unit, as for an image.
	m.put(dropIn, "[Service]\nEnvironmentFile=/etc/more.env\nExecStart=\nExecStart=/usr/bin/kubelet $MORE\n")
	m.put("/etc/more.env", "MORE=--no-such-flag\n")
	if r := m.Try("prelet", "plan"); r.Exit != 10 || !strings.Contains(r.Errors, "--no-such-flag") {
		t.Errorf("plan with another environment file: got %+v; want 10 and --no-such-flag", r)
	}
}

// A drop-in of the site that does so is refused with the site, by hand and at a boot, and the kubelet runs on.
func TestSiteRefusesByHand(t *testing.T) {
	t.Parallel()
	m := joined(t)
	const dropIn = "/etc/systemd/system/kubelet.service.d/99-site.conf"
	write := func(text string) {
		m.put("/etc/prelet/site.hcl", m.site)
		m.edit(`stage "write" "kubelet" {}`, `stage "write" "kubelet" {
  file "drop-in" {
    path    = "`+dropIn+`"
    content = "`+text+`\n"
  }
}`)
	}
	pid := m.property("kubelet", "MainPID")
	for _, text := range []string{
		`[Unit]\nRefuseManualStop=yes`, `[Unit]\nRefuseManualStart=yes`, `[Unit]\nConflicts=prelet-apply.service`, `[Service]\nEnvironmentFile=`,
	} {
		write(text)
		r := m.Try("prelet", "run")
		if said := strings.Join(strings.Fields(r.Errors), " "); r.Exit != 10 || !strings.Contains(said, dropIn) {
			t.Errorf("%s: got %+v, want 10 and the file", text, r)
		}
		if _, err := os.Lstat(m.Root + dropIn); err == nil {
			t.Errorf("got %s: the file is there; want an error", text)
		}
		if now := m.property("kubelet", "MainPID"); now != pid {
			t.Errorf("%s: the kubelet has pid %s, had %s; want %s", text, now, pid, pid)
		}
		m.Do("systemctl", "stop", "prelet-apply.service") // which tries again
	}

	m.Off()
	m.Boot()
	if s := m.status(); s.Generation != 1 {
		t.Errorf("status after a boot with the last of them: got %+v, want generation 1", s)
	}
	if _, err := os.Lstat(m.Root + dropIn); err == nil {
		t.Error("the file is there after a boot")
	}
	if now := m.property("kubelet", "ActiveState"); now != "active" {
		t.Errorf("the kubelet is %s after a boot, want active", now)
	}

	write(`[Service]\nNice=-1`)
	m.Do("prelet", "run")
	m.well(2)
}

// A change whose drop-in keeps the kubelet from starting is undone, and so is a limit on starts that it has run into.
func TestSkippedAndLimited(t *testing.T) {
	t.Parallel()
	m := joined(t)
	for n, line := range []string{"ConditionPathExists=/no/such/path", "AssertPathExists=/no/such/path"} {
		m.edit(`stage "write" "kubelet" {}`, fmt.Sprintf(`stage "write" "kubelet" {
  file "drop-in" {
    path    = "/etc/systemd/system/kubelet.service.d/20-site.conf"
    content = "[Unit]\n%s\n"
  }
}`, line))
		r := m.Try("prelet", "run")
		if said := strings.Join(strings.Fields(r.Errors), " "); r.Exit != 50 ||
			!strings.Contains(said, "a Condition= or Assert= of its unit does not hold") {
			t.Errorf("%s: got %+v, want 50 and the reason", line, r)
		}
		m.heldOn(3+2*n, "prelet-apply.service")
	}

	m.put(
		"/etc/systemd/system/kubelet.service.d/90-odd.conf",
		"[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=2\n[Service]\nRestartSec=100ms\n",
	)
	m.Do("systemctl", "daemon-reload")
	m.Do("rm", "/run/prelet/kubelet.env")
	m.Do("rm", "-r", "/run/prelet") // as a gate that is shut for long
	m.Try("systemctl", "restart", "kubelet")
	m.Within(20*time.Second, "the kubelet has failed too often", func() string {
		return trouble("start-limit-hit resources", m.property("kubelet", "Result"))
	})
	m.put("/etc/prelet/site.hcl", m.site)
	m.edit(pool, `"example.com/pool" = "b"`)
	if r := m.Try("prelet", "run"); r.Exit != 0 {
		t.Errorf("after too many starts: got %+v, want 0", r)
	}
	m.Within(
		30*time.Second,
		"it runs",
		func() string { return trouble("active", m.property("kubelet", "ActiveState")) },
	)
}

// Two by hand at once: one changes the node, the other finds nothing left to do.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.edit(pool, `"example.com/pool" = "b"`)
	var both [2]ran
	var wait sync.WaitGroup
	for i := range both {
		wait.Go(func() { both[i] = m.Try("prelet", "run") })
	}
	wait.Wait()
	for i, r := range both {
		if r.Exit != 0 {
			t.Errorf("number %d: got %+v; want exit 0", i, r)
		}
	}
	m.well(2)
	if n := len(m.starts()); n != 2 {
		t.Errorf("got %d starts; want 2", n)
	}
}

// `systemctl restart prelet` at run time: the kubelet is started once on the new generation, and nothing waits for
// itself.
func TestRestartPrelet(t *testing.T) {
	m := joined(t)
	began := time.Now()
	m.Do("systemctl", "restart", "prelet")
	m.well(1)
	if n := len(m.starts()); n != 1 {
		t.Errorf("with nothing to change: got %d starts; want 1", n)
	}
	m.edit(pool, `"example.com/pool" = "b"`)
	m.Do("systemctl", "restart", "prelet")
	m.verdict("good")
	m.well(2)
	if starts := m.starts(); len(starts) != 2 || starts[1].Labels["example.com/pool"] != "b" {
		t.Errorf("starts: got %+v; want 2 starts and starts[1].Labels[example.com/pool] \"b\"", starts)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s; want at most 20s", took)
	}
	pid := m.property("kubelet", "MainPID")
	m.Do("systemctl", "stop", "prelet")
	if m.property("kubelet", "MainPID") != pid {
		t.Error("stopping prelet took the kubelet with it")
	}
}

// A gate that somebody removed is put back at the next crash of the kubelet.
func TestGateLost(t *testing.T) {
	t.Parallel()
	m := joined(t)
	run := m.property("prelet", "InvocationID")
	m.Do("rm", "/run/prelet/kubelet.env")
	m.Do("sh", "-c", "mkdir -p /run/standin; echo 7 >/run/standin/exit")
	m.Within(40*time.Second, "the kubelet is back", func() string {
		if n := len(m.starts()); n != 2 {
			return fmt.Sprintf("%d starts", n)
		}
		return ""
	})
	m.well(1)
	if m.property("prelet", "InvocationID") != run {
		t.Error("a crash of the kubelet ran the whole site again")
	}
}

// A prelet.service that somebody disabled is started by the kubelet's drop-in: else the gate would stay shut for ever.
func TestDisabled(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Do("systemctl", "disable", "prelet")
	m.Off()
	m.Boot()
	m.well(1)
	if n := len(m.starts()); n != 2 {
		t.Errorf("got %d starts; want 2", n)
	}
}

// No site and never a generation: prelet is not in use, and the kubelet starts as it is.
func TestNotInUse(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if err := os.Remove(m.Root + "/etc/prelet/site.hcl"); err != nil {
		t.Fatal(err)
	}
	m.put("/etc/kubernetes/kubelet.conf", m.read("/etc/standin/kubelet.conf"))
	m.put("/var/lib/kubelet/config.yaml", kubeletConfig)
	m.Boot()
	m.running()
	if s := m.status(); s.Code != 0 || !s.Gate.Open || s.Generation != 0 {
		t.Errorf("status: got %+v; want Code 0, Gate.Open and Generation 0", s)
	}
	if n := len(m.starts()); n != 1 {
		t.Errorf("got %d starts; want 1", n)
	}
	if m.Exists("/var/lib/prelet/generations/1") {
		t.Error("a generation was made")
	}
}

// What systemd itself thinks of the units.
func TestUnits(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.Boot()
	units := []string{"prelet.service", "prelet-apply.service", "prelet-verify.service", "prelet-boot-check.service"}
	m.put("/etc/systemd/system/wrong.service", "[Service]\nExecStart=/bin/true\nNoSuchKey=1\n")
	verified := m.Try(
		append(
			[]string{"systemd-analyze", "verify", "--man=no", "wrong.service", "kubelet.service"},
			units...)...).Errors
	if !strings.Contains(verified, "Unknown key 'NoSuchKey'") {
		t.Fatalf("systemd-analyze verify sees nothing: got %s; want text with \"Unknown key 'NoSuchKey'\"", verified)
	}
	for line := range strings.Lines(verified) {
		// The one that 252 does not know yet, and says so.
		if !strings.Contains(line, "prelet") && !strings.Contains(line, "kubelet") ||
			strings.Contains(line, "Unknown key 'ImportCredential'") {
			continue
		}
		t.Errorf("systemd-analyze verify: %s", line)
	}
	exposure := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)
	for _, unit := range units {
		out := m.Try("systemd-analyze", "security", "--no-pager", unit).Out
		level := exposure.FindStringSubmatch(out)
		if level == nil {
			t.Errorf("%s: got %s; want level other than nil", unit, out)
			continue
		}
		if n, err := strconv.ParseFloat(level[1], 64); err != nil || n > 2.6 {
			t.Errorf("%s: exposure %s, want at most 2.6\n%s", unit, level[1], out)
		}
		t.Logf("%s: %s", unit, level[1])
	}
}

// A site that writes a drop-in of the kubelet's unit: systemd has read it before the kubelet starts, at boot and at run
// time, and once is enough.
func TestDropIn(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	write := func(value string) {
		m.edit(`stage "write" "kubelet" {}`, `stage "write" "kubelet" {
  file "drop-in" {
    path    = "/etc/systemd/system/kubelet.service.d/20-site.conf"
    content = "[Service]\nEnvironment=KUBELET_KUBEADM_ARGS=--v=`+value+`\n"
  }
}`)
	}
	write("3")
	m.Boot()
	m.verdict("good")
	m.well(1)
	flags := func() string {
		return m.Do("sh", "-c", "tr '\\0' ' ' </proc/$(systemctl show kubelet --value -p MainPID)/cmdline")
	}
	if f := flags(); !strings.Contains(f, "--v=3") || len(m.starts()) != 1 {
		t.Errorf("first boot: got %s, %d starts; want text with \"--v=3\" and 1 start", f, len(m.starts()))
	}
	write("4")
	m.Do("prelet", "run")
	m.well(2)
	if f := flags(); !strings.Contains(f, "--v=4") || len(m.starts()) != 2 {
		t.Errorf("at run time: got %s, %d starts; want text with \"--v=4\" and 2 starts", f, len(m.starts()))
	}
	write("5")
	m.Do("systemctl", "restart", "prelet")
	m.verdict("good")
	m.well(3)
	if f := flags(); !strings.Contains(f, "--v=5") || len(m.starts()) != 3 {
		t.Errorf("systemctl restart prelet: got %s, %d starts; want text with \"--v=5\" and 3 starts",
			f, len(m.starts()))
	}
}

// A later drop-in that clears the gate's EnvironmentFile= is refused before COMMIT, with what to do.
func TestGateCleared(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.put("/etc/systemd/system/kubelet.service.d/50-mine.conf", "[Service]\nEnvironmentFile=\n")
	m.Do("systemctl", "daemon-reload")
	m.edit(pool, `"example.com/pool" = "b"`)
	before := m.disk()
	if r := m.Try("prelet", "run"); r.Exit != 52 ||
		!strings.Contains(r.Errors, "EnvironmentFile=/run/prelet/kubelet.env") {
		t.Errorf("prelet run: got %+v; want exit 52 and text with \"EnvironmentFile=/run/prelet/kubelet.env\"", r)
	}
	if d := differs(before, m.disk()); len(d) > 0 {
		t.Errorf("written: got %q; want none", d)
	}
}

// A kubelet that is not enabled is not started by prelet. When it is started by hand, it gets the generation and the
// verdict.
func TestKubeletNotEnabled(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if out, err := exec.Command("chroot", m.Root, "systemctl", "disable", "kubelet.service").
		CombinedOutput(); err != nil {
		t.Fatalf("got %v: %s; want no error", err, out)
	}
	m.Boot()
	if s := m.status(); s.Generation != 1 || s.Verdict != "pending" || !s.Gate.Open {
		t.Errorf("status: got %+v; want Generation 1, Verdict \"pending\" and Gate.Open", s)
	}
	time.Sleep(2 * time.Second)
	if n := len(m.starts()); n != 0 || m.property("kubelet", "ActiveState") != "inactive" {
		t.Errorf("got %d starts, and it is %s; want 0 and property \"inactive\"",
			n, m.property("kubelet", "ActiveState"))
	}
	m.Do("systemctl", "start", "kubelet")
	m.verdict("good")
	m.well(1)
}

// `systemctl stop prelet-verify` before the verdict: none is reached, nothing is undone, and the next start of the
// kubelet judges.
func TestVerifyStopped(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.patience("10s", "60s") // so long at least it can be met at its work
	m.Start()
	m.Within(30*time.Second, "prelet-verify runs", func() string {
		if m.property("prelet-verify", "ActiveState") != "active" {
			return "it is " + m.property("prelet-verify", "ActiveState")
		}
		return ""
	})
	m.Do("systemctl", "stop", "prelet-verify")
	if s := m.status(); s.Verdict == "good" || s.Verdict == "bad" || !m.Exists("/var/lib/prelet/journal.json") {
		t.Errorf("status: got %+v; want Verdict other than \"good\" and Verdict other than \"bad\"", s)
	}
	m.Do("systemctl", "restart", "kubelet")
	m.verdict("good")
	m.well(1)
}

// systemd cannot start prelet.service, before a line of prelet runs: a credential that is a folder, a link to itself;
// a state folder that is a link to nothing. Status says so; a node with a good generation starts on it where
// prelet-verify can say so; and it heals.
func TestUnitNotStarted(t *testing.T) {
	t.Parallel()
	m := joined(t)
	const token = "/etc/credstore/bootstrap-token"
	wantReason := func(want string) {
		t.Helper()
		m.Within(30*time.Second, "status names it", func() string {
			r := m.Try("prelet", "status")
			if said := strings.Join(strings.Fields(r.Out), " "); r.Exit != 1 || !strings.Contains(said, want) {
				return fmt.Sprintf("got %+v, want 1 and %q", r, want)
			}
			return ""
		})
	}
	for n, damage := range [][]string{{"mkdir", m.Root + token}, {"ln", "-s", "bootstrap-token", m.Root + token}} {
		m.Off()
		text := m.read(token)
		if err := os.Remove(m.Root + token); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(damage[0], damage[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("got %v: %s; want no error", err, out)
		}
		m.Start()
		wantReason("(243/CREDENTIALS): a credential of the unit cannot be read or decrypted")
		m.Within(30*time.Second, "the kubelet runs on the last good generation", func() string {
			if got := m.starts(); len(got) != 2+n {
				return fmt.Sprintf("%d starts", len(got))
			}
			return ""
		})
		if err := os.Remove(m.Root + token); err != nil {
			t.Fatal(err)
		}
		m.put(token, text)
		m.Within(
			30*time.Second,
			"prelet.service runs",
			func() string { return trouble("active", m.property("prelet", "ActiveState")) },
		)
		m.well(1)
	}

	m.Off()
	if err := errors.Join(
		os.Rename(m.Root+"/var/lib/prelet", m.Root+"/var/lib/aside"),
		os.Symlink("elsewhere", m.Root+"/var/lib/prelet"),
	); err != nil {
		t.Fatal(err)
	}
	m.Start()
	wantReason("/var/lib/prelet")
	if err := errors.Join(
		os.Remove(m.Root+"/var/lib/prelet"),
		os.Rename(m.Root+"/var/lib/aside", m.Root+"/var/lib/prelet"),
	); err != nil {
		t.Fatal(err)
	}
	m.Within(
		60*time.Second,
		"prelet.service runs",
		func() string { return trouble("active", m.property("prelet", "ActiveState")) },
	)
	m.Do("systemctl", "reset-failed")
	m.well(1)
}

// prelet.service is killed at each try, before a line of prelet runs or in the middle of a run: after the third death a
// node with a good generation starts on it, degraded; status and the console name it; it heals.
func TestKilledAtEachTry(t *testing.T) {
	t.Parallel()
	m := joined(t)
	const dropIn = "/etc/systemd/system/prelet.service.d/50-killed.conf"
	for n, c := range []struct{ command, want string }{
		{"kill -ABRT $$$$", ", SIGABRT)"},
		{"/usr/bin/prelet run & until [ -e /run/prelet/status.json ]; do :; done; kill -KILL $! $$$$", ", SIGKILL)"},
	} {
		m.Off()
		m.put(dropIn, "[Service]\nExecStart=\nExecStart=/bin/sh -c '"+c.command+"'\n")
		m.Start()
		m.Within(60*time.Second, "the kubelet runs on the last good generation", func() string {
			if got := m.starts(); len(got) != 2+n {
				return fmt.Sprintf("%d starts", len(got))
			}
			return ""
		})
		m.Within(10*time.Second, "status names it", func() string {
			r := m.Try("prelet", "status")
			said := strings.Join(strings.Fields(r.Out), " ")
			if r.Exit != 1 || !strings.Contains(said, "prelet.service was killed or died at each of") ||
				!strings.Contains(said, c.want) || !strings.Contains(said, "may start, on generation 1") {
				return fmt.Sprintf("got %+v, want 1 and %q", r, c.want)
			}
			return ""
		})
		console := "prelet failed (52), the kubelet starts on generation 1, which was in place: prelet.service was killed"
		if !strings.Contains(m.console(), console) {
			t.Errorf("console: got\n%s\nwant text with %q", m.console(), console)
		}
		if err := os.Remove(m.Root + dropIn); err != nil {
			t.Fatal(err)
		}
		m.Do("systemctl", "daemon-reload")
		m.Within(
			30*time.Second,
			"prelet.service runs",
			func() string { return trouble("active", m.property("prelet", "ActiveState")) },
		)
		m.well(1)
	}
}

// TestBrokenSite boots a node with a good generation on a site with a typing error: the kubelet runs on that
// generation, status is degraded (2), and the console has the file, the line and what is in use; no line of systemd
// about prelet's units is longer than a console.
func TestBrokenSite(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.edit(`stage "label" "node"`, `stage "lable" "node"`)
	m.Boot()
	m.running("prelet.service")
	r := m.Try("prelet", "status")
	if said := strings.Join(strings.Fields(r.Out), " "); r.Exit != 2 ||
		!strings.Contains(said, "degraded: the run failed, and the generation in place stays") ||
		!strings.Contains(said, "journalctl -u prelet.service has the messages") {
		t.Errorf("prelet status: got %+v; want 2, degraded, and where the messages are", r)
	}
	line := regexp.MustCompile(`prelet failed \(10\), the kubelet starts on generation 1, which was in place: ` +
		`/etc/prelet/site.hcl:[0-9]+:[0-9]+: .*lable`)
	if !line.MatchString(m.console()) {
		t.Errorf("console: got\n%s\nwant a line as %s", m.console(), line)
	}
	for line := range strings.Lines(m.console()) {
		if strings.Contains(line, " prelet") && strings.Contains(line, ".service") && strings.Contains(line, "…") {
			t.Errorf("console: got %q, want the whole line", line)
		}
	}
}

// console is what the machine has printed since it was made.
func (m *machine) console() string {
	m.T.Helper()
	text, err := os.ReadFile(m.Dir + "/console.log")
	if err != nil {
		m.T.Fatal(err)
	}

	return string(text)
}

// TestFailingPre has a drop-in of the site whose ExecStartPre= fails: rolled back, and the verdict names that command
// and the file.
func TestFailingPre(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.edit(`stage "write" "kubelet" {}`, `stage "write" "kubelet" {
  file "drop-in" {
    path    = "/etc/systemd/system/kubelet.service.d/20-site.conf"
    content = "[Service]\nExecStartPre=/bin/false\nRestartSec=100ms\n"
  }
}`)
	r := m.Try("prelet", "run")
	said := strings.Join(strings.Fields(r.Out+r.Errors), " ")
	for _, want := range []string{
		"ExecStartPre=/bin/false ended with status 1",
		"this generation changed /etc/systemd/system/kubelet.service.d/20-site.conf",
	} {
		if r.Exit != 50 || !strings.Contains(said, want) {
			t.Errorf("prelet run: got %d, %s\nwant 50 and %q", r.Exit, said, want)
		}
	}
	if status := m.Try("prelet", "status").Out; !strings.Contains(status, "journalctl -u prelet-apply.service") {
		t.Errorf("prelet status: got\n%s\nwant the journal of prelet-apply.service", status)
	}
}
