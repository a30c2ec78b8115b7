package reserve

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/testing/table"
	"github.com/prelet/prelet/stages"
)

var update = flag.Bool("update", false, "write the golden files again")

// What is refused on a machine, with the whole message: the arithmetic in it is for people to follow.
func TestRefusals(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/refusals.txtar")
	must(t, err)
	want := map[string]string{}
	for _, f := range archive.Files {
		want[f.Name] = strings.TrimSpace(string(f.Data))
	}
	var got txtar.Archive
	for _, c := range readCases(t, "refusals") {
		r := decide(t, c.Site, c.inputs(t))
		text := formatDiagnostics(r.diags)
		got.Files = append(got.Files, txtar.File{Name: c.Name, Data: []byte(text + "\n\n")})
		if d := cmp.Diff(want[c.Name], text); d != "" && !*update {
			t.Errorf("%s (-want +got): %s", c.Name, d)
		}
		if origin.Code(r.diags).Exit() != 30 || len(r.c.Settings) != 0 || r.c.Reserved != nil {
			t.Errorf("%s: got exit %d and %+v, want a refusal without a contribution",
				c.Name, origin.Code(r.diags).Exit(), r.c)
		}
	}
	if len(want) != len(got.Files) && !*update {
		t.Errorf("got %d messages in the file, want one for each of %d cases", len(want), len(got.Files))
	}
	if *update {
		must(t, os.WriteFile("testdata/refusals.txtar", txtar.Format(&got), 0o644))
	}
}

// What the site itself got wrong is found with no machine: exit 10, at its place.
func TestSiteFaults(t *testing.T) {
	for _, c := range readCases(t, "site faults") {
		t.Run(c.Name, func(t *testing.T) {
			r := decide(t, c.Site, stages.Inputs{Check: true})
			c.checkMessages(t, r)
			if origin.Code(r.diags).Exit() != 10 {
				t.Errorf("got exit %d, want 10", origin.Code(r.diags).Exit())
			}
		})
	}
}

// TestMessages: errors of the base are reported as such, and only where the value is needed.
func TestMessages(t *testing.T) {
	for _, c := range readCases(t, "messages") {
		t.Run(c.Name, func(t *testing.T) {
			c.Machine = &machineSpec{CPUs: 4, Memory: resource.MustParse("8Gi")}
			in := c.inputs(t)
			in.Base.ConfigKnown = true
			c.checkMessages(t, decide(t, c.Site, in))
		})
	}
}

// 0% and 100% switch a threshold off; percentages are the kubelet's own arithmetic.
func TestThresholds(t *testing.T) {
	for text, want := range table.YAML[map[string]int64](t, `
'': 0
0%: 0
100%: 0
10%: 1717986944
5%: 858993472
50%: 8589934592
100Mi: 104857600
`) {
		if got, err := thresholdBytes(text, 16*gib); err != nil || got != want {
			t.Errorf("%q of 16Gi: %d, %v, want %d", text, got, err, want)
		}
	}
}

func FuzzThreshold(f *testing.F) {
	for _, s := range []string{"100Mi", "10%", "0.5%", "NaN%", "Inf%", "-1%", "1e2%", "0x1p4%", "%", "1e9Gi"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := thresholdBytes(text, 16*gib)
		if err == nil && (n < 0 || strings.HasSuffix(text, "%") && n > 16*gib) {
			t.Errorf("threshold %q: got %d bytes, want 0 to the capacity", text, n)
		}
	})
}

func FuzzQuantity(f *testing.F) {
	for _, s := range []string{"100Mi", "2", "500m", "1e3", "1E", "1Ei", "-1", "0.1", "8G", "1n", "00001", "+1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range resources() {
			n, err := parseQuantity(name, text)
			if err != nil {
				continue
			}
			if back, err := parseQuantity(name, formatQuantity(name, n)); n < 0 || n > maxBytes || err != nil || back != n {
				t.Errorf("%s %q is %d, printed %s: got %d and %v when parsed, want the same amount",
					name, text, n, formatQuantity(name, n), back, err)
			}
		}
	})
}

// TestAmountsWithoutTheirUnit: 8 bytes are as good as nothing, and most often 8Gi were meant. Nothing at all is 0.
func TestAmountsWithoutTheirUnit(t *testing.T) {
	check := quantityOf(memory)
	for _, text := range []string{"0", "0Gi", "16Mi", "8Gi", "16777216"} {
		if err := check(text); err != nil {
			t.Errorf("memory %q: got %v, want it to be accepted", text, err)
		}
	}
	for text, says := range map[string]string{"8": `write a unit, as "8Gi"`, "16": `"16Gi"`, "8k": "the least is 16Mi", "15Mi": "the least is 16Mi", "16777215": "the least is 16Mi"} {
		if err := check(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("memory %q: got %v, want an error with %q", text, err, says)
		}
	}
	small := "9"
	for _, name := range []string{memory, storage} {
		if err := bounds(map[string]*string{name: &small}); err == nil {
			t.Errorf("floor.%s = 9: got no error, want one", name)
		}
	}
	if err := bounds(map[string]*string{cpu: &small}); err != nil {
		t.Errorf("floor.cpu = 9: got %v, want it to be accepted", err)
	}
}
