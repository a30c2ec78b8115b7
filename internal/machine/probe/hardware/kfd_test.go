package hardware

import (
	"path"
	"testing"

	"github.com/google/go-cmp/cmp"

	cases "github.com/prelet/prelet/internal/testing/table"
)

// TestKFD reads the compute topologies of real machines. The archive has no PCI bus for them, so each test puts
// functions where the topology has GPUs. The expected memory is the product's: an MI308X has 192 GiB.
func TestKFD(t *testing.T) {
	archive, err := readArchive(machines + "/kfd/topologies.tar.gz")
	must(t, err)
	t.Cleanup(func() { _ = archive.Close() })

	tests := cases.YAML[map[string]struct {
		ID   string
		At   []string
		Want string // GiB of each
		Why  string
	}](t, `
# Four partitions of 48 GiB each, two domains.
mi308:
  id: 1002:74a2
  at:
    - 0000:0a:00.0
    - '0000:80:00.0'
    - 0000:a4:00.0
    - 0000:c8:00.0
    - 0001:0b:00.0
    - '0001:81:00.0'
    - 0001:a5:00.0
    - 0001:c9:00.0
  want: '191.98'
# Partitions, and no memory in the data.
mi300x-cpx:
  id: 1002:74a1
  at: ['0000:05:00.0', '0000:27:00.0', 0000:e5:00.0]
  want: '-'
  why: the driver amdgpu does not report it
mi210:
  id: 1002:740f
  at: ['0000:63:00.0', '0000:43:00.0', 0000:e3:00.0]
  want: '-'
  why: the driver amdgpu does not report it
# An older kernel, without a domain. One node exists twice, by a copy of its folder: that is not a second GPU.
vega: {id: '1002:6860', at: ['0000:19:00.0'], want: '15.98'}
`)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{}
			nodes, err := archive.ReadDir(name + "/nodes")
			must(t, err)
			gpus := map[string]bool{}
			for _, node := range nodes {
				banks, _ := archive.ReadDir(path.Join(name, "nodes", node, "mem_banks"))
				list := []string{node + "/properties"}
				for _, bank := range banks {
					list = append(list, node+"/mem_banks/"+bank+"/properties")
				}
				for _, file := range list {
					data, err := archive.ReadFile(path.Join(name, "nodes", file), 1<<16)
					must(t, err)
					files[kfdNodes+"/"+file] = string(data)
				}
				d := detection{Tree: tree(t, files)}
				if at, ok := d.kfdAddress(kfdNodes + "/" + node); ok {
					gpus[withoutFunction(at)+".0"] = true
				}
			}
			for _, at := range tt.At {
				if !gpus[at] {
					t.Errorf("want a GPU at %s in the topology, got %v", at, gpus)
				}
				pci(files, at, tt.ID, "120000", "amdgpu", nil)
			}
			pci(files, "0000:fe:00.0", tt.ID, "120000", "amdgpu", nil) // not in the topology
			pci(
				files,
				"0000:ff:00.0",
				tt.ID,
				"120000",
				"amdgpu",
				map[string]string{"mem_info_vram_total": "206141652992\n"},
			)
			facts := detect(t, ReadOptions{Tree: tree(t, files)})
			for _, a := range facts.Accelerators {
				want, reason := tt.Want, tt.Why
				switch *a.Address {
				case "0000:fe:00.0":
					want, reason = "-", "the driver amdgpu does not report it"
				case "0000:ff:00.0":
					want, reason = "191.98", ""
				}
				if got := number(a.MemoryGiB); got != want {
					t.Errorf("%s has %s GiB, want %s", *a.Address, got, want)
				}
				if got := why(facts, "accelerators["+*a.Address+"].memory_gib"); got != reason {
					t.Errorf("%s: %q, want %q", *a.Address, got, reason)
				}
			}
			if diff := cmp.Diff(len(tt.At)+2, len(facts.Accelerators)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
