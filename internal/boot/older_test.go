package boot

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/world"
)

// TestRecordingOlderThanAccepts replays recordings that were made before prelet asked what the binary accepts: the
// tables of the version answer, and of a version that they do not have nothing is checked.
func TestRecordingOlderThanAccepts(t *testing.T) {
	for _, version := range []string{"v1.36.3", "v1.99.0"} {
		src := usualWith(map[world.Kind]world.Answer{
			world.KindKubelet: world.Kubelet.Answer(world.KubeletAns{Version: &version}),
			world.KindAccepts: world.Failure(fault.Unread, "", ""),
		})
		site := strings.Replace(rulesSite("{}", ""), `{ base = "" }`, "{\n    base = \"\"\n    flags = { v = \"2\" }\n  }", 1)
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
			writeNothing
		src := usualWith(map[world.Kind]world.Answer{
			world.KindDetector: world.Detector.Answer(world.DetectorAns{}),
			world.KindHardware: {Value: []byte("{}")},
		})
		p := Run(t.Context(), mustParse(t, site), Options{Source: src})
		if !p.Complete {
			t.Errorf("%s: got %s\nwant a complete plan", c.name, showPlan(p))
		}
	}
}
