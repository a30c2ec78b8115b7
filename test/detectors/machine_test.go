package detectors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/detector/hostile"
)

// cacheVariable is the folder that test/boot/image.sh has filled.
const cacheVariable = "PRELET_BOOT_CACHE"

// TestMain looks first whether the folder holds what this tree makes.
func TestMain(tests *testing.M) {
	if cache := os.Getenv(cacheVariable); cache != "" {
		if out, err := exec.Command("../boot/image.sh", "--check", cache).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n%s", cache, err, out)
			os.Exit(1)
		}
	}
	os.Exit(tests.Run())
}

const (
	programs  = "/usr/lib/prelet/detectors"
	fragments = "/usr/lib/prelet/detectors.lock.d"
	helper    = "/usr/lib/prelet/prelet-detect"
)

// machine is a booted Debian with prelet installed, and a unit `detect@NAME` that is prelet.service but for what it
// runs.
type machine struct {
	t         *testing.T
	name      string
	dir, root string
	container *exec.Cmd
	ended     chan struct{}
	leader    int
	program   string // the program in all roles
}

// boot boots one. Landlock and bpf(2) have to be asked for: nspawn refuses them, and a test of a sandbox would prove
// nothing. prepare puts onto its disk what the others have not.
func boot(t *testing.T, prepare ...func(*machine)) *machine {
	t.Helper()
	cache := os.Getenv(cacheVariable)
	if cache == "" {
		t.Skip("this boots a machine: make e2e-hostile")
	}
	m := &machine{t: t, name: fmt.Sprintf("prelet-detectors-%d", os.Getpid())}
	m.dir = filepath.Join(cache, "run", m.name)
	m.root = m.dir + "/root"
	t.Cleanup(m.remove)
	m.must(os.MkdirAll(m.dir+"/disk", 0o755), os.MkdirAll(m.root, 0o755))
	m.must(syscall.Mount("tmpfs", m.dir+"/disk", "tmpfs", 0, "mode=755"))
	m.must(os.Mkdir(m.dir+"/disk/upper", 0o755), os.Mkdir(m.dir+"/disk/work", 0o755))
	m.must(
		syscall.Mount(
			"overlay",
			m.root,
			"overlay",
			0,
			fmt.Sprintf(
				"lowerdir=%s/layer:%s/debian,upperdir=%s/disk/upper,workdir=%s/disk/work",
				cache,
				cache,
				m.dir,
				m.dir,
			),
		),
	)
	m.put("/etc/machine-id", fmt.Sprintf("%032x\n", time.Now().UnixNano()), 0o644)
	if out, err := exec.Command("chroot", m.root, "systemd-sysusers").
		CombinedOutput(); err != nil { // as the package does
		t.Fatalf("systemd-sysusers: got %v: %s; want no error", err, out)
	}
	unit, err := os.ReadFile(m.root + "/usr/lib/systemd/system/prelet.service")
	m.must(err)
	text := strings.NewReplacer("ExecStart=/usr/bin/prelet run", "ExecStart=/usr/bin/prelet detect -o json "+
		"--config /etc/sites/%i\nStandardOutput=file:/var/lib/said-%i.json",
		"Restart=on-failure", "Restart=no", "Wants=network-online.target", "", "After=network-online.target", "").
		Replace(string(unit))
	m.put("/etc/systemd/system/detect@.service", text, 0o644)
	m.put("/etc/credstore/bootstrap-token", hostile.Secret+"\n", 0o600)
	m.program = "/usr/lib/hostile"
	m.must(hostile.Build(t.Context(), m.root+m.program))
	for _, p := range prepare {
		p(m)
	}
	m.start()
	return m
}

func (m *machine) must(errs ...error) {
	m.t.Helper()
	if err := errors.Join(errs...); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) put(path, text string, mode os.FileMode) {
	m.t.Helper()
	m.must(
		os.MkdirAll(filepath.Dir(m.root+path), 0o755),
		os.WriteFile(m.root+path, []byte(text), mode),
		os.Chmod(m.root+path, mode),
	)
}

func (m *machine) start() {
	m.t.Helper()
	script := `name=$1; shift
for h in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do [ -e $h/cgroup.procs ] || continue; mkdir -p "$h/$name"; echo $$ >"$h/$name/cgroup.procs"; done
exec unshare -m --propagation slave sh -c 'umount -R /sys/fs/cgroup && mount -t cgroup2 -o rw,nosuid,nodev,noexec cgroup2 /sys/fs/cgroup && exec "$@"' sh "$@"`
	m.container = exec.Command(
		"sh",
		"-c",
		script,
		"sh",
		m.name,
		"systemd-nspawn",
		"-D",
		m.root,
		"--boot",
		"--register=no",
		"--keep-unit",
		"--private-network",
		"--machine="+m.name,
		"--console=read-only",
		"--link-journal=no",
		"--resolv-conf=off",
		"--timezone=off",
		"--capability=all",
		"--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self bpf",
	)
	console, err := os.Create(m.dir + "/console.log")
	m.must(err)
	defer console.Close()
	m.container.Stdout, m.container.Stderr = console, console
	m.must(m.container.Start())
	m.ended = make(chan struct{})
	go func() { _ = m.container.Wait(); close(m.ended) }()
	for end := time.Now().Add(time.Minute); m.leader == 0; time.Sleep(50 * time.Millisecond) {
		children, _ := os.ReadFile(
			fmt.Sprintf("/proc/%d/task/%d/children", m.container.Process.Pid, m.container.Process.Pid),
		)
		first, _, _ := strings.Cut(string(children), " ")
		if pid, err := strconv.Atoi(first); err == nil {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d/root/run/systemd/private", pid)); err == nil {
				m.leader = pid
			}
		}
		if time.Now().After(end) {
			log, _ := os.ReadFile(m.dir + "/console.log")
			m.t.Fatalf("want a boot within the limit, got the console\n%s", log)
		}
	}
	m.try("systemctl", "is-system-running", "--wait")
}

func (m *machine) remove() {
	if m.leader != 0 {
		_ = syscall.Kill(m.leader, syscall.SIGKILL)
		<-m.ended
	}
	for _, at := range []string{"/root", "/disk"} {
		_ = syscall.Unmount(m.dir+at, syscall.MNT_DETACH)
	}
	if left, err := os.ReadDir(m.root); err == nil && len(left) == 0 { // never below a mount that stayed
		_ = os.RemoveAll(m.dir)
	}
	for _, h := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"} {
		for range 40 { // what was killed is in it for a moment
			if _, err := os.Stat(h + "/" + m.name); errors.Is(err, fs.ErrNotExist) {
				break
			}
			_ = exec.Command("find", h+"/"+m.name, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+").Run()
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// try runs a command inside.
func (m *machine) try(args ...string) (out string, exit int) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := exec.CommandContext(
		ctx,
		"nsenter",
		append([]string{"-t", strconv.Itoa(m.leader), "-m", "-u", "-i", "-n", "-p", "-C", "--"}, args...)...)
	c.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "SYSTEMD_COLORS=0"}
	var b bytes.Buffer
	c.Stdout, c.Stderr = &b, &b
	_ = c.Run()
	return b.String(), c.ProcessState.ExitCode()
}

// install makes the hostile program a detector of that name, and the lock that it would have.
func (m *machine) install(name string) {
	m.t.Helper()
	describe, err := json.Marshal(hostile.Describe(name))
	m.must(err)
	sum, exit := m.try("sha256sum", m.program)
	if exit != 0 {
		m.t.Fatal(sum)
	}
	path := m.root + programs + "/" + name
	_ = os.Remove(path)
	m.must(os.Link(m.root+m.program, path))
	lock, err := json.Marshal(
		map[string]any{
			"format_version": 1,
			"name":           name,
			"sha256":         strings.Fields(sum)[0],
			"describe":       json.RawMessage(describe),
		},
	)
	m.must(err)
	m.put(fragments+"/"+name+".json", string(lock), 0o644)
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

// detect starts the unit with a site, and waits for its end.
func (m *machine) detect(name, site string) said {
	m.t.Helper()
	m.put("/etc/sites/"+name+"/site.hcl", site+"\nstage \"detect-hw\" \"node\" {}\n", 0o644)
	_ = os.Remove(m.root + "/var/lib/said-" + name + ".json")
	unit := "detect@" + name + ".service"
	m.try("systemctl", "stop", unit)
	m.try("systemctl", "reset-failed", unit)
	cursor, _ := m.try("journalctl", "-n", "0", "--show-cursor", "-q")
	_, at, _ := strings.Cut(strings.TrimSpace(cursor), "-- cursor: ")
	m.try("systemctl", "start", unit)
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
	if b, err := os.ReadFile(m.root + "/var/lib/said-" + name + ".json"); err == nil && len(b) > 0 {
		s.written = string(b)
		if err := json.Unmarshal(b, &s.facts); err != nil {
			m.t.Errorf("%s: got %v; want no error:\n%s", name, err, b)
		}
		for _, d := range s.facts.Diagnostics {
			s.messages += d.Severity + ": " + d.Summary + ": " + d.Detail + "\n"
		}
	}
	return s
}

// left are the processes inside that run the program, and those of the pool's users.
func (m *machine) left() []string {
	m.t.Helper()
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
