package activation

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
)

// Log lines of kubelet v1.36.3 about a pod that containerd 1.6 cannot start: with a cgroup driver that is not the
// runtime's, and with an image whose program cannot be executed.
const (
	otherDriver = `E1120 16:35:14.243391 93 log.go:32] "RunPodSandbox from runtime service failed" err="rpc error: code = Unknown desc = failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: expected cgroupsPath to be of format \"slice:prefix:name\" for systemd cgroups, got \"/kubepods/besteffort/pod1/2\" instead: unknown"`
	noProgram   = `E1120 16:35:14.243391 93 log.go:32] "RunPodSandbox from runtime service failed" err="rpc error: code = Unknown desc = failed to start sandbox container task \"x\": OCI runtime start failed: cannot start a container that has stopped: unknown"`
)

// podLog returns the log of the running process: two seconds after its start, and at each try after that.
func (n *node) podLog(since time.Time) (lines []string) {
	if n.systemd.unit.Active != "active" || n.systemd.conduct.pods == "" {
		return nil
	}

	words := map[bool]string{true: otherDriver, false: noProgram}[n.driven || n.systemd.conduct.pods == "driver"]
	for at := n.systemd.unit.Started + 2*time.Second; at <= n.clk.now && (n.fixedSince == 0 || at < n.fixedSince); at += 12 * time.Second {
		if n.clk.Now().Add(at - n.clk.now).Before(since) {
			continue
		}

		lines = append(lines, words)
	}

	return lines
}

// TestPods has a kubelet that passes all checks and can start no pod.
func TestPods(t *testing.T) {
	driven := func(by string) func(*Plan) {
		return func(p *Plan) {
			p.Pods = by
			p.Sources = map[string]string{"config/cgroupDriver": "site.hcl:7:3, write.kubelet"}
		}
	}

	const says = "pods: the kubelet is well, and can start no pod; the kubelet: the container runtime's cgroup " +
		"driver is systemd, and the kubelet's is cgroupfs: no pod starts (config/cgroupDriver, site.hcl:7:3, " +
		"write.kubelet)"

	play(t, []scenario{
		{"of the first generation: unhealthy, and reported with the line of the site", func(t *testing.T, n *node) {
			n.shape = driven("cgroupfs")
			_, verify := n.bootWith("pods=driver")
			checkOutcome(t, "verify", verify, Outcome{Verdict: Bad, Generation: 1, Code: fault.RolledBack})

			if !strings.HasPrefix(verify.Why, says) || verify.Cause == nil || verify.Cause.ID != "driver-runc" ||
				checkOf(verify, "pods").State != "failed" {
				t.Errorf("got reason %q and cause %+v; want %q and cause driver-runc", verify.Why, verify.Cause, says)
			}
		}},
		{"of a plan that has another driver: undone", func(t *testing.T, n *node) {
			n.shape = driven("systemd")
			n.bootWith("one")
			n.shape = driven("cgroupfs")
			out, err := n.runSite(t.Context(), "pods=driver")
			n.mustSucceed(err, "run")
			checkOutcome(
				t, "run", out,
				Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Good, Held: true, Code: fault.RolledBack},
			)

			if !strings.HasPrefix(out.Why, says) || n.read(configPath) != "one" {
				t.Errorf("got reason %q and config %q; want %q and config one", out.Why, n.read(configPath), says)
			}
		}},
		{
			"of a plan that has the driver of the one before: it stays, and is good when the runtime is mended",
			func(t *testing.T, n *node) {
				n.shape = driven("cgroupfs")
				n.bootWith("one")
				out, err := n.runSite(t.Context(), "two pods=driver")
				n.mustSucceed(err, "run")
				checkOutcome(t, "run", out, Outcome{Verdict: Bad, Generation: 2, Code: fault.RolledBack})

				if !strings.Contains(out.Why, "the generation before has the same") ||
					n.read(configPath) != "two pods=driver" {
					t.Errorf("got reason %q and config %q; want no rollback", out.Why, n.read(configPath))
				}

				n.fixedSince = n.clk.now
				n.clk.advance(maxLogAge + time.Second)
				checkOutcome(t, "verify", n.verify(), Outcome{Verdict: Good, Generation: 2})
			},
		},
		{"of a plan of which nobody knows that, and of the one before as well: not held", func(t *testing.T, n *node) {
			n.bootWith("one pods=alone")
			n.driven = true
			out, err := n.runSite(t.Context(), "two pods=alone")
			n.mustSucceed(err, "run")
			checkOutcome(
				t, "run", out, Outcome{Verdict: Bad, Generation: 3, From: 2, InPlace: Bad, Code: fault.RollbackFails},
			)
		}},
		{"what one pod fails of undoes nothing", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.shape = driven("cgroupfs")
			out, err := n.runSite(t.Context(), "pods=alone")
			n.mustSucceed(err, "run")
			checkOutcome(t, "run", out, Outcome{Verdict: Good, Generation: 2})
		}},
		{"a log that cannot be read is held against nobody", func(t *testing.T, n *node) {
			n.logErr = errors.New("no journal files were found")
			_, verify := n.bootWith("one")
			checkOutcome(t, "verify", verify, Outcome{Verdict: Good, Generation: 1})

			if c := checkOf(verify, "pods"); c.State != "unknown" || c.Message != "no journal files were found" {
				t.Errorf("got check pods %+v; want unknown: no journal files were found", c)
			}
		}},
		{
			"later: reported while it goes on, also when the cluster does not answer, and not when it is over",
			func(t *testing.T, n *node) {
				n.shape = driven("cgroupfs")
				n.bootWith("pods=alone")
				n.clk.advance(time.Hour)

				if all, _, _ := n.examine(1); all != allOK {
					t.Errorf("got checks %s; want %s", all, allOK)
				}

				n.driven = true
				for _, n.apiserver = range []bool{true, false} {
					all, _, cause := n.examine(1)
					if !strings.HasSuffix(all, " pods=failed") || cause == nil ||
						cause.At != "site.hcl:7:3, write.kubelet" {
						t.Errorf("got checks %s and cause %+v; want pods=failed and a cause with its line", all, cause)
					}
				}

				n.apiserver = true
				n.fixedSince = n.clk.now
				n.clk.advance(maxLogAge + time.Second)

				if all, _, cause := n.examine(1); all != allOK || cause != nil {
					t.Errorf("got checks %s and cause %+v; want %s and no cause", all, cause, allOK)
				}
			},
		},
		{"what the process before has said does not count", func(t *testing.T, n *node) {
			n.bootWith("one")
			n.clk.advance(time.Hour)
			n.systemd.enqueue("restart")
			n.clk.advance(time.Second)
			n.examine(1)

			if from := n.clk.Now().Add(n.systemd.unit.Started - n.clk.now); n.logged.Before(from) {
				t.Errorf("asked from %s on, and it started at %s; want no time before its start", n.logged, from)
			}
		}},
	})
}
