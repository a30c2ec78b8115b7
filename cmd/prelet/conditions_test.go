package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/report/condition"
)

// newConditioned returns a machine whose site has these condition blocks.
func newConditioned(t *testing.T, blocks string) *machine {
	t.Helper()
	m := newMachine(t)
	m.putConditions(blocks)
	return m
}

const gpuReady = `condition "example.com/GPUReady" {}`

// checked is a condition with a check of a file of the machine.
const checked = `condition "example.com/GPUReady" {
    check {
      condition     = trimspace(file("/etc/gpus")) == "8"
      error_message = "Only ${trimspace(file("/etc/gpus"))} of 8 GPUs"
    }
  }`

// putConditions writes the site with condition blocks.
func (m *machine) putConditions(blocks string) {
	m.t.Helper()
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site,
		`stage "restart" "kubelet" {}`, "stage \"restart\" \"kubelet\" {\n  "+blocks+"\n}", 1))
}

// wantConditions checks the patches of conditions since the last call.
func (m *machine) wantConditions(what string, want ...string) {
	m.t.Helper()
	got := m.conditioned
	m.conditioned = nil
	if !slices.Equal(got, want) {
		m.t.Errorf("%s: got patches %q, want %q", what, got, want)
	}
}

// Each boot makes a condition False before the kubelet starts, and True after it is healthy: one patch each.
func TestConditionsOfEachBoot(t *testing.T) {
	t.Parallel()
	m := newConditioned(t, gpuReady)
	m.conditions = []condition.Condition{{Type: "Ready", Status: "True", Reason: "KubeletReady", Message: "m"}}
	m.boot()
	m.wantConditions("the first boot", "GPUReady=True(Verified)")

	for range 2 {
		m.reboot()
		m.inside = true
		m.onStart = func() { m.wantConditions("before the kubelet starts", "GPUReady=False(Booting)") }
		m.want("run", m.as(app.BootUnit, "run"), ended{0, "No changes", ""})
		m.inside = false
		m.units.start()
		m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "", ""})
		m.wantConditions("after the kubelet's start", "GPUReady=True(Verified)")
	}
	if len(m.conditions) != 2 || m.conditions[0].Type != "Ready" {
		t.Errorf("conditions of the Node: got %+v, want Ready as it was and GPUReady", m.conditions)
	}

	m.want("run without a change", m.as(app.ApplyUnit, "run"), ended{0, "No changes", ""})
	m.want("verify by hand", m.as("", "verify"), ended{0, "", ""})
	m.wantConditions("without a change")
}

// A check that does not hold keeps the condition False with its message, and the node degraded. A check that fails on
// this machine makes it Unknown, and the boot goes on.
func TestConditionsWithChecks(t *testing.T) {
	t.Parallel()
	m := newConditioned(t, checked)
	m.put("/etc/gpus", "7\n")
	run, _ := m.boot()
	m.want("boot with 7 GPUs", run, ended{0, "", "Condition example.com/GPUReady of the Node is False"})
	m.wantConditions("7 GPUs", "GPUReady=False(CheckFailed)")
	if got := m.conditions[0].Message; got != "Only 7 of 8 GPUs" {
		t.Errorf("message: got %q, want the one of the site", got)
	}
	m.want("status", m.as("", "status"), ended{2, "Only 7 of 8 GPUs", ""})

	m.put("/etc/gpus", "8\n")
	m.want("run with 8 GPUs", m.as(app.ApplyUnit, "run"), ended{0, "No changes", ""})
	m.wantConditions("8 GPUs", "GPUReady=True(Verified)")

	m.reboot()
	m.remove(m.root + "/etc/gpus")
	run, _ = m.boot()
	m.want("boot without the file", run, ended{0, "No changes", ""})
	m.wantConditions("without the file", "GPUReady=False(Booting)", "GPUReady=Unknown(CheckUnknown)")
}

// A site that fails makes a condition with checks Unknown at a boot, and leaves it as it is later.
func TestConditionsOfAFailedRun(t *testing.T) {
	t.Parallel()
	m := newConditioned(t, checked)
	m.put("/etc/gpus", "8\n")
	m.boot()
	m.conditioned = nil

	m.put("/etc/prelet/site.hcl", "stage {")
	m.want("run", m.as(app.ApplyUnit, "run"), ended{10, "", ""})
	m.wantConditions("a failed run outside of the boot")

	m.reboot()
	m.boot()
	m.wantConditions("a failed run at boot", "GPUReady=False(Booting)", "GPUReady=Unknown(CheckUnknown)")
}

// A condition that the site drops is removed from the Node; those of other parties stay.
func TestConditionsAreRemoved(t *testing.T) {
	t.Parallel()
	m := newConditioned(t, gpuReady+"\n  condition \"example.com/Fabric\" {}")
	m.boot()
	m.wantConditions("two", "GPUReady=True(Verified) Fabric=True(Verified)")
	m.conditions = append(m.conditions, condition.Condition{Type: "example.com/Other", Status: "True"})

	m.putConditions(gpuReady)
	m.as(app.ApplyUnit, "run")
	m.wantConditions("one is dropped", "Fabric-")

	m.put("/etc/prelet/site.hcl", m.site)
	m.as(app.ApplyUnit, "run")
	m.wantConditions("both are dropped", "GPUReady-")
	if text := m.read("/var/lib/prelet/conditions.json"); text != "" {
		t.Errorf("conditions.json: got %s, want no file", text)
	}
	m.reboot()
	m.boot()
	m.wantConditions("a boot without conditions")
	if len(m.conditions) != 1 || m.conditions[0].Type != "example.com/Other" {
		t.Errorf("conditions of the Node: got %+v, want that of another party", m.conditions)
	}
}

type refusal struct{}

func (refusal) Error() string { return "admission webhook denied the request" }
func (refusal) Refused() bool { return true }

// While the cluster does not answer, or refuses, the boot is as always, and prelet-verify tries until it works.
func TestConditionsWhenTheClusterFails(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(m *machine, err error){
		"unreachable": func(m *machine, err error) { m.nodeFail = err },
		"refused": func(m *machine, err error) {
			if m.conditionFail = err; err != nil {
				m.conditionFail = refusal{}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newConditioned(t, gpuReady)
			m.boot()
			m.reboot()
			m.conditioned = nil
			m.conditions = nil // the Node was made again

			fail(m, errors.New("connection refused"))
			m.inside = true
			m.want("boot", m.as(app.BootUnit, "run"), ended{0, "No changes", ""})
			m.inside = false
			m.want("status", m.as("", "status"), ended{0, "node-condition", ""})
			m.wantConditions("at the begin")
			m.units.start()

			before := m.now
			var untilNoted func(context.Context)
			untilNoted = func(context.Context) {
				if m.slept = untilNoted; strings.Contains(m.as("", "status").out, "tries again") {
					fail(m, nil)
					m.slept = nil
				}
				if m.now-before > 10*time.Minute {
					t.Fatalf("status after 10 minutes of tries: got %+v, want a note", m.as("", "status"))
				}
			}
			m.slept = untilNoted
			m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "", ""})
			m.wantConditions("once it works", "GPUReady=True(Verified)")
			if took := m.now - before; took > 6*time.Minute {
				t.Errorf("got %s until the Node had its condition, want at most 6 minutes", took)
			}
			status := m.as("", "status")
			if strings.Contains(status.out, "node-condition") {
				t.Errorf("status after it worked: got\n%s\nwant no note", status.out)
			}
			if _, err := os.Stat(filepath.Join(m.run, "conditions.owed")); err == nil {
				t.Error("conditions.owed: got the file, want none: the Node has the condition")
			}
		})
	}
}

// An unhealthy kubelet makes the condition False, once it had time to start.
func TestConditionsOfAnUnhealthyKubelet(t *testing.T) {
	t.Parallel()
	m := newConditioned(t, gpuReady)
	m.boot()
	m.reboot()
	m.conditioned = nil

	m.sick = func() error { return errors.New("it answers 500") }
	began := m.now
	m.onStart = nil
	heal := 3 * time.Minute
	var look func(context.Context)
	look = func(context.Context) {
		if m.slept = look; m.now-began > heal {
			m.sick, m.slept = nil, nil
		}
	}
	m.slept = look
	m.boot()
	m.wantConditions("unhealthy, then healthy",
		"GPUReady=False(Booting)", "GPUReady=False(KubeletUnhealthy)", "GPUReady=True(Verified)")
}

// A shutdown makes the conditions False; a restart of prelet.service does not.
func TestConditionsAtStop(t *testing.T) {
	t.Parallel()
	m := newConditioned(t, gpuReady)
	m.boot()
	m.conditioned = nil

	m.restart = true
	m.want("a restart of prelet.service", m.as(app.BootUnit, "stopping"), ended{0, "", ""})
	m.wantConditions("a restart of prelet.service")
	m.want("its run", m.as(app.BootUnit, "run"), ended{0, "No changes", ""})
	if !slices.Contains(m.wanted, app.VerifyUnit) {
		t.Errorf("after a restart of prelet.service: got starts of %q, want one of %s", m.wanted, app.VerifyUnit)
	}

	m.restart = false
	m.nodeFail = errors.New("connection refused")
	m.want("a shutdown without the cluster", m.as(app.BootUnit, "stopping"), ended{0, "", "stay as they are"})
	m.nodeFail = nil
	m.want("a shutdown", m.as(app.BootUnit, "stopping"), ended{0, "", ""})
	m.wantConditions("a shutdown", "GPUReady=False(Stopping)")

	other := newMachine(t)
	other.boot()
	other.want("a shutdown without conditions", other.as(app.BootUnit, "stopping"), ended{0, "", ""})
	other.wantConditions("a shutdown without conditions")
}

// A copy of the disk does not touch the conditions of the node that it is a copy of.
func TestConditionsOnACopiedDisk(t *testing.T) {
	t.Parallel()
	m := newConditioned(t, gpuReady)
	m.boot()
	m.reboot()
	m.conditioned = nil
	m.put("/etc/machine-id", "ffffffffffffffffffffffffffffffff\n")
	m.inside = true
	m.as(app.BootUnit, "run")
	m.inside = false
	m.wantConditions("at the begin of a boot on another machine")
}

// A rollback keeps the condition as the kubelet is afterwards.
func TestConditionsAfterARollback(t *testing.T) {
	t.Parallel()
	m := newConditioned(t, gpuReady)
	m.boot()
	m.conditioned = nil

	m.site = strings.Replace(m.site, `"a"`, `"b"`, 1)
	m.putConditions(gpuReady)
	m.sick = func() error {
		if strings.Contains(m.read("/etc/default/kubelet"), "pool=b") {
			return errors.New("it answers 500")
		}
		return nil
	}
	m.want("run", m.as(app.ApplyUnit, "run"), ended{50, "", "rolled back"})
	m.wantConditions("a rollback to a healthy kubelet")

	m.sick = func() error { return errors.New("it answers 500") }
	m.as(app.ApplyUnit, "run", "--retry")
	m.wantConditions("unhealthy after a rollback, too", "GPUReady=False(KubeletUnhealthy)")
	if !slices.Contains(m.wanted, app.VerifyUnit) {
		t.Errorf("unhealthy after a rollback: got starts of %q, want one of %s", m.wanted, app.VerifyUnit)
	}
}

// bootTo is the part of a boot before prelet-verify.service: prelet.service, then the kubelet.
func (m *machine) bootTo() ended {
	m.t.Helper()
	m.inside = true
	run := m.as(app.BootUnit, "run")
	m.inside = false
	m.units.start()

	return run
}

// during calls look at each sleep of one command, which must end within a limit of virtual time.
func (m *machine) during(limit time.Duration, look func(), unit string, args ...string) ended {
	m.t.Helper()
	began := m.now
	var each func(context.Context)
	each = func(context.Context) {
		m.slept = each
		if m.now-began > limit {
			m.t.Fatalf("%v still goes on after %s: conditions of the Node: got %+v", args, limit, m.conditions)
		}
		if look != nil {
			look()
		}
	}
	m.slept = each
	defer func() { m.slept = nil }()

	return m.as(unit, args...)
}

// A site that writes nothing has no generation: the kubelet itself decides.
func TestConditionsWithoutAGeneration(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sick error
		want []string
	}{
		"healthy":   {nil, []string{"X=True(Verified)"}},
		"unhealthy": {errors.New("connection refused"), []string{"X=False(KubeletUnhealthy)", "X=True(Verified)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.put("/etc/prelet/site.hcl", "stage \"restart\" \"kubelet\" {\n  condition \"example.com/X\" {}\n}\n")
			conf, err := m.server.NodeKubeconfig("n1")
			if err != nil {
				t.Fatal(err)
			}
			m.put("/etc/kubernetes/kubelet.conf", string(conf))
			m.sick = func() error { return test.sick }

			m.want("run", m.bootTo(), ended{0, "Nothing to write", ""})
			began := m.now
			m.want("verify", m.during(10*time.Minute, func() {
				if m.now-began > 4*time.Minute {
					test.sick = nil
				}
			}, app.VerifyUnit, "verify"), ended{0, "", ""})
			m.wantConditions("a kubelet that prelet wrote nothing for", test.want...)
		})
	}
}

// While nothing is known about the kubelet the condition is Unknown, and tried again.
func TestConditionsWhileSystemdDoesNotAnswer(t *testing.T) {
	t.Parallel()
	m := newConditioned(t, gpuReady)
	m.boot()
	m.reboot()
	m.bootTo()
	m.conditioned = nil

	m.gone = true
	began := m.now
	m.want("verify", m.during(10*time.Minute, func() {
		m.gone = m.now-began < 4*time.Minute
	}, app.VerifyUnit, "verify"), ended{0, "", ""})
	m.wantConditions("systemd does not answer for 4 minutes",
		"GPUReady=Unknown(KubeletUnknown)", "GPUReady=True(Verified)")
}

// A gate that is lost while prelet-verify tries to patch is written again, with conditions as without.
func TestGateIsLostWhileConditionsAreTried(t *testing.T) {
	t.Parallel()
	m := newConditioned(t, gpuReady)
	m.boot()
	m.reboot()
	m.conditions = nil // the Node was made again
	m.conditionFail = refusal{}
	m.bootTo()
	m.conditioned = nil

	var lost, back time.Duration
	began := m.now
	m.want("verify", m.during(time.Hour, func() {
		_, err := os.Stat(m.gate)
		switch {
		case lost == 0 && m.now-began > time.Minute:
			m.remove(m.gate)
			_, _ = m.Stop(t.Context(), "kubelet.service", 0)
			m.units.start() // fails: prelet-verify.service is active, and is not started again
			lost = m.now
		case lost != 0 && back == 0 && err == nil:
			m.conditionFail = nil
			m.units.start()
			back = m.now
		}
	}, app.VerifyUnit, "verify"), ended{0, "", ""})

	if back == 0 || back-lost > 30*time.Second {
		t.Errorf("the gate, lost at %s: got it back at %s, want within 30 s", lost, back)
	}
	m.wantConditions("after that", "GPUReady=True(Verified)")
}

// While prelet keeps the gate shut, prelet-verify ends: the kubelet's next start starts it again.
func TestConditionsEndBehindAShutGate(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]error{"patched": nil, "refused": refusal{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newConditioned(t, gpuReady)
			m.boot()
			m.reboot()
			m.bootTo()
			m.conditioned = nil

			m.conditionFail = fail
			m.put("/etc/default/kubelet", "by hand\n") // the files are not those of the generation
			m.remove(m.gate)
			_, _ = m.Stop(t.Context(), "kubelet.service", 0)
			m.units.start()
			m.during(time.Minute, nil, app.VerifyUnit, "verify")

			if _, err := os.Stat(m.gate); err == nil {
				t.Fatal("the gate over files of another: got it open, want it shut")
			}
			if fail == nil {
				m.wantConditions("behind a shut gate", "GPUReady=False(GateShut)")
			}
			if _, err := os.Stat(filepath.Join(m.run, "conditions.owed")); err != nil {
				t.Errorf("conditions.owed: got %v, want the file: the next start of the kubelet tries again", err)
			}
		})
	}
}

// A run that replaces the conditions while prelet-verify patches the earlier ones loses nothing: the next boot makes
// all of them False.
func TestConditionsOfTwoAtOnce(t *testing.T) {
	t.Parallel()
	m := newConditioned(t, gpuReady)
	m.boot()
	m.reboot()
	m.bootTo()

	isFirst := true
	m.sick = func() error {
		if isFirst {
			isFirst = false
			m.putConditions(gpuReady + "\n  condition \"example.com/Fabric\" {}")
			m.want("the run meanwhile", m.as(app.ApplyUnit, "run"), ended{0, "No changes", ""})
		}
		return nil
	}
	m.during(5*time.Minute, nil, app.VerifyUnit, "verify")
	m.sick = nil

	record := m.read("/var/lib/prelet/conditions.json")
	for _, typ := range []string{"example.com/GPUReady", "example.com/Fabric"} {
		if !strings.Contains(record, typ) {
			t.Errorf("conditions.json: got %s, want %s in it", record, typ)
		}
	}
	m.conditioned = nil
	m.reboot()
	m.onStart = func() {
		m.wantConditions("before the kubelet starts", "GPUReady=False(Booting) Fabric=False(Booting)")
	}
	m.bootTo()
}

// A command by hand does not wait for a kubelet that is stopped or unhealthy.
func TestConditionsByHandAreTriedOnce(t *testing.T) {
	t.Parallel()
	holds := `condition "example.com/GPUReady" {
    check {
      condition     = true
      error_message = "x"
    }
  }`
	for name, prepare := range map[string]func(m *machine){
		"unhealthy": func(m *machine) { m.sick = func() error { return errors.New("it answers 500") } },
		"stopped":   func(m *machine) { _, _ = m.Stop(m.t.Context(), "kubelet.service", 0) },
	} {
		for _, command := range []string{"run", "verify"} {
			t.Run(name+" "+command, func(t *testing.T) {
				t.Parallel()
				m := newConditioned(t, gpuReady)
				m.boot()
				m.putConditions(holds)
				if command == "verify" { // an earlier process was killed
					owed := filepath.Join(m.run, "conditions.owed")
					if err := os.WriteFile(owed, []byte("{}"), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				prepare(m)
				m.conditioned = nil

				before := m.now
				m.as("", command)
				if took := m.now - before; took > 15*time.Second {
					t.Errorf("prelet %s with a kubelet that is %s: took %s, want at most 15 s", command, name, took)
				}
				if !slices.Contains(m.wanted, app.VerifyUnit) {
					t.Errorf("prelet %s: got starts of %q, want one of %s", command, m.wanted, app.VerifyUnit)
				}
				m.wantConditions("prelet " + command)
			})
		}
	}
}

// With prelet=off the condition says so, once for each boot.
func TestConditionsWhileOff(t *testing.T) {
	t.Parallel()
	m := newConditioned(t, gpuReady)
	m.boot()
	m.as(app.BootUnit, "stopping")
	m.conditioned = nil

	m.reboot()
	m.put("/proc/cmdline", "quiet prelet=off\n")
	m.boot()
	m.wantConditions("a boot with prelet=off", "GPUReady=Unknown(TurnedOff)")
	m.as("", "run")
	m.wantConditions("prelet run with prelet=off")

	m.reboot()
	m.nodeFail = errors.New("connection refused")
	m.boot()
	m.nodeFail = nil
	m.want("status", m.as("", "status"), ended{2, "has those from before this boot: connection refused", ""})

	m.reboot()
	m.put("/proc/cmdline", "quiet\n")
	m.boot()
	m.wantConditions("a boot without it", "GPUReady=False(Booting)", "GPUReady=True(Verified)")
}

// Where prelet-verify.service is not installed, a run waits itself for a kubelet that has just started.
func TestConditionsWithoutPreletVerify(t *testing.T) {
	t.Parallel()
	m := newConditioned(t, gpuReady)
	m.boot()
	m.conditioned = nil
	m.conditions = nil
	if err := os.WriteFile(filepath.Join(m.run, "conditions.owed"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}

	m.noVerify = true
	began := m.now
	m.sick = func() error {
		if m.now-began < 20*time.Second {
			return errors.New("connection refused")
		}
		return nil
	}
	got := m.during(5*time.Minute, nil, "", "run")
	m.want("run", got, ended{0, "No changes", "Unit prelet-verify.service not found."})
	if n := strings.Count(got.errors, "not found"); n != 1 {
		t.Errorf("messages about prelet-verify.service: got %d, want 1:\n%s", n, got.errors)
	}
	m.wantConditions("a kubelet that starts", "GPUReady=True(Verified)")
}

// A run that failed does not wait for a kubelet that does not come up, also where prelet-verify.service is not
// installed.
func TestConditionsOfFailedRun(t *testing.T) {
	t.Parallel()
	m := newConditioned(t, gpuReady)
	m.boot()
	m.noVerify = true
	m.sick = func() error { return errors.New("connection refused") }
	m.put("/etc/prelet/site.hcl", m.read("/etc/prelet/site.hcl")+"stage \"lable\" \"x\" {}\n")
	began := m.now
	m.want("run", m.during(5*time.Minute, nil, "", "run"), ended{10, "", "lable"})
	if took := m.now - began; took > 5*time.Second {
		t.Errorf("the run took %s, want its answer at once", took)
	}
}
