package hardware

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/machine/probe/hardware/hwtree"
)

// bigMachine is the DGX H100, 224 threads, filled up with bridges to 64 PCI functions.
func bigMachine(t testing.TB) string {
	t.Helper()
	spec, err := hwtree.Read(machines + "/spec/dgx-h100.json")
	must(t, err)
	functions := 0
	for _, d := range spec.Devices {
		functions += 1 + len(d.VFs)
	}
	node := 1
	for i := functions; i < 64; i++ {
		spec.Devices = append(spec.Devices, hwtree.Device{
			Address: fmt.Sprintf(
				"0000:e0:%02x.%d",
				i%32,
				i/32,
			),
			ID:        "8086:352a",
			Subsystem: "8086:0000",
			Class:     "060400",
			Driver:    "pcieport",
			NUMA:      &node,
		})
	}
	dir := t.TempDir()
	must(t, hwtree.Build(spec, dir))
	return dir
}

// BenchmarkDetectDGX reads as this machine's own files are read, but for the copies that ghw is given.
func BenchmarkDetectDGX(b *testing.B) {
	tree := hostTree{bigMachine(b)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Detect(context.Background(), ReadOptions{Tree: tree}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDetectRecordedDGX keeps every name inside of the tree with os.Root.
func BenchmarkDetectRecordedDGX(b *testing.B) {
	dir := bigMachine(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Detect(context.Background(), ReadOptions{Root: dir}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDetectThisMachine(b *testing.B) {
	for b.Loop() {
		if _, err := Detect(context.Background(), ReadOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// recording keeps the names of what is asked.
type recording struct {
	Tree
	asked map[string]bool
}

func (r recording) ReadFile(name string, limit int) ([]byte, error) {
	r.asked[name] = true
	return r.Tree.ReadFile(name, limit)
}

func (r recording) ReadDir(name string) ([]string, error) {
	r.asked[name] = true
	return r.Tree.ReadDir(name)
}

func (r recording) ReadLink(name string) (string, error) {
	r.asked[name] = true
	return r.Tree.ReadLink(name)
}

// TestReadsOnlyWhatTheDocumentationSays keeps out what a host may have and another may not: a pci.ids, a vendor's
// library, a folder of somebody's home.
func TestReadsOnlyWhatTheDocumentationSays(t *testing.T) {
	for name, machine := range recorded(t) {
		r := recording{machine, map[string]bool{}}
		detect(t, ReadOptions{Tree: r})
		for asked := range r.asked {
			switch {
			case strings.HasPrefix(asked, "sys/"), strings.HasPrefix(asked, "proc/"):
			case asked == "addresses.json",
				asked == "routes.json",
				asked == "etc/machine-id",
				asked == "etc/os-release",
				asked == "usr/lib/os-release":
			case strings.HasPrefix(asked, "run/udev/data/b"), path.Base(asked) == "sysctl.d":
			case asked == "etc/crictl.yaml",
				strings.HasPrefix(asked, "etc/containerd/"),
				strings.HasPrefix(asked, "etc/crio/"):
			default:
				t.Errorf("%s: /%s is read, want it not to be", name, asked)
			}
		}
	}
}
