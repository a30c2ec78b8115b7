package lab

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/internal/testing/table"
)

// TestMadeUpFacts checks values that no machine has, in a machine that a person has edited: each message has the place and
// the value to write. All recorded machines of the repository are as they can be.
func TestMadeUpFacts(t *testing.T) {
	t.Parallel()
	const good = `{"cpu": {"architecture": "amd64", "logical": 2, "cores": [{"node": 0, "cpus": [0, 1]}]},
 "memory": {"total_bytes": 8}, "numa": [{"id": 0, "cpus": [0, 1]}],
 "nics": [{"interface": "eth0", "vendor": "mellanox", "speed_gbps": 10, "numa": 0,
   "infiniband": [{"device": "mlx5_0", "state": "active"}]},
  {"interface": "eth1", "vendor": null, "numa": null}]}`
	path := filepath.Join(t.TempDir(), "machine.json")
	for change, want := range table.YAML[map[string]string](t, `
'': ''
'"mellanox"|"melanox"': '3:43: nics[0].vendor is never "melanox"; Did you mean "mellanox"?'
'"mellanox"|"acme-networks"': ''
': 10|: -10': '3:69: nics[0].speed_gbps is never the number -10; Write a number from 0.'
'"numa": 0|"numa": 17': '3:81: nics[0].numa is never the number 17; The NUMA nodes are: 0.'
'"node": 0|"node": 1': 'cpu.cores[0].node is never the number 1; The NUMA nodes are: 0.'
'"logical": 2|"logical": 3': '1:46: cpu.logical is never the number 3; The cores have 2 CPUs.'
'"eth1"|"eth0"': 'nics[1].interface is never "eth0"; Another card has this name.'
`) {
		was, is, _ := strings.Cut(change, "|")
		osfile.Write(t, path, strings.Replace(good, was, is, 1), 0o644)
		err := CheckHardware("--hardware", path)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", change, err, want)
		}
	}

	machines, err := filepath.Glob("../../testdata/hardware/facts/*.json")
	if err != nil || len(machines) < 20 {
		t.Fatalf("got %d recorded machines, %v; want 20", len(machines), err)
	}
	for _, machine := range machines {
		if err := CheckHardware("--hardware", machine); err != nil {
			t.Errorf("%s: got %v, want no error", machine, err)
		}
	}
}
