package hardware

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/hardware/hwtree"
)

// bigMachine is the DGX H100, 224 threads, filled up with bridges to 64 PCI functions.
func bigMachine(t testing.TB) string {
	t.Helper()
	spec, err := hwtree.Read(machines + "/spec/dgx-h100.json")
	if err != nil {
		t.Fatal(err)
	}
	functions := 0
	for _, d := range spec.Devices {
		functions += 1 + len(d.VFs)
	}
	node := 1
	for i := functions; i < 64; i++ {
		spec.Devices = append(spec.Devices, hwtree.Device{
			Address: fmt.Sprintf("0000:e0:%02x.%d", i%32, i/32), ID: "8086:352a", Subsystem: "8086:0000", Class: "060400", Driver: "pcieport", NUMA: &node})
	}
	dir := t.TempDir()
	if err := hwtree.Build(spec, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// BenchmarkDetectDGX has the budget of 5 ms: this machine's own files are read by plain system calls.
func BenchmarkDetectDGX(b *testing.B) {
	tree := hostTree{bigMachine(b)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Detect(context.Background(), Options{Tree: tree}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDetectRecordedDGX keeps every name inside of the tree with os.Root.
func BenchmarkDetectRecordedDGX(b *testing.B) {
	dir := bigMachine(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Detect(context.Background(), Options{Root: dir}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDetectThisMachine(b *testing.B) {
	for b.Loop() {
		if _, err := Detect(context.Background(), Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// counting counts what is asked of a tree.
type counting struct {
	Tree
	reads, lists, links int
}

func (c *counting) ReadFile(name string, limit int) ([]byte, error) {
	c.reads++
	return c.Tree.ReadFile(name, limit)
}

func (c *counting) ReadDir(name string) ([]string, error) {
	c.lists++
	return c.Tree.ReadDir(name)
}

func (c *counting) ReadLink(name string) (string, error) {
	c.links++
	return c.Tree.ReadLink(name)
}

// TestFewFiles keeps the budget where a clock cannot: 224 threads, 31 functions, 8 GPUs. A file costs some microseconds, so
// three files a thread would be most of it.
func TestFewFiles(t *testing.T) {
	c := &counting{Tree: recorded(t)["dgx-h100"]}
	detect(t, Options{Tree: c})
	t.Logf("%d files, %d folders, %d links", c.reads, c.lists, c.links)
	if c.reads > 430 || c.lists > 40 || c.links > 50 {
		t.Errorf("%d files, %d folders and %d links are read; that was 403, 27 and 40 when 64 functions took 3 ms", c.reads, c.lists, c.links)
	}
}

// TestFastEnough is the budget with a clock, for a machine of 64 functions and 224 threads on a disk. The best of many
// counts, and five times the budget is allowed, because machines that run tests are busy.
func TestFastEnough(t *testing.T) {
	tree := hostTree{bigMachine(t)}
	best := time.Hour
	for range 30 {
		start := time.Now()
		detect(t, Options{Tree: tree})
		best = min(best, time.Since(start))
	}
	t.Logf("best of 30: %s", best)
	if best > 25*time.Millisecond {
		t.Errorf("the best of 30 detections took %s; the budget is 5 ms on an idle machine", best)
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

// TestReadsOnlyWhatTheDocumentationSays keeps out what a host may have and another may not: a pci.ids, a vendor's library,
// a folder of somebody's home.
func TestReadsOnlyWhatTheDocumentationSays(t *testing.T) {
	for name, machine := range recorded(t) {
		r := recording{machine, map[string]bool{}}
		detect(t, Options{Tree: r})
		for asked := range r.asked {
			switch {
			case strings.HasPrefix(asked, "sys/"), strings.HasPrefix(asked, "proc/"):
			case asked == "addresses.json", asked == "etc/machine-id", asked == "etc/os-release", asked == "usr/lib/os-release":
			case asked == "etc/crictl.yaml", strings.HasPrefix(asked, "etc/containerd/"), strings.HasPrefix(asked, "etc/crio/"):
			default:
				t.Errorf("%s: /%s is read", name, asked)
			}
		}
	}
}
