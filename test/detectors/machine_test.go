package detectors

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/machine/detector/hostile"
	"github.com/prelet/prelet/test/nspawn"
)

// TestMain runs the tests in their own mount namespace.
func TestMain(tests *testing.M) { os.Exit(nspawn.Main(tests, "../boot/image.sh")) }

const (
	programs  = "/usr/lib/prelet/detectors"
	fragments = "/usr/lib/prelet/detectors.lock.d"
	helper    = "/usr/lib/prelet/prelet-detect"
)

// machine is a booted Debian with prelet installed, and a unit `detect@NAME` that is prelet.service but for what it
// runs.
type machine struct {
	*nspawn.Machine
	program string // the program in all roles
}

// boot boots one. Landlock and bpf(2) have to be asked for: nspawn refuses them, and a test of a sandbox would prove
// nothing. prepare puts onto its disk what the others have not.
func boot(t *testing.T, prepare ...func(*machine)) *machine {
	t.Helper()
	cache := nspawn.Cache(t)
	m := &machine{Machine: nspawn.New(t, filepath.Join(cache, "run")), program: "/usr/lib/hostile"}
	m.CommandTime = time.Minute
	m.Must(m.Overlay(cache+"/layer", cache+"/debian"))
	m.Put("/etc/machine-id", fmt.Sprintf("%032x\n", time.Now().UnixNano()), 0o644)
	if out, err := exec.Command("chroot", m.Root, "systemd-sysusers").
		CombinedOutput(); err != nil { // as the package does
		t.Fatalf("systemd-sysusers: got %v: %s; want no error", err, out)
	}
	unit, err := os.ReadFile(m.Root + "/usr/lib/systemd/system/prelet.service")
	m.Must(err)
	text := strings.NewReplacer("ExecStart=/usr/bin/prelet run", "ExecStart=/usr/bin/prelet detect -o json "+
		"--config /etc/sites/%i\nStandardOutput=file:/var/lib/said-%i.json",
		"Restart=on-failure", "Restart=no", "Wants=network-online.target", "", "After=network-online.target", "").
		Replace(string(unit))
	m.Put("/etc/systemd/system/detect@.service", text, 0o644)
	m.Put("/etc/credstore/bootstrap-token", hostile.Secret+"\n", 0o600)
	m.Must(hostile.Build(t.Context(), m.Root+m.program))
	for _, p := range prepare {
		p(m)
	}
	m.Boot("--private-network", "--machine="+m.Name,
		"--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self bpf")
	return m
}

// try runs a command inside, and returns all of its output.
func (m *machine) try(args ...string) (out string, exit int) {
	m.T.Helper()
	r := m.Try(args...)
	return r.Out + r.Errors, r.Exit
}

// install makes the hostile program a detector of that name, and the lock that it would have.
func (m *machine) install(name string) {
	m.T.Helper()
	describe, err := json.Marshal(hostile.Describe(name))
	m.Must(err)
	sum := m.Do("sha256sum", m.program)
	path := m.Root + programs + "/" + name
	_ = os.Remove(path)
	m.Must(os.Link(m.Root+m.program, path))
	lock, err := json.Marshal(
		map[string]any{
			"format_version": 1,
			"name":           name,
			"sha256":         strings.Fields(sum)[0],
			"describe":       json.RawMessage(describe),
		},
	)
	m.Must(err)
	m.Put(fragments+"/"+name+".json", string(lock), 0o644)
}

// said is what a unit run came to.
type said struct {
	exit    int
	took    time.Duration
	journal string
	facts   struct {
		Facts struct {
			Detectors map[string]struct {
				State      string
				Attributes map[string]string
				Labels     map[string]string
				Facts      map[string]any
				Warnings   []string
			}
			GPUs []struct {
				Address, Name, Model string
				MemoryGiB            *float64 `json:"memory_gib"`
			}
		}
		Degraded    []struct{ Code, Summary string }
		Diagnostics []struct{ Severity, Summary, Detail string }
	}
	messages string // all diagnostics
	written  string // on standard output
}

// want checks how a run ended, the state of a detector, and texts in the diagnostics.
func (s said) want(t *testing.T, exit int, detector, state string, texts ...string) {
	t.Helper()
	got := s.facts.Facts.Detectors[detector].State
	if s.exit != exit || got != state {
		t.Errorf("got exit %d, %s %q; want %d, %q:\n%s", s.exit, detector, got, exit, state, s.messages)
	}
	for _, text := range texts {
		if !strings.Contains(s.messages, text) {
			t.Errorf("got the diagnostics %s; want %q in them", s.messages, text)
		}
	}
}

// detect starts the unit with a site, and waits for its end.
func (m *machine) detect(name, site string) said {
	m.T.Helper()
	m.Put("/etc/sites/"+name+"/site.hcl", site+"\nstage \"detect-hw\" \"node\" {}\n", 0o644)
	_ = os.Remove(m.Root + "/var/lib/said-" + name + ".json")
	unit := "detect@" + name + ".service"
	m.try("systemctl", "stop", unit)
	m.try("systemctl", "reset-failed", unit)
	cursor, _ := m.try("journalctl", "-n", "0", "--show-cursor", "-q")
	_, at, _ := strings.Cut(strings.TrimSpace(cursor), "-- cursor: ")
	if _, exit := m.try("systemctl", "start", unit); exit < 0 {
		m.T.Errorf("%s: got no end within %s, want one", unit, m.CommandTime)
	}
	var s said
	show, _ := m.try(
		"systemctl",
		"show",
		unit,
		"-p",
		"ExecMainStatus,ExecMainStartTimestampMonotonic,ExecMainExitTimestampMonotonic",
	)
	values := map[string]int64{}
	for line := range strings.Lines(show) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[k], _ = strconv.ParseInt(v, 10, 64)
	}
	s.exit = int(values["ExecMainStatus"])
	s.took = time.Duration(
		values["ExecMainExitTimestampMonotonic"]-values["ExecMainStartTimestampMonotonic"],
	) * time.Microsecond
	s.journal, _ = m.try("journalctl", "-u", unit, "-o", "cat", "--no-pager", "--after-cursor", at)
	if b, err := os.ReadFile(m.Root + "/var/lib/said-" + name + ".json"); err == nil && len(b) > 0 {
		s.written = string(b)
		if err := json.Unmarshal(b, &s.facts); err != nil {
			m.T.Errorf("%s: got %v; want no error:\n%s", name, err, b)
		}
		for _, d := range s.facts.Diagnostics {
			s.messages += d.Severity + ": " + d.Summary + ": " + d.Detail + "\n"
		}
	}
	return s
}

// until waits for something, and prints what a unit logs if it does not come.
func (m *machine) until(unit, what string, is func() bool) {
	m.T.Helper()
	for late := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(late) {
			journal, _ := m.try("journalctl", "-u", unit, "--no-pager")
			m.T.Fatalf("%s: got %q after 30 s, want it\n%s", what, m.left(), journal)
		}
	}
}

// left are the processes inside that run the program, and those of the pool's users.
func (m *machine) left() []string {
	m.T.Helper()
	out, _ := m.try("ps", "-eo", "pid,user:32,stat,args", "--no-headers")
	var left []string
	for line := range strings.Lines(out) {
		if strings.Contains(line, "prelet-detector-") || strings.Contains(line, "prelet-detect") ||
			strings.Contains(line, "sleeper") {
			left = append(left, strings.TrimSpace(line))
		}
	}
	return left
}
