package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/report"
)

// stateDir is prelet's own folder on the machine.
func (m *machine) stateDir() string { return filepath.Join(m.root, "var/lib/prelet") }

// managed is everything of the disk but prelet's own folder.
func (m *machine) managed() map[string]string {
	disk := m.disk()
	for p := range disk {
		if p == "/var/lib" || p == "/var/lib/prelet" || strings.HasPrefix(p, "/var/lib/prelet/") {
			delete(disk, p)
		}
	}

	return disk
}

// sameFiles compares managed before and after.
func (m *machine) sameFiles(before map[string]string) {
	m.t.Helper()
	after := m.managed()
	for p, line := range after {
		if before[p] != line {
			m.t.Errorf("%s: got %s, want %s", p, line, before[p])
		}
	}
	if len(after) != len(before) {
		m.t.Errorf("files: got %d, want %d", len(after), len(before))
	}
}

// copyTo copies the state folder, as a backup does.
func (m *machine) copyState(from, to string) {
	m.t.Helper()
	if err := os.RemoveAll(to); err != nil {
		m.t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Chmod(to, 0o700); err != nil {
		m.t.Fatal(err)
	}
}

// relabel makes the site plan another label.
func (m *machine) relabel(value string) {
	m.put("/etc/prelet/site.hcl", strings.ReplaceAll(m.site, `pool" = "a"`, `pool" = "`+value+`"`))
	m.labels["example.com/pool"] = value
}

// damage flips a byte of one of the store's files: the one at from the end, or from the start if it is not negative.
func (m *machine) damage(name string, at int) {
	m.t.Helper()
	path := filepath.Join(m.stateDir(), name)
	text, err := os.ReadFile(path)
	if err != nil {
		m.t.Fatal(err)
	}
	if at < 0 {
		at += len(text)
	}
	text[at] ^= 1
	if err := os.WriteFile(path, text, 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// loss is a way to lose what is known of the generation in place, of a node whose files all are those of generation 2.
type loss struct {
	name   string
	do     func(m *machine)
	gen    int  // that a run by hand makes
	atBoot int  // that a boot makes, where nothing but the state folder has a number
	before bool // what was before prelet is still known
}

func losses() []loss {
	remove := func(names ...string) func(*machine) {
		return func(m *machine) {
			for _, name := range names {
				if err := os.RemoveAll(filepath.Join(m.stateDir(), name)); err != nil {
					m.t.Fatal(err)
				}
			}
		}
	}
	restore := func(from string) func(*machine) {
		return func(m *machine) { m.copyState(m.root+from, m.stateDir()) }
	}

	return []loss{
		{"the folder", remove(""), 3, 1, false},
		{"the folder, moved aside", func(m *machine) {
			if err := os.Rename(m.stateDir(), m.root+"/aside"); err != nil {
				m.t.Fatal(err)
			}
		}, 3, 1, false},
		{"what is in it", remove("generations", "lock", "kubelet.json"), 3, 1, false},
		{"generations", remove("generations"), 3, 1, false},
		{"both files", remove("generations/1", "generations/2"), 3, 3, false},
		{"the newest file", remove("generations/2"), 3, 3, true},
		{"the newest file and its status", remove("generations/2", "generations/2.status.json"), 3, 2, true},
		{"an older backup", restore("/backup"), 3, 2, true},
		{"a backup of the middle of a publish", restore("/backup-middle"), 3, 3, true},
	}
}

// losingNode is a node at generation 2, with a backup of its state folder at generation 1, and one in the middle of
// a commit after that.
func losingNode(t *testing.T) *machine {
	t.Helper()
	m := goodNode(t)
	m.copyState(m.stateDir(), m.root+"/backup")
	m.copyState(m.stateDir(), m.root+"/backup-middle")
	m.halfPublished(m.root + "/backup-middle")
	m.relabel("b")
	m.want("generation 2", m.as("", "run"), ended{0, "eneration 2 is in place", ""})

	return m
}

// halfPublished makes a state folder one whose commit was interrupted in an earlier boot.
func (m *machine) halfPublished(dir string) {
	m.t.Helper()
	store, err := generation.Open(m.t.Context(), generation.Options{Root: m.root, Dir: dir, BootID: "an earlier one"})
	if err != nil {
		m.t.Fatal(err)
	}
	defer store.Close()
	txn, err := store.Begin(generation.Proposal{PlanID: "z", Targets: []generation.Target{
		{Path: "/etc/default/kubelet", Kind: generation.File, Content: []byte("z"), Mode: 0o644},
	}})
	if err == nil {
		_, err = txn.Commit()
	}
	if err != nil {
		m.t.Fatal(err)
	}
	left, _ := filepath.Glob(m.root + "/etc/default/.prelet-*")
	for _, p := range left {
		if err := os.Remove(p); err != nil {
			m.t.Fatal(err)
		}
	}
}

// The state folder of a healthy node is lost, in whole or in part, or restored from a backup: a run by hand adopts the
// files, touches none of them, and neither stops the kubelet nor shuts the gate.
func TestAdoptByHand(t *testing.T) {
	t.Parallel()
	for _, l := range losses() {
		t.Run(l.name, func(t *testing.T) {
			m := losingNode(t)
			l.do(m)
			before, starts, pid := m.managed(), len(m.starts), m.kubelet.MainPID
			m.want(
				"run",
				m.as("", "run"),
				ended{0, fmt.Sprintf("Generation %d is in place, and the kubelet is healthy", l.gen), ""},
			)
			m.sameFiles(before)
			if len(m.starts) != starts || m.kubelet.MainPID != pid {
				t.Errorf("starts of the kubelet: got %q, want %d", m.starts, starts)
			}
			m.adopted(l.gen, l.before)
		})
	}
}

// The same at a boot: the gate opens, and the kubelet starts.
func TestAdoptAtBoot(t *testing.T) {
	t.Parallel()
	for _, l := range losses() {
		t.Run(l.name, func(t *testing.T) {
			m := losingNode(t)
			l.do(m)
			m.reboot()
			before := m.managed()
			run, verify := m.boot()
			m.want(
				"run",
				run,
				ended{0, fmt.Sprintf("Generation %d is in place; prelet-verify judges it", l.atBoot), ""},
			)
			m.want(
				"verify",
				verify,
				ended{0, fmt.Sprintf("Generation %d is in place, and the kubelet is healthy on it.", l.atBoot), ""},
			)
			m.sameFiles(before)
			if len(m.starts) != 1 {
				t.Errorf("starts of the kubelet: got %q, want one", m.starts)
			}
			m.adopted(l.atBoot, l.before)

			m.reboot()
			disk := m.disk()
			run, _ = m.boot()
			m.want(
				"the boot after it",
				run,
				ended{0, fmt.Sprintf("No changes; generation %d is in place.", l.atBoot), ""},
			)
			if after := m.disk(); !maps.Equal(disk, after) {
				t.Error("the boot after it wrote to the disk")
			}
		})
	}
}

// adopted checks what is said of a generation that was adopted and is good.
func (m *machine) adopted(gen int, before bool) {
	m.t.Helper()
	if got, want := m.gateSays(), fmt.Sprintf("PRELET_GENERATION=%d", gen); got != want {
		m.t.Errorf("gate: got %q, want %q", got, want)
	}
	s := m.says()
	if s.State != report.OK || s.Generation != gen || s.Verdict != "good" || len(s.Notes) != 1 ||
		s.Notes[0].Code != "adopted" {
		m.t.Errorf("status.json: got %+v, want ok, good, generation %d, with the note adopted", s, gen)
	}
	m.want("status", m.as("", "status"), ended{0, "adopted:", ""})
	m.want("history", m.as("", "history"), ended{0, "adopted: the files were as planned already", ""})
	m.want(
		"doctor",
		m.as("", "doctor"),
		ended{m.as("", "doctor").exit, fmt.Sprintf("generation %d is in place, adopted", gen), ""},
	)
	if !before {
		disk := m.disk()
		m.want("rollback 0", m.as("", "rollback", "0"), ended{64, "", "the state before prelet is not known"})
		if !maps.Equal(disk, m.disk()) || m.gateSays() == "" {
			m.t.Error("a rollback that was refused has changed something")
		}
		if got := m.says(); !reflect.DeepEqual(got, s) {
			m.t.Errorf("status.json after a rollback that was refused: got %+v, want %+v", got, s)
		}
	}
}

// The existing files are already as the site now wants them, and the kubelet runs with other flags: it is restarted
// once, and no plan is blamed. A kubelet that still lacks the flags after that is unhealthy.
func TestAdoptWithOldFlags(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		for _, reads := range []bool{true, false} {
			t.Run(fmt.Sprintf("lost=%t reads=%t", lost, reads), func(t *testing.T) {
				m := goodNode(t)
				running, pid := m.args, m.kubelet.MainPID
				m.lacks = func(now uint32, flags []string) error {
					if (now == pid || !reads) && !reflect.DeepEqual(flags, running) {
						return errors.New("the process has not the flag")
					}
					return nil
				}
				m.relabel("b")
				m.put("/etc/default/kubelet", strings.Replace(m.read("/etc/default/kubelet"), "pool=a", "pool=b", 1))
				before, gen := m.managed(), 2 // the gate knows the number that was lost
				if lost {
					m.lose("")
				}
				run := m.as("", "run")
				switch {
				case reads:
					m.want(
						"run",
						run,
						ended{0, fmt.Sprintf("Generation %d is in place, and the kubelet is healthy", gen), ""},
					)
					m.sameFiles(before)
				case lost: // there is nothing to go back to
					m.want("run", run, ended{50, "", "the process has not the flag"})
					m.want("verify", m.as("", "verify"), ended{50, "", "the process has not the flag"})
				default:
					m.want("run", run, ended{50, "", "was unhealthy and was rolled back"})
					return
				}
				if m.kubelet.MainPID != pid+1 {
					t.Errorf("restarts of the kubelet: got %d, want 1", m.kubelet.MainPID-pid)
				}
			})
		}
	}
}

// The same with files that leave no trace on the command line: the kubelet is restarted if it is older than they are.
func TestAdoptWithOldFiles(t *testing.T) {
	t.Parallel()
	for _, older := range []bool{true, false} {
		t.Run(fmt.Sprintf("older=%t", older), func(t *testing.T) {
			m := goodNode(t)
			pid, want := m.kubelet.MainPID, m.kubelet.MainPID
			if m.changed = m.kubelet.Started - time.Second; older {
				m.changed, want = m.kubelet.Started+3*time.Second, pid+1
			}
			m.now += 10 * time.Second
			m.relabel("b")
			m.put("/etc/default/kubelet", strings.Replace(m.read("/etc/default/kubelet"), "pool=a", "pool=b", 1))
			m.want("run", m.as("", "run"), ended{0, "Generation 2 is in place, and the kubelet is healthy", ""})
			m.want("verify", m.as("", "verify"), ended{0, "", ""})
			if m.kubelet.MainPID != want {
				t.Errorf("the kubelet's process: got %d, want %d", m.kubelet.MainPID, want)
			}
		})
	}
}

// A journal that awaits a verdict is left, and its generation is lost.
func TestAdoptWithJournal(t *testing.T) {
	t.Parallel()
	m := losingNode(t)
	m.relabel("c")
	m.reboot()
	m.inside = true
	m.want("run", m.as(app.BootUnit, "run"), ended{0, "Generation 3 is in place; prelet-verify", ""})
	m.inside = false
	m.units.start()
	if err := os.RemoveAll(m.stateDir() + "/generations"); err != nil {
		t.Fatal(err)
	}
	m.want("run", m.as("", "run"), ended{0, "Generation 4 is in place, and the kubelet is healthy", ""})
	m.adopted(4, false)
}

// A first run on a node whose files are as planned already, such as one of an image that was made from a node.
func TestAdoptAtFirstBoot(t *testing.T) {
	t.Parallel()
	m := goodNode(t)
	if err := os.RemoveAll(m.stateDir()); err != nil {
		t.Fatal(err)
	}
	m.put("/etc/machine-id", "ffffffffffffffffffffffffffffffff\n")
	m.reboot()
	before := m.managed()
	run, verify := m.boot()
	m.want("run", run, ended{0, "Generation 1 is in place; prelet-verify judges it", ""})
	m.want("verify", verify, ended{0, "healthy on it", ""})
	m.sameFiles(before)
	m.adopted(1, false)
}

// A plan is held or a generation was chosen by hand, and the generations are lost: the node stays as it is, and the
// kubelet starts on that.
func TestHeldWithoutGenerations(t *testing.T) {
	t.Parallel()
	m := losingNode(t)
	m.want("rollback", m.as("", "rollback"), ended{0, "has the contents of generation 1", ""})
	if err := os.RemoveAll(m.stateDir() + "/generations"); err != nil {
		t.Fatal(err)
	}
	before := m.managed()
	m.reboot()
	run, _ := m.boot()
	m.want("run", run, ended{0, "is pinned", ""})
	m.sameFiles(before)
	if len(m.starts) != 1 {
		t.Errorf("starts of the kubelet: got %q, want one", m.starts)
	}
	m.want("release", m.as("", "rollback", "--release"), ended{0, "Released", ""})
	m.want("run", m.as("", "run"), ended{0, "is in place, and the kubelet is healthy", ""})
}

// A site that writes and decides nothing: the kubelet starts as it is, and no generation is made.
func TestSiteWithNothingToWrite(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.put("/etc/prelet/site.hcl", "stage \"restart\" \"kubelet\" {}\n")
	for range 2 {
		run, verify := m.boot()
		m.want("run", run, ended{0, "Nothing to write, so no generation is made; the kubelet starts as it is.", ""})
		if verify.exit != -1 || len(m.starts) != 1 || m.gateSays() != "PRELET_GENERATION=0" {
			t.Errorf("verify %+v, starts %q, gate %q; want one start on an open gate", verify, m.starts, m.gateSays())
		}
		m.want("status", m.as("", "status"), ended{0, "may start", ""})
		m.want("history", m.as("", "history"), ended{0, "No generation exists yet.", ""})
		m.want("run by hand", m.as("", "run"), ended{0, "Nothing to write", ""})
		m.reboot()
	}
}

// A run that fails before its commit leaves what a restored backup has in flight alone, and the kubelet that runs.
func TestOutdatedJournalWithoutPlan(t *testing.T) {
	t.Parallel()
	m := losingNode(t)
	m.copyState(m.root+"/backup-middle", m.stateDir())
	m.put("/etc/prelet/site.hcl", m.site+"stage \"lable\" \"x\" {}\n")
	before := m.disk()
	delete(before, "/etc/prelet/site.hcl")
	pid := m.kubelet.MainPID
	m.want("run", m.as("", "run"), ended{10, "", "Unknown stage type"})
	m.want("recover", m.as("", "recover"), ended{41, "", "prelet run plans again"})
	m.want("rollback", m.as("", "rollback", "1"), ended{41, "", "prelet run plans again"})
	m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "", ""})
	if m.gateSays() == "" || m.kubelet.MainPID != pid || m.kubelet.Active != "active" {
		t.Errorf("gate %q, kubelet %+v; want both left alone", m.gateSays(), m.kubelet)
	}
	m.relabel("b")
	m.want("run", m.as("", "run"), ended{0, "eneration 3 is in place, and the kubelet is healthy", ""})
}

// Below a root the files of an image may be as planned already.
func TestAdoptBelowRoot(t *testing.T) {
	t.Parallel()
	root, site := t.TempDir(), t.TempDir()+"/site.hcl"
	text := "stage \"write\" \"x\" {\n  file \"motd\" {\n    path = \"/motd\"\n    content = \"a\"\n  }\n" +
		"  bootstrap_kubeconfig { when = false }\n  ca_certificate { when = false }\n  kubelet_config { when = " +
		"false }\n" +
		"  kubelet_flags { when = false }\n}\n"
	if err := os.WriteFile(site, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	m := newMachine(t)
	line := []string{"run", "--root", root, "--config", site}
	m.want("run", m.as("", line...), ended{0, "eneration 1 is in place", ""})
	if err := os.RemoveAll(root + "/var/lib/prelet"); err != nil {
		t.Fatal(err)
	}
	m.want("run", m.as("", line...), ended{0, "eneration 1 is in place", ""})
	m.want("history", m.as("", "history", "--root", root), ended{0, "adopted", ""})
	m.want(
		"rollback 0",
		m.as("", "rollback", "0", "--root", root),
		ended{64, "", "the state before prelet is not known"},
	)
	m.want("again", m.as("", line...), ended{0, "No changes; generation 1 is in place.", ""})
}
