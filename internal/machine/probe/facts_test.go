package probe

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/prelet/prelet/internal/model/tape"
)

// TestFactsFile reads the facts of a machine from a file, alone and as `prelet detect -o json` prints them.
func TestFactsFile(t *testing.T) {
	facts, err := os.ReadFile("../../../testdata/hardware/facts/bare-vm.json")
	must(t, err)
	ask := func(text string) (tape.Facts, error) {
		path := filepath.Join(t.TempDir(), "machine.json")
		must(t, os.WriteFile(path, []byte(text), 0o644))
		l := newLive(t, Sources{Hardware: path})
		f, _, err := tape.Hardware.Ask(context.Background(), l, tape.HardwareReq{WaitLinks: []string{"ib0"}})
		return f, err
	}

	for name, text := range map[string]string{
		"alone":    string(facts),
		"document": `{"format_version": 1, "facts": ` + string(facts) + `, "degraded": []}`,
	} {
		f, err := ask(text)
		if err != nil || *f.CPU.Logical != 2 || len(f.NICs) != 1 {
			got, _ := json.Marshal(f)
			t.Errorf("%s: got %s, %v; want the facts of the bare VM and no error", name, got, err)
		}
	}

	hasGPU := `{"cpu": {"logical": 2}, "memory": {"total_bytes": 1}, "accelerators": [{"kind": "gpu"}], "gpus": []}`
	for text, want := range table.YAML[map[string]string](t, `
'{': 'machine.json:1:2: the document ends too early'
'{"format_version": 1, "facts": {': 'machine.json:1:33: the document ends too early'
'{"facts": 3}': 'machine.json:1:11: facts is the number 3; Write an object'
'{"facts": {}}': the fact cpu.logical is missing
'{}': the fact cpu.logical is missing
'{"kind": "x"}': 'machine.json:1:2: unknown name "kind" in the document; Valid names: accel'
'{hasGPU}': gpus differs from the accelerators
'{"nics": [{"speed_gpbs": 1}]}': 'machine.json:1:12: unknown name "speed_gpbs" in nics[0]; Did you mean "speed_gbps"?'
"{\n \"facts\": {\n  \"Cpu\": {}}}": 'machine.json:3:3: unknown name "Cpu" in facts; Did you mean "cpu"?'
'{"cpu": {"logical": "2"}}': 'machine.json:1:21: cpu.logical is a text; Write a whole number, without quotes'
'{"cpu": {"logical": 2.5}}': 'machine.json:1:21: cpu.logical is the number 2.5; Write a whole number'
'{"pci": [{"address": null}]}': 'machine.json:1:22: pci[0].address is null; Write a text'
'{"pci": {"address": ""}}': 'machine.json:1:9: pci is an object; Write a list'
'{"os": {}, "os": {}}': 'machine.json:1:12: "os" is given twice in the document'
'{"os": {},}': 'machine.json:1:11: this is not JSON; Names and texts have double quotes'
'{"os": {}} {}': 'machine.json:1:13: there is more text after the end'
`, "hasGPU", hasGPU) {
		if _, err := ask(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one that contains %q", text, err, want)
		}
	}
}

// TestWaitForDevicesIsReported: links and drivers of this machine that are waited for are reported, once. The clock is
// synctest's.
func TestWaitForDevicesIsReported(t *testing.T) { synctest.Test(t, testWaitForDevices) }

func testWaitForDevices(t *testing.T) {
	var reported []string
	l := newLive(t, Sources{OnRetry: func(r Retry) {
		reported = append(reported, r.Server+": "+r.Why)
		if r.Wait != 150*time.Millisecond || time.Until(r.Until) != r.Wait {
			t.Errorf("got a wait of %s until %s, want 150ms from now", r.Wait, r.Until)
		}
	}})
	l.answerFacts(t.Context(), tape.HardwareReq{
		WaitLinks: []string{"lo-no-such"}, WaitDrivers: []string{"no-such"}, WaitMillis: 150,
	})
	want := []string{"link lo-no-such, driver no-such: down, or without a device"}
	if !slices.Equal(reported, want) {
		t.Errorf("got the reports %q, want %q", reported, want)
	}
}
