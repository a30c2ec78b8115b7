package detectors

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/machine/detector/hostile"
)

// the exit status of a required detector that failed.
const failed = 31

// TestDetectors is one machine, because a boot takes longer than all that is tried on it.
func TestDetectors(t *testing.T) {
	m := boot(t)
	t.Run("good", func(t *testing.T) { m.with(t).good() })
	t.Run("hostile", func(t *testing.T) { m.with(t).hostile() })
	t.Run("sandbox", func(t *testing.T) { m.with(t).sandbox() })
	t.Run("fills", func(t *testing.T) { m.with(t).fills() })
	t.Run("swapped", func(t *testing.T) { m.with(t).swapped() })
	t.Run("killed", func(t *testing.T) { m.with(t).killed() })
	t.Run("stuck", func(t *testing.T) { m.with(t).stuck() })
	t.Run("parallel", func(t *testing.T) { m.with(t).parallel() })
	t.Run("consent", func(t *testing.T) { m.with(t).consent() })
	t.Run("disagree", func(t *testing.T) { m.with(t).disagree() })
	t.Run("landlock refused", func(t *testing.T) { m.with(t).refused() })
	t.Run("security", func(t *testing.T) { m.with(t).security() })
}

func (m *machine) with(t *testing.T) *machine {
	inside := *m.Machine
	inside.T = t
	return &machine{&inside, m.program}
}

func (m *machine) nothingLeft(name string) {
	m.T.Helper()
	if l := m.left(); len(l) > 0 {
		m.T.Errorf("%s: still there: got %q; want none", name, l)
	}
	if out, _ := m.try("find", "/run/prelet/detectors/sockets", "-mindepth", "2"); out != "" {
		m.T.Errorf("%s: in the folders of sockets: got %s; want nothing", name, out)
	}
	if out, _ := m.try("find", "/run/prelet/detectors", "-name", "*.lock", "-size", "+0"); out != "" {
		m.T.Errorf("%s: a slot is not clean: got %s; want nothing", name, out)
	}
}

func (m *machine) good() {
	m.install("good")
	s := m.detect("good", `detector "good" { required = true }`)
	d := s.facts.Facts.Detectors["good"]
	m.T.Logf("%s, exit %d", s.took, s.exit)
	if s.exit != 0 || d.State != "ok" || d.Attributes["firmware"] != "1.20" ||
		d.Labels[hostile.Domain+"/firmware"] != "1.20" ||
		len(s.facts.Degraded) > 0 {
		m.T.Errorf("got %+v; want exit 0, State \"ok\", Attributes[firmware] \"1.20\", Labels \"1.20\" and no facts.Degraded",
			s)
	}
	if strings.Contains(s.messages, "sandbox") {
		m.T.Errorf("something of the sandbox is missing in the unit: got %s; want no \"sandbox\" in it", s.messages)
	}
	m.nothingLeft("good")
}

// hostile has the ways to fail that use up something of the machine, or reach the journal; TestHostile of
// internal/machine/detector has all others. Each is degraded, or 31 if required, with the reason; it ends, also where the
// detector never would; and nothing is left.
func (m *machine) hostile() {
	for _, row := range []struct {
		name, want string // part of the message; "" expects a normal answer
	}{
		{"crash-call", "assertion failed: table != NULL"},
		{"says-no", "the driver is older than 1.20"},
		{"hang-call", "it exceeded its deadline"},
		{"flood-stdout", "it exceeded its deadline"},
		{"flood-stderr", ""},
		{"ping-flood", "it exceeded its deadline"},
		{"chatty", "the driver is older than 1.20"},
		{"secret", "Its output: cannot log in with"},
		{"terminal", "not a printable text"},
		{"many", "too many"},
		{"huge", ""}, // see below: it may run out of memory before it is refused
		{"grandchild", ""},
		{"hang-child", "it exceeded its deadline"},
		{"shared-hog", ""},
		{"ignores", ""},
		{"hog", "it ended during the call"},
		{"frozen-hog", "it was killed for its memory"},
		{"kill-host", ""},
		{"setsid", ""},
		{"nests", ""},
		{"fork-bomb", ""},
		{"missing", "does not exist"},
	} {
		m.T.Run(row.name, func(t *testing.T) {
			m := m.with(t)
			if row.name != "missing" {
				m.install(row.name)
			}
			for _, required := range []bool{false, true} {
				s := m.detectFor(3*time.Second, row.name, required)
				for timeout := 6 * time.Second; !strings.Contains(s.messages, row.want) && timeout < time.Minute; timeout *= 2 {
					s = m.detectFor(timeout, row.name, required) // a busy machine did not get so far
				}
				text := s.messages
				state := s.facts.Facts.Detectors[row.name].State
				t.Logf("required %t: exit %d after %s, %s", required, s.exit, s.took.Round(time.Millisecond), state)
				switch bad := row.want != ""; {
				case bad && !strings.Contains(text, row.want):
					t.Errorf("it does not say %q: %s", row.want, s.messages)
				case bad && !required && (s.exit != 0 || state != "failed" && state != "absent" || len(s.facts.Degraded) != 1):
					t.Errorf("got exit %d, state %q, degraded %v; want 0, failed or absent, and one", s.exit, state, s.facts.Degraded)
				case bad && required && s.exit != failed:
					t.Errorf("got exit %d, want %d", s.exit, failed)
				case !bad && s.exit != 0 && s.exit != failed:
					t.Errorf("got exit %d: %s; want 0 or %d", s.exit, s.messages, failed)
				}
				if strings.Contains(s.journal+s.written, hostile.Secret) {
					t.Errorf("a credential of the unit is printed: got %s; want no hostile.Secret in it", s.journal)
				}
			}
			m.nothingLeft(row.name)
		})
	}
}

// detectFor runs one detector with a time limit. The unit ends, or the command that waits for it fails the test.
func (m *machine) detectFor(timeout time.Duration, name string, required bool) said {
	m.T.Helper()
	return m.detect(name, fmt.Sprintf("detector %q {\n  required = %t\n  timeout  = %q\n}", name, required, timeout))
}

// sandbox lets a detector try each forbidden action, under the unit; with the same line left out it must succeed,
// otherwise the test proves nothing about that line. What the unit itself forbids as well is not in the list of a
// control.
func (m *machine) sandbox() {
	m.install("tries")
	m.Put("/srv/open/secret", "x", 0o644)
	m.Must(os.Chmod(m.Root+"/srv/open", 0o777))
	site := func(allow string) string {
		return `detector "tries" {
  required = true
  timeout  = "50s" // a busy machine takes long for some of it
  ` + allow + `
  config {
    read_file   = "/srv/open/secret"
    read_passwd = "/etc/passwd"
    list_folder = "/srv/open"
    run_program = "/usr/bin/id"
    connect_bus = "/run/dbus/system_bus_socket"
    read_token  = "/etc/shadow"
    read_cpuinfo = "/proc/cpuinfo"
  }
}`
	}
	try := func(allow string) map[string]string {
		m.T.Helper()
		s := m.detect("tries", site(allow))
		if s.exit != 0 {
			m.T.Fatalf("exit %d: got %s; want 0", s.exit, s.messages)
		}
		return s.facts.Facts.Detectors["tries"].Attributes
	}
	with := try("")
	for _, key := range []string{"read_cpuinfo", "null", "socket_unix_stream"} {
		if with[key] != "ok" {
			m.T.Errorf("%s: got %q; want \"ok\"", key, with[key])
		}
	}
	for _, key := range []string{"read_token", "ptrace_host", "memory_of_host", "environment_of_host", "signal_host", "signal_1", "setuid", "mount", "bpf", "perf", "io_uring", "setpgid", "raise_memory"} {
		if with[key] == "ok" || with[key] == "" {
			m.T.Errorf("%s: got %q; want with other than \"ok\" and non-empty with", key, with[key])
		}
	}
	if with["core_file"] == "ok" {
		m.T.Error("the limit of core files is not 1, so a crash starts the program of core_pattern")
	}
	if with["status_CapEff"] != "0000000000000000" || with["status_NoNewPrivs"] != "1" || with["oom_score"] != "1000" ||
		strings.Contains(" "+with["status_Uid"], " 0 ") {
		m.T.Errorf("got %v; want with[status_CapEff] \"0000000000000000\", with[status_NoNewPrivs] \"1\", with[oom_score] \"1000\" and no \" 0 \" in it",
			with)
	}
	for line, forbids := range map[string][]string{
		"landlock": {"read_file", "read_passwd", "list_folder", "run_program", "folder_next_to_the_socket"},
		"connect":  {"connect_bus"},
		"seccomp": {"setsid", "memfd", "shared_memory", "socket_tcp", "socket_udp", "socket_unix_datagram", "growing_memory", "moved_stack",
			"send_buffer", "receive_buffer", "huge_pages", "shmat", "semop", "msgsnd", "msgrcv", "mq_unlink", "fsync", "drop_cached_pages",
			"flock", "record_lock", "bind_abstract"},
		"limits": {"write_next_to_the_socket", "allocate_a_file", "timers"},
	} {
		real := m.Root + helper + ".real"
		m.Must(
			os.Rename(m.Root+helper, real),
			os.Link(m.Root+m.program, m.Root+helper+"-without-"+line),
			os.Symlink(helper+"-without-"+line, m.Root+helper),
		)
		without := try("")
		m.Must(os.Remove(m.Root+helper), os.Rename(real, m.Root+helper))
		for _, key := range forbids {
			if with[key] == "ok" || with[key] == "" {
				m.T.Errorf("%s: got %q, and it should fail; want with other than \"ok\" and non-empty with",
					key, with[key])
			}
			if without[key] != "ok" {
				m.T.Errorf("%s: got %q without %s: its failure proves nothing; want \"ok\"",
					key, without[key], line)
			}
		}
	}
	for key, allow := range map[string]string{"read_file": `read = ["/srv/open"]`, "run_program": `execute = ["/usr/bin/id"]`, "connect_bus": `sockets = ["/run/dbus/system_bus_socket"]`} {
		if got := try("allow { " + allow + " }"); got[key] != "ok" {
			m.T.Errorf("%s: got %q, although it is granted; want \"ok\"", key, got[key])
		}
	}
	m.nothingLeft("tries")
}

// fills is a detector that makes as many files as it can. They are few, none of them is in /run, and a detector that
// runs in parallel has its own limit.
func (m *machine) fills() {
	m.install("fills")
	m.install("good")
	free := func() int {
		out, _ := m.try("stat", "-f", "-c", "%d", "/run")
		n, err := strconv.Atoi(strings.TrimSpace(out))
		m.Must(err)
		return n
	}
	before := free()
	s := m.detect("fills", "detector \"fills\" {}\ndetector \"good\" { required = true }")
	d := s.facts.Facts.Detectors["fills"]
	n, err := strconv.Atoi(d.Attributes["files"])
	if err != nil || n == 0 || n > 256 || !strings.Contains(d.Attributes["last"], "no space left on device") {
		m.T.Errorf("got %q files and then %q; want 1 to 256 and no space then: %s",
			d.Attributes["files"], d.Attributes["last"], s.messages)
	}
	s.want(m.T, 0, "good", "ok")
	if strings.Contains(s.messages, "limit of files") {
		m.T.Errorf("got %s; want no \"limit of files\" in it", s.messages)
	}
	if after := free(); after+64 < before { // locks and the like
		m.T.Errorf("free inodes of /run: got %d, want about %d as before", after, before)
	}
	m.nothingLeft("fills")
}

// swapped is another program in the place of the one that was locked: it is never executed.
func (m *machine) swapped() {
	m.install("good")
	m.Must(os.Remove(m.Root + programs + "/good"))
	m.Put(programs+"/good", "#!/bin/sh\ntouch /var/lib/prelet/ran /tmp/ran\n", 0o755)
	s := m.detect("swapped", `detector "good" { required = true }`)
	s.want(m.T, failed, "", "", "was not executed, because it is not the locked program")
	for _, p := range []string{"/var/lib/prelet/ran", "/tmp/ran"} {
		if _, err := os.Stat(m.Root + p); err == nil {
			m.T.Error("it was executed")
		}
	}
	m.nothingLeft("swapped")
}

// killed is prelet itself, by SIGKILL, while a detector with a child hangs: the unit's cgroup ends them all, and the
// slot that was not returned is clean again after the next run.
func (m *machine) killed() {
	m.install("hang-child")
	m.install("good")
	m.Put(
		"/etc/sites/killed/site.hcl",
		"detector \"hang-child\" {\n  timeout = \"60s\"\n}\nstage \"detect-hw\" \"node\" {}\n",
		0o644,
	)
	const unit = "detect@killed.service"
	m.try("systemctl", "start", "--no-block", unit)
	m.until(unit, "the detector and its child run", func() bool { return len(m.left()) >= 3 }) // prelet-detect is the third
	m.try("systemctl", "kill", "--kill-who=main", "--signal=KILL", unit)
	m.until(unit, "nothing runs any more", func() bool { return len(m.left()) == 0 })
	m.detect("after", `detector "good" { required = true }`).want(m.T, 0, "good", "ok")
	m.nothingLeft("killed")
}

// stuck is a detector that reads what never answers: no signal ends it. The boot goes on while it is stuck, and says that
// something is left; the next detector has another user; and when the device answers at last, nothing is left.
func (m *machine) stuck() {
	if known, _ := os.ReadFile("/proc/filesystems"); !strings.Contains(string(known), "\tfuse\n") {
		m.T.Skip("this kernel has no FUSE")
	}
	m.install("tries")
	m.install("good")
	const at, server = "/srv/stuck", "/usr/lib/stuck-filesystem"
	m.Must(os.MkdirAll(m.Root+at, 0o755), os.Link(m.Root+m.program, m.Root+server))
	m.Do("sh", "-c", "[ -e /dev/fuse ] || mknod /dev/fuse c 10 229")
	m.Do("systemd-run", "--quiet", "--unit=stuck", server, at)
	m.until("stuck", "it is mounted", func() bool {
		out, _ := m.try("findmnt", "-n", "-o", "FSTYPE", at)
		return strings.TrimSpace(out) == "fuse"
	})
	const timeout = 3 * time.Second
	s := m.detect(
		"stuck",
		fmt.Sprintf(
			"detector \"tries\" {\n  timeout = %q\n  allow {\n    read = [%q]\n  }\n  config {\n    read_file "+
				"= %q\n  }\n}",
			timeout,
			at,
			at+"/file",
		),
	)
	m.T.Logf("%s: %s", s.took, strings.TrimSpace(s.messages))
	s.want(m.T, 0, "tries", "failed", "One of its processes cannot be killed")
	if len(m.left()) == 0 {
		m.T.Error("nothing is stuck, so this shows nothing")
	}
	m.detect("beside", `detector "good" { required = true }`).want(m.T, 0, "good", "ok")
	m.try("systemctl", "kill", "--signal=KILL", "stuck.service")
	m.until("stuck", "all is over", func() bool { return len(m.left()) == 0 })
	m.try("umount", at)
}

// parallel: those that hang do not add up, and the good one between them is heard. Three of them take all of their time.
func (m *machine) parallel() {
	const timeout = 15 * time.Second
	site := ""
	for _, n := range []string{"good", "hang-start", "hang-call", "flood-stdout", "crash-call"} {
		m.install(n)
		site += fmt.Sprintf("detector %q { timeout = %q }\n", n, timeout)
	}
	s := m.detect("parallel", site)
	s.want(m.T, 0, "good", "ok")
	if s.took >= 3*timeout || len(s.facts.Degraded) != 4 {
		m.T.Errorf("got it after %s, degraded %v; want it before the sum of %s, with 4 reasons", s.took, s.facts.Degraded,
			3*timeout)
	}
	m.nothingLeft("parallel")
}

// consent: a detector whose needs are not granted is not started, and the message is the block to paste.
func (m *machine) consent() {
	m.install("needy")
	s := m.detect("consent", `detector "needy" {}`)
	s.want(m.T, 0, "needy", "failed", `execute = ["/usr/bin/id"]`, "allow {")
	s = m.detect("consent", "detector \"needy\" {\n  allow {\n    execute = [\"/usr/bin/id\"]\n  }\n}")
	s.want(m.T, 0, "needy", "ok")
}

// disagree: if two detectors recommend different values of one label, both are named, and neither value is used.
func (m *machine) disagree() {
	m.install("good")
	m.install("contrary")
	s := m.detect("disagree", "detector \"good\" {}\ndetector \"contrary\" {}")
	s.want(m.T, 0, "", "", `Detectors "contrary" and "good" disagree`)
	if len(s.facts.Degraded) != 1 {
		m.T.Errorf("got degraded %v; want one reason", s.facts.Degraded)
	}
	s = m.detect("disagree", "detector \"good\" { required = true }\ndetector \"contrary\" {}")
	if s.exit != failed {
		m.T.Errorf("exit %d: got %s; want %d", s.exit, s.messages, failed)
	}
}

// refused: a filter that forbids Landlock is a finding that somebody has to look at, and no old kernel.
func (m *machine) refused() {
	m.install("good")
	m.Put(
		"/etc/systemd/system/detect@.service.d/filter.conf",
		"[Service]\nSystemCallFilter=~landlock_create_ruleset landlock_add_rule landlock_restrict_self\n",
		0o644,
	)
	m.try("systemctl", "daemon-reload")
	s := m.detect("refused", `detector "good" {}`)
	m.Must(os.RemoveAll(m.Root + "/etc/systemd/system/detect@.service.d"))
	m.try("systemctl", "daemon-reload")
	if s.exit != 0 || len(s.facts.Degraded) != 1 || !strings.Contains(s.messages, "refuses it (EPERM)") {
		m.T.Errorf("exit %d, %v: got %s; want exit 0, 1 facts.Degraded and text with \"refuses it (EPERM)\"",
			s.exit, s.facts.Degraded, s.messages)
	}
}

// security: what detectors need has not opened the unit.
func (m *machine) security() {
	for _, unit := range []string{"prelet.service", "prelet-apply.service", "prelet-verify.service"} {
		out, _ := m.try("systemd-analyze", "security", "--no-pager", unit)
		_, level, _ := strings.Cut(out, "Overall exposure level for "+unit+": ")
		var x float64
		if _, err := fmt.Sscan(level, &x); err != nil || x > 2.6 {
			m.T.Errorf("%s: got %s, %v; want at most 2.6", unit, level, err)
		}
	}
}
