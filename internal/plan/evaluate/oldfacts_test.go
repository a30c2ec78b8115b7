package evaluate

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/table"
)

// A recording that is older than a fact gives the same plan. What needs the fact is unread, and not null.
func TestRecordingOlderThanAFact(t *testing.T) {
	for text, isOld := range table.YAML[map[string]bool](t, `
stage.detect-hw.node.product.name: true
stage.detect-hw.node.bios.vendor: false
stage.detect-hw.node.chassis.type: false
stage.detect-hw.node.baseboard.vendor: false
length(stage.detect-hw.node.block_devices): false
'stage.detect-hw.node.block_devices[0].model': false
'stage.detect-hw.node.interfaces["eth0"].ipv4[0]': true
'stage.detect-hw.node.interfaces["eth0"].addresses[0].address': false
stage.detect-hw.node.default_route.ipv4.gateway: false
stage.detect-hw.node.cpu.architecture: false
stage.detect-hw.node.cpu.vendor: true
'coalesce(stage.detect-hw.node.default_route.ipv6.source, "no")': false
'coalesce(stage.detect-hw.node.bios.vendor, "no BIOS here")': false
`) {
		s := mustParse(
			t,
			afterDetectors+"stage \"label\" \"x\" {\n  labels = { \"example.com/x\" = slug("+text+") }\n}\n",
		)
		p := Run(context.Background(), s, RunInput{Source: detectorWorld(t, makeBareVM(), nil)})
		if !p.Complete || p.Hash == "" {
			t.Fatalf("%s: got %s\nwant a complete plan", text, showDiagnostics(p.Diagnostics))
		}

		rec := tape.Recording{Entries: p.Tape.Entries()}
		same := Run(context.Background(), p.Site, RunInput{Source: rec.Source()})
		if same.Hash != p.Hash || showPlan(same) != showPlan(p) {
			t.Errorf("%s: the plan of the recording differs: got %s, want %s", text, showPlan(same), showPlan(p))
		}

		rec.Entries = olderEntries(t, rec.Entries)
		q := Run(context.Background(), p.Site, RunInput{Source: rec.Source()})
		if q.Complete != isOld || isOld && (q.Hash != p.Hash || showPlan(q) != showPlan(p)) {
			t.Errorf("%s: of an old recording got complete %t and %s, want %t", text, q.Complete, showPlan(q), isOld)
		}
		if text := showDiagnostics(q.Diagnostics); !isOld && !strings.Contains(text, "error unread") {
			t.Errorf("got %q, want what the recording does not have", text)
		}
	}
}

// olderEntries takes the facts that came last out of a recording.
func olderEntries(t *testing.T, entries []tape.Entry) []tape.Entry {
	t.Helper()
	var older []tape.Entry
	for _, e := range entries {
		if e.Kind == tape.KindHardware {
			var facts map[string]json.RawMessage
			must(t, json.Unmarshal(e.Answer.Value, &facts))
			for _, name := range []string{"bios", "chassis", "baseboard", "block_devices", "default_route"} {
				if facts[name] == nil {
					t.Fatalf("facts of the recording: got none named %s, want it", name)
				}
				delete(facts, name)
			}
			var interfaces map[string]map[string]any
			must(t, json.Unmarshal(facts["interfaces"], &interfaces))
			for _, i := range interfaces {
				delete(i, "addresses")
			}
			facts["interfaces"], _ = json.Marshal(interfaces)
			var cpu map[string]any
			must(t, json.Unmarshal(facts["cpu"], &cpu))
			delete(cpu, "architecture")
			facts["cpu"], _ = json.Marshal(cpu)
			raw, err := json.Marshal(facts)
			must(t, err)
			e.Answer.Value = raw
		}
		older = append(older, e)
	}
	return older
}
