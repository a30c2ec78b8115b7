package evaluate

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLargeSites plans sites that are as large as the limits on text allow: none may take the time of its square.
func TestLargeSites(t *testing.T) {
	var labels, stages, patch strings.Builder
	for i := range 2400 {
		fmt.Fprintf(&labels, "    \"example.com/l%d\" = \"%d\"\n", i, i)
	}
	for i := range 800 {
		fmt.Fprintf(&stages, "stage \"label\" \"s%d\" {\n  labels = { \"example.com/s%d\" = \"x\" }\n}\n", i, i)
	}
	for i := range 2400 {
		fmt.Fprintf(&patch, "      f%d = %d\n", i, i)
	}
	const write = "stage \"write\" \"kubelet\" {\n  bootstrap_kubeconfig { when = false }\n" +
		"  ca_certificate { when = false }\n  kubelet_config {\n" +
		"    base = \"apiVersion: kubelet.config.k8s.io/v1beta1\\nkind: KubeletConfiguration\\n\"\n"
	for name, text := range map[string]string{
		"labels": "stage \"label\" \"a\" {\n  labels = {\n" + labels.String() + "  }\n}\n",
		"stages": stages.String(),
		"patch":  write + "    patch = {\n" + patch.String() + "    }\n  }\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := mustParse(t, text)
			started := cpuTime(t)
			Run(context.Background(), s, RunInput{Source: usualSource()})
			if took := cpuTime(t) - started; took > 10*time.Second {
				t.Errorf("CPU time: got %s, want at most 10s", took)
			} else {
				t.Log(took)
			}
		})
	}
}

// cpuTime returns the CPU time of this process. Unlike the clock, it does not depend on what else the machine does.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))

	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
