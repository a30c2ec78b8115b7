package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/commit/generation"
)

// goodThree is a node at generation 3, with three good generations, whose kubelet is unhealthy with the label bad.
func goodThree(t *testing.T) *machine {
	t.Helper()
	m := goodNode(t)
	for _, label := range []string{"b", "c"} {
		m.relabel(label)
		m.want("run", m.as("", "run"), ended{0, "the kubelet is healthy on it", ""})
	}
	m.sick = func() error {
		if strings.Contains(m.read("/etc/default/kubelet"), "pool=bad") {
			return errors.New("500 Internal Server Error")
		}
		return nil
	}

	return m
}

// The last good generation is damaged in what it keeps: the next older good one comes back.
func TestDamagedLastGood(t *testing.T) {
	t.Parallel()
	bad := func(m *machine, boot bool) (res ended) {
		m.relabel("bad")
		if !boot {
			return m.as("", "run")
		}
		m.reboot()
		_, res = m.boot()
		return res
	}
	for _, boot := range []bool{true, false} {
		t.Run(fmt.Sprintf("boot=%t", boot), func(t *testing.T) {
			m := goodThree(t)
			m.damage("generations/3", -2)
			m.want("run", bad(m, boot), ended{50, "", "eneration 4 was unhealthy and was rolled back"})
			if flags := m.read("/etc/default/kubelet"); !strings.Contains(flags, "pool=b ") &&
				!strings.Contains(flags, "pool=b\"") &&
				!strings.Contains(flags, "pool=b\n") {
				t.Errorf("flags: got %s, want those of generation 2", flags)
			}
			if m.gateSays() != "PRELET_GENERATION=5" || m.kubelet.Active != "active" {
				t.Errorf("gate %q, kubelet %+v; want it to run on generation 5", m.gateSays(), m.kubelet)
			}

			m = goodThree(t)
			for gen := 1; gen <= 3; gen++ {
				m.damage(fmt.Sprintf("generations/%d", gen), -2)
			}
			res := bad(m, boot)
			m.want("none is left", res, ended{50, "", "generation 3 is damaged"})
			if strings.Contains(res.errors+res.out, "mixture") || m.gateSays() != "PRELET_GENERATION=4" ||
				m.kubelet.Active != "active" {
				t.Errorf("gate %q, kubelet %+v; want it to run on generation 4, and no word of a mixture:\n%s",
					m.gateSays(), m.kubelet, res.errors)
			}
		})
	}
}

// By hand a damaged generation is refused before the kubelet is stopped, and the newest good one is one that is not.
func TestDamagedByHand(t *testing.T) {
	t.Parallel()
	m := goodThree(t)
	m.damage("generations/2", -2)
	before, pid := m.disk(), m.kubelet.MainPID
	m.want("rollback 2", m.as("", "rollback", "2"), ended{64, "", "generation 2 is damaged"})
	if after := m.disk(); !maps.Equal(before, after) || m.gateSays() == "" || m.kubelet.MainPID != pid {
		t.Errorf("gate %q, kubelet %+v; want nothing changed", m.gateSays(), m.kubelet)
	}
	m.want("doctor", m.as("", "doctor"), ended{m.as("", "doctor").exit, "generation 2 is damaged", ""})
	m.want("rollback", m.as("", "rollback"), ended{0, "has the contents of generation 1", ""})
}

// The generation in place is damaged in what it keeps, anywhere but in its first line: the next run makes another of
// the files, which are as planned, and the kubelet starts.
func TestDamagedInPlace(t *testing.T) {
	t.Parallel()
	m := goodThree(t)
	text, err := os.ReadFile(m.stateDir() + "/generations/3")
	if err != nil {
		t.Fatal(err)
	}
	rest := len(text) - strings.IndexByte(string(text), '\n') - 1
	for at := -rest + 64; at < 0; at += rest/12 + 1 { // from the end: the first lines of two nodes differ in length
		m := goodThree(t)
		m.damage("generations/3", at)
		m.want("doctor", m.as("", "doctor"), ended{m.as("", "doctor").exit, "generation 3 is damaged", ""})
		m.reboot()
		run, verify := m.boot()
		m.want(
			fmt.Sprintf("run with byte %d of %d changed", at, len(text)),
			run,
			ended{0, "Generation 4 is in place", ""},
		)
		m.want("verify", verify, ended{0, "the kubelet is healthy on it", ""})
		if m.gateSays() != "PRELET_GENERATION=4" || len(m.starts) != 1 {
			t.Errorf("gate %q, starts %q; want one start on generation 4", m.gateSays(), m.starts)
		}
		m.want("rollback 0", m.as("", "rollback", "0"), ended{0, "everything is as before prelet", ""})
	}
}

// withMotd makes the site also write a file that an admin has written before.
func (m *machine) withMotd() {
	m.t.Helper()
	m.put("/etc/motd.site", "old motd of the admin\n")
	m.site = strings.Replace(m.site, `stage "write" "kubelet" {}`, `stage "write" "kubelet" {
  file "motd" {
    path    = "/etc/motd.site"
    content = "new\n"
  }
}`, 1)
	m.put("/etc/prelet/site.hcl", m.site)
}

// What a file was before prelet is damaged in the only generation that keeps it: runs adopt the file and apply changes,
// and going back to before prelet is refused before the kubelet is stopped.
func TestDamagedOriginal(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.withMotd()
	m.boot()
	m.flip("generations/1", "old motd of")
	before, pid := m.disk(), m.kubelet.MainPID
	m.want("rollback 0", m.as("", "rollback", "0"), ended{64, "", "the state before prelet is not known"})
	if !maps.Equal(before, m.disk()) || m.gateSays() == "" || m.kubelet.Active != "active" || m.kubelet.MainPID != pid {
		t.Errorf("rollback 0: gate %q, kubelet %+v; want nothing changed", m.gateSays(), m.kubelet)
	}

	m.want("run", m.as("", "run"), ended{0, "Generation 2 is in place", ""})
	if s := m.says(); !strings.Contains(fmt.Sprint(s.Notes), "/etc/motd.site") {
		t.Errorf("notes: got %+v, want that of /etc/motd.site", s.Notes)
	}
	m.want("run again", m.as("", "run"), ended{0, "No changes; generation 2 is in place.", ""})
	m.relabel("b")
	m.want("a change", m.as("", "run"), ended{0, "Generation 3 is in place", ""})

	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, "/etc/motd.site", "/etc/motd.other", 1))
	m.want("no longer declared", m.as("", "run"), ended{0, "Generation 4 is in place", ""})
	if got := m.read("/etc/motd.site"); got != "new\n" {
		t.Errorf("/etc/motd.site: got %q, want it to stay as it is", got)
	}
}

// The same in a generation whose file was changed by the plan at once: the change is applied.
func TestDamagedOriginalAndChange(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.withMotd()
	m.boot()
	m.flip("generations/1", "old motd of")
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, "new", "newer", 1))
	m.reboot()
	run, verify := m.boot()
	m.want("run", run, ended{0, "Generation 2 is in place", ""})
	m.want("verify", verify, ended{0, "the kubelet is healthy on it", ""})
	if got := m.read("/etc/motd.site"); got != "newer\n" {
		t.Errorf("/etc/motd.site: got %q, want newer", got)
	}
}

// The plan that is bad declares a file first, and what that was is damaged: the way back leaves the file, and the
// kubelet runs on the good generation.
func TestDamagedOriginalOfUnhealthy(t *testing.T) {
	t.Parallel()
	m := goodThree(t)
	m.withMotd()
	m.relabel("bad")
	m.reboot()
	m.inside = true
	m.want("run", m.as(app.BootUnit, "run"), ended{0, "", ""})
	m.inside = false
	m.units.start()
	m.flip("generations/4", "old motd of")
	m.want("the bad plan", m.as(app.VerifyUnit, "verify"), ended{50, "", ""})
	if m.gateSays() != "PRELET_GENERATION=5" || m.kubelet.Active != "active" {
		t.Errorf("gate %q, kubelet %+v; want it to run on generation 5", m.gateSays(), m.kubelet)
	}
	flags, motd := m.read("/etc/default/kubelet"), m.read("/etc/motd.site")
	if !strings.Contains(flags, "pool=c") || motd != "new\n" {
		t.Errorf("flags %s, motd %q; want the flags of generation 3, and the file as it is", flags, motd)
	}
}

// Below a root a generation that is damaged in what a file was, or in what it is, is adopted, and changes are applied.
func TestDamagedBelowRoot(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"old motd of", "new\n"} {
		m := newMachine(t)
		m.gone = true
		m.withMotd()
		run := func() ended { return m.as("", "run", "--root", m.root) }
		m.want("run", run(), ended{0, "Generation 1", ""})
		m.flip("generations/1", text)
		m.want("damaged", run(), ended{0, "Generation 2", ""})
		m.want("run again", run(), ended{0, "No changes", ""})
		m.put("/etc/prelet/site.hcl", strings.Replace(m.site, "new", "newer", 1))
		m.want("a change", run(), ended{0, "Generation 3", ""})
		if got := m.read("/etc/motd.site"); got != "newer\n" {
			t.Errorf("/etc/motd.site: got %q, want newer", got)
		}
	}
}

// The newest generation is lost, or damaged, on a node where a generation was chosen by hand or a plan is held: what
// that one had in place stays, and what was gone back from does not come back.
func TestNewestLostWhileHeld(t *testing.T) {
	t.Parallel()
	holds := []struct {
		name, newest, files string
		hold                func(m *machine)
	}{
		{"a pin", "generations/4", "pool=b", func(m *machine) {
			m.want("rollback", m.as("", "rollback", "2"), ended{0, "", ""})
		}},
		{"a pin on before prelet", "generations/4", "", func(m *machine) {
			m.want("rollback", m.as("", "rollback", "0"), ended{0, "", ""})
		}},
		{"a held plan", "generations/5", "pool=c", func(m *machine) {
			m.relabel("bad")
			m.want("the bad plan", m.as("", "run"), ended{50, "", ""})
		}},
	}
	losses := []struct {
		name string
		do   func(m *machine, newest string)
	}{
		{"gone", func(m *machine, newest string) { m.lose(newest) }},
		{"its first line", func(m *machine, newest string) { m.damage(newest, 9) }},
		{"its plan", func(m *machine, newest string) {
			if unit := `"unit":"kubelet.service"`; strings.Contains(m.read("/var/lib/prelet/"+newest), unit) {
				m.flip(newest, unit)
			}
		}},
	}
	for _, h := range holds {
		for _, l := range losses {
			for _, boot := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, boot %v", h.name, l.name, boot), func(t *testing.T) {
					m := goodThree(t)
					h.hold(m)
					flags, held := m.read("/etc/default/kubelet"), m.read("/var/lib/prelet/held.json")
					l.do(m, h.newest)
					for range 2 {
						run := ended{}
						if boot {
							m.reboot()
							run, _ = m.boot()
						} else {
							run = m.as("", "run")
						}
						if run.exit == 41 {
							for _, line := range commands(run.errors) {
								run = m.paste(line)
							}
						}
						m.want("run", run, ended{0, "", ""})
						if got := m.read("/etc/default/kubelet"); got != flags || !strings.Contains(got, h.files) {
							t.Errorf("flags: got %q, want %q with %q", got, flags, h.files)
						}
					}
					m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "", ""})
					if m.gateSays() == "" || m.kubelet.Active != "active" && m.kubelet.Job == 0 {
						t.Errorf("gate %q, kubelet %+v; want it open, and the kubelet to run", m.gateSays(), m.kubelet)
					}
					if got := m.read("/var/lib/prelet/held.json"); got != held {
						t.Errorf("held: got %s, want %s", got, held)
					}
				})
			}
		}
	}
}

// The activation plan of the generation in place is damaged, every file is right, and the run cannot plan: a typing
// error in the site, or the cluster away. The kubelet starts on what is in place; where a file was changed as well it
// does not.
func TestDamagedPlanInPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(m *machine)
		exit  int
		open  bool
	}{
		"a typing error": {func(m *machine) {
			m.put("/etc/prelet/site.hcl", m.site+"stage \"lable\" \"x\" "+
				"{}\n")
		}, 10, true},
		"a typing error, with only one generation": {func(m *machine) { m.put("/etc/prelet/site.hcl", m.site+"stage \"lable\" \"x\" {}\n") }, 10, true},
		"the cluster is away": {func(m *machine) {
			if err := m.server.Close(); err != nil {
				m.t.Fatal(err)
			}
		}, 0, true},
		"the site is gone": {func(m *machine) { m.remove(m.root + "/etc/prelet/site.hcl") }, 0, true},
		"a typing error and a changed file": {func(m *machine) {
			m.put("/etc/prelet/site.hcl", m.site+"stage \"lable\" \"x\" {}\n")
			m.put("/etc/default/kubelet", "changed")
		}, 10, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, gen := goodThree(t), "generations/3"
			if strings.Contains(name, "only") {
				m, gen = goodNode(t), "generations/1"
			}
			m.flip(gen, `"unit":"kubelet.service"`)
			m.flip(gen, `"plan_hash"`)
			c.spoil(m)
			for range 2 {
				m.reboot()
				run, verify := m.boot()
				m.want("run", run, ended{c.exit, "", ""})
				if isOpen := m.gateSays() != ""; isOpen != c.open || (m.kubelet.Active == "active") != c.open {
					t.Errorf("gate %q, kubelet %+v; want it open and the kubelet to run: %t\n%s%s",
						m.gateSays(), m.kubelet, c.open, run.errors, verify.errors)
				}
			}
			if !c.open {
				return
			}
			m.self.Active = "active" // and the gate is lost
			m.emptyRun()
			m.kubelet.Active, m.kubelet.Sub, m.kubelet.MainPID = "activating", "auto-restart", 0
			m.units.start()
			m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "", ""})
			if m.gateSays() == "" {
				t.Error("gate after it was lost: got it shut, want prelet-verify to open it")
			}
		})
	}
}

// The current generation's contents are damaged, while a generation is pinned or the site's plan is held, and no other
// generation has the damaged content: the files stay and are adopted once, and the kubelet starts.
func TestDamagedWhileHeld(t *testing.T) {
	t.Parallel()
	holds := map[string]struct {
		hold    func(m *machine)
		damaged []string
		next    int
	}{
		"a pin": {func(m *machine) {
			m.want("rollback", m.as("", "rollback", "2"), ended{0, "", ""})
		}, []string{"generations/4", "generations/2"}, 5},
		"a held plan, and another one since": {func(m *machine) {
			m.relabel("bad")
			m.want("the bad plan", m.as("", "run"), ended{50, "", ""})
			m.relabel("d")
			m.want("another", m.as("", "run"), ended{0, "Generation 6 is in place", ""})
			m.relabel("bad")
			m.labels["example.com/pool"] = "d"
		}, []string{"generations/6"}, 7},
	}
	for name, h := range holds {
		for _, text := range []string{`"unit":"kubelet.service"`, `"plan_hash"`, `"format":`, "pool="} {
			for _, boot := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, boot %v", name, text, boot), func(t *testing.T) {
					m := goodThree(t)
					h.hold(m)
					for _, name := range h.damaged {
						m.flip(name, text)
					}
					flags, held, pid := m.read(
						"/etc/default/kubelet",
					), m.read(
						"/var/lib/prelet/held.json",
					), m.kubelet.MainPID
					again := func() (run ended) {
						if !boot {
							return m.as("", "run")
						}
						m.reboot()
						pid = 0
						run, _ = m.boot()
						return run
					}
					m.want("run", again(), ended{0, fmt.Sprintf("eneration %d is in place", h.next), ""})
					disk := m.disk()
					m.want("run again", again(), ended{0, fmt.Sprintf("generation %d is in place", h.next), ""})
					if !maps.Equal(disk, m.disk()) {
						t.Error("the second run wrote to the disk, want nothing to do")
					}
					if got := m.read("/etc/default/kubelet"); got != flags {
						t.Errorf("flags: got %q, want %q", got, flags)
					}
					if got := m.read("/var/lib/prelet/held.json"); got != held {
						t.Errorf("held: got %s, want %s", got, held)
					}
					if m.gateSays() != fmt.Sprintf("PRELET_GENERATION=%d", h.next) || m.kubelet.Active != "active" ||
						pid != 0 && m.kubelet.MainPID != pid {
						t.Errorf("gate %q, kubelet %+v; want it to run on", m.gateSays(), m.kubelet)
					}
					m.want("release", m.as("", "rollback", "--release"), ended{0, "", ""})
					m.relabel("e")
					m.want("a change", m.as("", "run"), ended{0, "the kubelet is healthy on it", ""})
				})
			}
		}
	}
}

// spoilt are the forms in which a file of the state folder is damaged.
func spoilt() map[string]func(t *testing.T, path string) {
	write := func(change func(text []byte) []byte) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			t.Helper()
			text, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, change(text), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	replace := func(with func(path string) error) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			t.Helper()
			if err := errors.Join(os.Remove(path), with(path)); err != nil {
				t.Fatal(err)
			}
		}
	}

	return map[string]func(t *testing.T, path string){
		"empty":   write(func([]byte) []byte { return nil }),
		"half":    write(func(text []byte) []byte { return text[:len(text)/2] }),
		"garbage": write(func([]byte) []byte { return []byte("\x00\xff\n{}[") }),
		"short":   write(func(text []byte) []byte { return text[:len(text)-1] }),
		"folder":  replace(func(path string) error { return os.MkdirAll(path+"/x", 0o755) }),
		"a link":  replace(func(path string) error { return os.Symlink("/dev/null", path) }),
		"a pipe":  replace(func(path string) error { return syscall.Mkfifo(path, 0o600) }),
	}
}

// TestSettledNodeWithDamagedFile damages a file of the newest generation, of the last good one before it, or of what
// was staged, on a node whose files are all as planned: the next boot, or run by hand, ends as if the file was lost,
// degraded, and writes to no managed file.
func TestSettledNodeWithDamagedFile(t *testing.T) {
	t.Parallel()
	files := []struct {
		name       string
		gen        int // in place after it
		isDegraded bool
		prepare    func(m *machine)
	}{
		{"generations/3", 4, true, nil},
		{"generations/3.status.json", 4, true, nil},
		{"generations/2", 3, false, nil},
		{"generations/2.status.json", 3, false, nil},
		{"generations/4.staged", 3, true, func(m *machine) {
			m.staged("/etc/default/kubelet", func(*generation.Txn) error { return nil })
		}},
		{"journal.json", 3, true, func(m *machine) {
			m.staged("/etc/default/kubelet", func(t *generation.Txn) error { _, err := t.Commit(); return err })
		}},
	}
	for _, f := range files {
		for form, spoil := range spoilt() {
			for _, boot := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %s, boot %v", f.name, form, boot), func(t *testing.T) {
					t.Parallel()
					m := goodThree(t)
					before, flags := m.managed(), m.read("/etc/default/kubelet")
					if f.prepare != nil {
						f.prepare(m)
					}
					spoil(t, m.stateDir()+"/"+f.name)

					var run ended
					if boot {
						m.reboot()
						run, _ = m.boot()
					} else {
						run = m.as("", "run")
					}
					m.want("run", run, ended{0, fmt.Sprintf("eneration %d is in place", f.gen), ""})
					s := m.says()
					hasReason := len(s.Degraded) == 1 && s.Degraded[0].Code == "adopted" &&
						strings.Contains(s.Degraded[0].Summary, f.name+" is damaged (")
					if hasReason != f.isDegraded {
						t.Errorf("degraded: got %+v, want that %s is damaged: %v", s.Degraded, f.name, f.isDegraded)
					}
					if m.gateSays() != fmt.Sprintf("PRELET_GENERATION=%d", f.gen) || m.kubelet.Active != "active" {
						t.Errorf("gate %q, kubelet %+v; want it to run on %d", m.gateSays(), m.kubelet, f.gen)
					}
					if f.prepare == nil {
						m.sameFiles(before)
					}
					if got := m.read("/etc/default/kubelet"); got != flags {
						t.Errorf("flags: got %q, want %q", got, flags)
					}
					for p := range m.disk() {
						if strings.HasPrefix(filepath.Base(p), ".prelet-") {
							t.Errorf("left behind: %s", p)
						}
					}
					m.want("run again", m.as("", "run"), ended{0, "No changes", ""})
				})
			}
		}
	}
}

// A damaged newest generation and a site that changes at the same boot: the change is applied.
func TestDamagedNewestAndChange(t *testing.T) {
	t.Parallel()
	m := goodThree(t)
	m.putState("generations/3", "")
	m.relabel("d")
	m.reboot()
	run, verify := m.boot()
	m.want("run", run, ended{0, "Generation 4 is in place", ""})
	m.want("verify", verify, ended{0, "the kubelet is healthy on it", ""})
	m.want("status", m.as("", "status"), ended{2, "generations/3 is damaged", ""})
}

// A name with a number that prelet never gave is not a generation.
func TestForeignNumber(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"9223372036854775807", "9223372036854775807.status.json", "4000000000.staged"} {
		m := goodThree(t)
		m.putState("generations/"+name, "x")
		m.relabel("d")
		m.want(name, m.as("", "run"), ended{0, "Generation 4 is in place", ""})
		m.want("history", m.as("", "history"), ended{0, "4", ""})
	}
}
