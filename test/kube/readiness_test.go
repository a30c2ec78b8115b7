package kube

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// readinessVariable is the folder of a checkout of sigs.k8s.io/node-readiness-controller with the built program
// `manager` in it (go build -o manager ./cmd). Its module cannot be had from every module proxy, so nothing here
// builds it.
const readinessVariable = "PRELET_READINESS_CONTROLLER"

const readinessRule = `apiVersion: readiness.node.x-k8s.io/v1alpha1
kind: NodeReadinessRule
metadata:
  name: gpu-ready
spec:
  conditions:
    - type: example.com/GPUReady
      requiredStatus: "True"
  enforcementMode: continuous
  taint:
    key: readiness.k8s.io/gpu-ready
    effect: NoSchedule
  nodeSelector:
    matchLabels:
      example.com/pool: gpu
`

// TestReadinessController gates each boot with the real node-readiness-controller in continuous mode: the node registers
// with the taint, and has it again from the begin of the next boot until prelet's condition is True.
func TestReadinessController(t *testing.T) {
	t.Parallel()
	source := os.Getenv(readinessVariable)
	if source == "" {
		t.Skip("this runs node-readiness-controller: set " + readinessVariable)
	}
	c := start(t, Options{})
	crd := filepath.Join(source, "config/crd/bases/readiness.node.x-k8s.io_nodereadinessrules.yaml")
	_, err := c.Kubectl(t.Context(), "apply", "-f", crd)
	must(t, err)
	_, err = c.Kubectl(t.Context(), "wait", "--for=condition=Established", "--timeout=30s",
		"crd/nodereadinessrules.readiness.node.x-k8s.io")
	must(t, err)
	rule := filepath.Join(t.TempDir(), "rule.yaml")
	must(t, os.WriteFile(rule, []byte(readinessRule), 0o600))
	_, err = c.Kubectl(t.Context(), "apply", "-f", rule)
	must(t, err)

	manager := exec.CommandContext(t.Context(), filepath.Join(source, "manager"), "--health-probe-bind-address=0")
	manager.Env = append(os.Environ(), "KUBECONFIG="+c.Path("super-admin.conf"))
	var log strings.Builder
	manager.Stderr = &log
	must(t, manager.Start())
	t.Cleanup(func() {
		_ = manager.Process.Kill()
		_ = manager.Wait()
		if t.Failed() {
			t.Logf("node-readiness-controller:\n%s", last(log.String(), 4000))
		}
	})

	taint := corev1.Taint{Key: "readiness.k8s.io/gpu-ready", Effect: corev1.TaintEffectNoSchedule}
	isTainted := func() bool {
		n, err := c.Node(t.Context(), "n1")
		must(t, err)
		return slices.ContainsFunc(n.Spec.Taints, func(x corev1.Taint) bool { return x.MatchTaint(&taint) })
	}
	wantTaint := func(what string, want bool) {
		t.Helper()
		must(t, waitFor(t.Context(), 30*time.Second, what, func() string {
			if got := isTainted(); got != want {
				return "the taint is not as wanted"
			}
			return ""
		}))
	}

	n := newNode(t, c, NodeOptions{}, "10.0.0.11:6443")
	pin, err := c.Pin()
	must(t, err)
	m := member{n, t, c, pin}
	must(t, n.Credential("bootstrap-token", c.Token))
	must(t, n.Write("/etc/gpus", "7\n", 0o644))
	m.site(conditioned,
		"stage \"label\" \"pool\" {\n  labels = { \"example.com/pool\" = \"gpu\" }\n}",
		"stage \"taint\" \"gpu\" {\n  taints = [\"readiness.k8s.io/gpu-ready:NoSchedule\"]\n}")
	m.run(0)
	_, err = c.Ready(t.Context(), "n1")
	must(t, err)
	wantCondition(t, c, "7 GPUs", corev1.ConditionFalse, "CheckFailed")
	wantTaint("the node registers with the taint, and keeps it", true)

	must(t, n.Write("/etc/gpus", "8\n", 0o644))
	m.run(0)
	wantTaint("the condition is True", false)

	// The next boot has the taint before its kubelet starts, although a kubelet sets taints only when it registers.
	m.reboot()
	must(t, n.Write("/etc/gpus", "7\n", 0o644))
	m.run(0)
	wantTaint("the next boot finds 7 GPUs", true)
	must(t, n.Write("/etc/gpus", "8\n", 0o644))
	m.run(0)
	wantTaint("8 GPUs again", false)
	prelet(t, n, 0, "stopping")
	wantTaint("the node shuts down", true)
	if r := prelet(t, n, 0, "verify"); strings.Contains(r.Out, "taints     drift") {
		t.Errorf("verify: got %s, want no drift for a taint of the controller", r)
	}
}
