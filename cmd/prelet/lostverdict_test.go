package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/app"
)

// awaitsVerdict is a node on which a boot has put generation 2 in place, and the kubelet runs on it without a verdict.
func awaitsVerdict(t *testing.T) *machine {
	t.Helper()
	m := goodNode(t)
	m.relabel("b")
	m.reboot()
	m.inside = true
	m.want("run", m.as(app.BootUnit, "run"), ended{0, "Generation 2 is in place; prelet-verify judges it", ""})
	m.inside = false
	m.units.start()

	return m
}

// lose removes files or folders of the state folder.
func (m *machine) lose(names ...string) {
	m.t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(m.stateDir() + "/" + name); err != nil {
			m.t.Fatal(err)
		}
	}
}

// A generation is lost while its verdict is awaited: prelet-verify has nothing to judge and leaves the kubelet alone,
// and the next run adopts the files.
func TestVerifyOfLostGeneration(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"generations", "generations/2"} {
		t.Run(lost, func(t *testing.T) {
			m := awaitsVerdict(t)
			m.lose(lost)
			before, pid, gate := m.managed(), m.kubelet.MainPID, m.gateSays()
			m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "", ""})
			m.want("verify by hand", m.as("", "verify"), ended{0, "", ""})
			m.sameFiles(before)
			if m.kubelet.MainPID != pid || m.gateSays() != gate {
				t.Errorf("kubelet %d, gate %q; want %d and %q", m.kubelet.MainPID, m.gateSays(), pid, gate)
			}
			m.want("run", m.as("", "run"), ended{0, "Generation 3 is in place, and the kubelet is healthy", ""})
		})
	}
}

// The same on a site that has nothing to write: the next boot opens the gate.
func TestLostGenerationWithNothingToWrite(t *testing.T) {
	t.Parallel()
	m := awaitsVerdict(t)
	m.lose("generations")
	m.put("/etc/prelet/site.hcl", "stage \"restart\" \"kubelet\" {}\n")
	m.reboot()
	run, verify := m.boot()
	m.want("run", run, ended{0, "Nothing to write", ""})
	m.want("verify", verify, ended{0, "", ""})
	if len(m.starts) != 1 || m.gateSays() != "PRELET_GENERATION=0" {
		t.Errorf("starts %q, gate %q; want one start on an open gate", m.starts, m.gateSays())
	}
}

// A generation is removed while it is watched: there is no verdict, and the next run adopts the files.
func TestGenerationLostInVerdict(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"generations", "generations/2"} {
		t.Run(lost, func(t *testing.T) {
			m := awaitsVerdict(t)
			m.slept = func(context.Context) { m.lose(lost) }
			m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "removed while it was watched", ""})
			if m.kubelet.Active != "active" || m.gateSays() == "" {
				t.Errorf("kubelet %+v, gate %q; want both left alone", m.kubelet, m.gateSays())
			}
			m.want("run", m.as("", "run"), ended{0, "Generation 3 is in place, and the kubelet is healthy", ""})
		})
	}
}

// What was recorded of a verdict is lost, or the journal that awaits one is damaged and moved aside as prelet says: the
// files are judged again, and are what the next bad plan goes back to.
func TestLostVerdict(t *testing.T) {
	t.Parallel()
	ways := map[string]func(t *testing.T) *machine{
		"the status of the generation in place": func(t *testing.T) *machine {
			m := goodThree(t)
			m.lose("generations/3.status.json")
			m.want("status", m.as("", "status"), ended{m.as("", "status").exit, "generation  3", ""})
			m.want("run", m.as("", "run"), ended{0, "Generation 4 is in place, and the kubelet is healthy", ""})

			return m
		},
		"the status, damaged": func(t *testing.T) *machine {
			m := goodThree(t)
			m.damage("generations/3.status.json", 0)
			m.want("run", m.as("", "run"), ended{0, "Generation 4 is in place, and the kubelet is healthy", ""})
			m.want("status", m.as("", "status"), ended{2, "3.status.json is damaged", ""})

			return m
		},
		"the journal": func(t *testing.T) *machine {
			m := goodThree(t)
			m.relabel("d")
			m.reboot()
			m.inside = true
			m.want("run", m.as(app.BootUnit, "run"), ended{0, "Generation 4 is in place; prelet-verify judges it", ""})
			m.inside = false
			m.damage("journal.json", 9)
			m.units.start()
			verify := m.as(app.VerifyUnit, "verify")
			m.want("verify", verify, ended{41, "", "journal.json"})
			for _, line := range commands(verify.errors) {
				m.paste(line)
			}
			m.want("status", m.as("", "status"), ended{0, "good", ""})

			return m
		},
		"the status, at a boot": func(t *testing.T) *machine {
			m := goodThree(t)
			m.lose("generations/3.status.json")
			m.reboot()
			run, verify := m.boot()
			m.want("run", run, ended{0, "Generation 4 is in place; prelet-verify judges it", ""})
			m.want("verify", verify, ended{0, "the kubelet is healthy on it", ""})

			return m
		},
	}
	for name, lose := range ways {
		t.Run(name, func(t *testing.T) {
			m := lose(t)
			flags := m.read("/etc/default/kubelet")
			disk := m.disk()
			m.want("the next run", m.as("", "run"), ended{0, "No changes", ""})
			if after := m.disk(); !maps.Equal(disk, after) {
				t.Error("the next run wrote to the disk")
			}
			m.relabel("bad")
			m.want("a bad plan", m.as("", "run"), ended{50, "", "was unhealthy and was rolled back"})
			if got := m.read("/etc/default/kubelet"); got != flags || m.kubelet.Active != "active" {
				t.Errorf("kubelet %+v with flags %s, want it to run with %s", m.kubelet, got, flags)
			}
		})
	}
}

// The generation in place is lost while the kubelet runs on it: every command says so, and what to do, and none says
// that prelet has never run or that the generation is good.
func TestCommandsAfterLoss(t *testing.T) {
	t.Parallel()
	for _, l := range losses() {
		if strings.Contains(l.name, "middle") {
			continue // recover finishes or refuses that
		}
		t.Run(l.name, func(t *testing.T) {
			m := losingNode(t)
			l.do(m)
			const want = "2 is in place, and "
			m.want("status", m.as("", "status"), ended{2, want, ""})
			m.want("status -o json", m.as("", "status", "-o", "json"), ended{2, `"lost"`, ""})
			m.want("verify", m.as("", "verify"), ended{0, want, ""})
			m.want("recover", m.as("", "recover"), ended{0, want, ""})
			m.want("the unit", m.as(app.VerifyUnit, "verify"), ended{0, "", ""})
			m.want("run", m.as("", "run"), ended{0, "in place", ""})
			m.want("status", m.as("", "status"), ended{0, "adopted:", ""})
		})
	}
}

// The state folder, or all that is in it, is removed during the verdict of a run by hand: the kubelet runs on, the
// run ends without a verdict and promises nothing that is gone, and the next run adopts the files.
func TestStateLostInVerdict(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(m *machine){
		"the folder":    func(m *machine) { m.lose("") },
		"what is in it": func(m *machine) { m.lose("journal.json", "generations", "lock", "held.json") },
		"files, not folders": func(m *machine) {
			m.lose("journal.json", "lock")
			for _, dir := range []string{"generations"} {
				left, _ := filepath.Glob(m.stateDir() + "/" + dir + "/*")
				for _, p := range left {
					m.remove(p)
				}
			}
		},
		"the folder, another is made": func(m *machine) {
			m.lose("")
			if err := os.Mkdir(m.stateDir(), 0o700); err != nil {
				m.t.Fatal(err)
			}
		},
	} {
		for _, who := range []string{"", app.VerifyUnit} {
			for _, isUnhealthy := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s unhealthy %v", name, who, isUnhealthy), func(t *testing.T) {
					m := goodNode(t)
					command := "run"
					if m.relabel("b"); who != "" {
						m, command = awaitsVerdict(t), "verify"
					}
					m.slept = func(context.Context) {
						lose(m)
						if isUnhealthy {
							m.sick = func() error { return errors.New("500") }
						}
					}
					res := m.as(who, command)
					text := res.out + res.errors
					m.want(command, res, ended{0, "", ""})
					if !strings.Contains(text, "removed while it was watched: the next run adopts its files") ||
						strings.Contains(text, "journal is kept") {
						t.Errorf("%s: got %s; want that it was removed", command, text)
					}
					if m.kubelet.Active != "active" || m.gateSays() != "PRELET_GENERATION=2" {
						t.Errorf("kubelet %+v, gate %q; want both left alone", m.kubelet, m.gateSays())
					}
					m.sick = nil
					before := m.managed()
					m.want(
						"the next run",
						m.as("", "run"),
						ended{0, "Generation 3 is in place, and the kubelet is healthy", ""},
					)
					m.sameFiles(before)
				})
			}
		}
	}
}

// The same during the verdict on a way back: the run still ends with 50 and says what it went back from.
func TestStateLostInVerdictOnWayBack(t *testing.T) {
	t.Parallel()
	m := goodThree(t)
	sick, starts := m.sick, len(m.starts)
	m.sick = func() error {
		if err := sick(); err != nil || len(m.starts) < starts+2 {
			return err
		}
		m.lose("")

		return nil
	}
	m.relabel("bad")
	m.want("run", m.as("", "run"), ended{50, "", "eneration 4 was unhealthy and was rolled back"})
	if flags := m.read("/etc/default/kubelet"); !strings.Contains(flags, "pool=c") || m.kubelet.Active != "active" ||
		m.gateSays() != "PRELET_GENERATION=5" {
		t.Errorf("flags %s, kubelet %+v, gate %q; want it to run on what came back", flags, m.kubelet, m.gateSays())
	}
	m.want("status", m.as("", "status"), ended{1, "adopts", ""})
	m.sick = sick
	m.relabel("c")
	m.want("the next run", m.as("", "run"), ended{0, "Generation 6 is in place, and the kubelet is healthy", ""})
}
