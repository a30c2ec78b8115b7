package boot

import (
	"context"
	"fmt"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/world"
)

// TestRecordingOlderThanAccepts replays recordings that were made before prelet asked what the binary accepts: the
// tables of the version answer, and of a version that they do not have nothing is checked.
func TestRecordingOlderThanAccepts(t *testing.T) {
	for _, version := range []string{"v1.36.3", "v1.99.0"} {
		src := world.SourceFunc(func(_ context.Context, q world.Question) world.Answer {
			switch q.Kind {
			case world.KindKubelet:
				return world.Kubelet.Answer(world.KubeletAns{Version: &version})
			case world.KindAccepts:
				return world.Failure(fault.Unread, "", "")
			}
			return answerAsUsual(q, nil)
		})
		site := "stage \"write\" \"kubelet\" {\n  bootstrap_kubeconfig { when = false }\n  ca_certificate { " +
			"when = false }\n" +
			"  kubelet_config { base = \"apiVersion: kubelet.config.k8s.io/v1beta1\\nkind: " +
			"KubeletConfiguration\\n\" }\n" +
			"  kubelet_flags {\n    base = \"\"\n    flags = { v = \"2\" }\n  }\n}\n"
		p := Run(t.Context(), mustParse(t, site), Options{Source: src})
		if !p.Complete {
			t.Errorf("%s: got %s\nwant a complete plan", version, showPlan(p))
		}
	}
}

// TestRecordingOlderThanLocks replays recordings that were made before there were locks. What a detector reported
// stands for its lock; of one that no stage asks, only its configuration could be refused.
func TestRecordingOlderThanLocks(t *testing.T) {
	for _, c := range []struct {
		name, detectors, config string
	}{
		{"asked", "", "  config {\n    a = 1\n  }\n"},
		{"not asked, without a configuration", "  detectors = []\n", ""},
		{"not asked, with a configuration", "  detectors = []\n", "  config {\n    a = 1\n  }\n"},
	} {
		site := fmt.Sprintf("detector \"d\" {\n%s}\nstage \"detect-hw\" \"node\" {\n%s}\n", c.config, c.detectors) +
			"stage \"write\" \"kubelet\" {\n  bootstrap_kubeconfig { when = false }\n  ca_certificate { when = " +
			"false }\n" +
			"  kubelet_config { base = \"apiVersion: kubelet.config.k8s.io/v1beta1\\nkind: " +
			"KubeletConfiguration\\n\" }\n}\n"
		src := world.SourceFunc(func(_ context.Context, q world.Question) world.Answer {
			if q.Kind == world.KindDetector {
				return world.Detector.Answer(world.DetectorAns{})
			}
			return answerAsUsual(q, map[string]any{})
		})
		p := Run(t.Context(), mustParse(t, site), Options{Source: src})
		if !p.Complete {
			t.Errorf("%s: got %s\nwant a complete plan", c.name, showPlan(p))
		}
	}
}
