package hardware

import (
	"encoding/json"
	"testing"

	"github.com/prelet/prelet/internal/plan/evaluate"
)

// TestSampleMachines checks that the machines on which a site is validated have only texts that a machine can have. A
// node named after its serial number was refused for a placeholder, which is null on every machine.
func TestSampleMachines(t *testing.T) {
	checked := 0
	var check func(machine, path string, v any)
	check = func(machine, path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, element := range v {
				check(machine, path+"."+key, element)
			}
		case string:
			checked++
			if isPlaceholder(v) {
				t.Errorf("%s: %s is %q, which is null on a machine; want a text of a vendor", machine, path, v)
			}
		}
	}

	for _, m := range evaluate.SampleMachines() {
		if m.Facts == nil {
			continue
		}
		var facts map[string]any
		text, err := json.Marshal(m.Facts)
		must(t, err)
		must(t, json.Unmarshal(text, &facts))
		for _, part := range []string{"product", "bios", "chassis", "baseboard"} {
			check(m.Name, part, facts[part])
		}
	}
	if checked == 0 {
		t.Error("got no texts, want those of the firmware")
	}
}
