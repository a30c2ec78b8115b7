package reserve

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages"
)

var update = flag.Bool("update", false, "write the golden files again")

// What is refused on a machine, with the whole message: the arithmetic in it is for people to follow.
func TestRefusals(t *testing.T) {
	unread := machineOf(8, 16*gib)
	unread.Facts.CPU.Logical = nil
	unread.Facts.Unknown = []world.UnknownFact{
		{Fact: "cpu.logical", Why: "/sys/devices/system/cpu/online: permission denied"},
	}
	noMemory := machineOf(8, 16*gib)
	noMemory.Facts.Memory.TotalBytes = nil
	noCores := machineOf(8, 16*gib)
	noCores.Facts.CPU.Cores = nil
	noNodes := sockets(2, 4, false, 64*gib)
	for i := range noNodes.Facts.CPU.Cores {
		noNodes.Facts.CPU.Cores[i].Node = nil
		noNodes.Facts.NUMA[i/4].CPUs = nil
	}
	uneven := sockets(2, 4, false, 64*gib)
	uneven.Facts.CPU.Cores = uneven.Facts.CPU.Cores[:5]
	huge := machineOf(8, 16*gib)
	huge.Facts.Memory.HugePages = map[string]int{"1Gi": 14, "2Mi": 4}
	impossible := machineOf(8, 16*gib)
	impossible.Facts.Memory.HugePages = map[string]int{"1Gi": 1 << 40}
	giant := machineOf(8, 1<<60)
	manyPods := withBase(machineOf(8, 16*gib), map[string]any{"maxPods": json.Number("100000")})
	zero := machineOf(8, 16*gib)
	zero.Facts.CPU.Logical = ptr(0)
	withFlag := machineOf(2, 3*gib)
	withFlag.Base.Flags = []node.Flag{{Name: "max-pods", Value: "250"}}

	archive, err := txtar.ParseFile("testdata/refusals.txtar")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, f := range archive.Files {
		want[f.Name] = strings.TrimSpace(string(f.Data))
	}
	var got txtar.Archive
	for _, c := range []struct {
		name, site string
		in         stages.Inputs
	}{
		{"no-facts", `policy = "gke"`, stages.Inputs{}},
		{"cpus-unread", `policy = "gke"`, unread},
		{"no-cpus", `policy = "gke"`, zero},
		{"memory-unread", `policy = "gke"`, noMemory},
		{"eks-pods", `policy = "eks"`, machineOf(2, 1536*mib)},
		{"eks-pods-of-the-base", `policy = "eks"`, withFlag},
		{"gke-small", `policy = "gke"`, machineOf(1, 512*mib)},
		{"floor", "policy = \"gke\"\nfloor = { memory = \"16Gi\" }", machineOf(2, 4*gib)},
		{"floor-cpu", "policy = \"aks\"\nfloor = { cpu = 4 }", machineOf(4, 16*gib)},
		{"static-above-capacity", "policy = \"static\"\nstatic {\n cpu = 8\n memory = \"64Gi\"\n}", machineOf(8, 16*gib)},
		{"remainder-nothing", "policy = \"remainder\"\nremainder { cpus = 0 }", machineOf(8, 16*gib)},
		{"remainder-all-memory", "policy = \"remainder\"\nremainder { memory = \"100%\" }", machineOf(8, 16*gib)},
		{"huge-pages", `policy = "gke"`, huge},
		{"huge-pages-above-memory", `policy = "gke"`, impossible},
		{"giant", `policy = "gke"`, giant},
		{"pods-above-all", `policy = "aks"`, manyPods},
		{"cores-too-many", "policy = \"gke\"\ntopology { cores = 5 }", machineOf(8, 16*gib)},
		{"cores-all", "policy = \"gke\"\ntopology { cores = 4 }", machineOf(8, 16*gib)},
		{"cores-uneven", "policy = \"gke\"\ntopology {\n cores = 5\n spread = \"numa\"\n}", sockets(2, 8, true, 64*gib)},
		{"cores-one", "policy = \"gke\"\ntopology {\n cores = 1\n spread = \"numa\"\n}", sockets(2, 8, true, 64*gib)},
		{"cores-node-too-small", "policy = \"gke\"\ntopology {\n cores = 4\n spread = \"numa\"\n}", uneven},
		{"cores-unknown", "policy = \"gke\"\ntopology { cores = 1 }", noCores},
		{"cores-nodes-unknown", "policy = \"gke\"\ntopology {\n cores = 2\n spread = \"numa\"\n}", noNodes},
	} {
		r := decide(t, c.site, c.in)
		text := formatDiagnostics(r.diags)
		got.Files = append(got.Files, txtar.File{Name: c.name, Data: []byte(text + "\n\n")})
		if d := cmp.Diff(want[c.name], text); d != "" && !*update {
			t.Errorf("%s (-want +got): %s", c.name, d)
		}
		if origin.Exit(r.diags) != 30 || len(r.c.Settings) != 0 || r.c.Reserved != nil {
			t.Errorf("%s: got exit %d and %+v, want a refusal without a contribution",
				c.name, origin.Exit(r.diags), r.c)
		}
	}
	if len(want) != len(got.Files) && !*update {
		t.Errorf("got %d messages in the file, want one for each of %d cases", len(want), len(got.Files))
	}
	if *update {
		if err := os.WriteFile("testdata/refusals.txtar", txtar.Format(&got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// What the site itself got wrong is found with no machine: exit 10, at its place.
func TestSiteFaults(t *testing.T) {
	for name, c := range map[string]struct{ site, want string }{
		"policy misspelt":         {`policy = "gek"`, `wrong-type site.hcl:1,10-15 Did you mean "gke"?`},
		"policy missing":          {`max_pods = 3`, `missing-argument site.hcl:1,1-1`},
		"policy null":             {`policy = null`, `missing-argument site.hcl:1,10-14 No default`},
		"unknown block":           {"policy = \"gke\"\nstatc {}", `unknown-block site.hcl:2,1-6 Did you mean "static"?`},
		"pods":                    {"policy = \"gke\"\nmax_pods = 0", `wrong-type site.hcl:2,12-13 0 is not possible: a whole number from 1`},
		"pods, a fraction":        {"policy = \"gke\"\nmax_pods = 1.5", `wrong-type site.hcl:2,12-15 1.5 is not possible`},
		"pods, a thousand digits": {"policy = \"gke\"\nmax_pods = 1e400", `wrong-type site.hcl:2,12-17 Write a whole number up to`},
		"floor's resource":        {"policy = \"gke\"\nfloor = { memroy = \"1Gi\" }", `wrong-type site.hcl:2,9-27 unknown resource "memroy". Did you mean "memory"?`},
		"floor's quantity":        {"policy = \"gke\"\nfloor = { memory = \"1GB\" }", `wrong-type site.hcl:2,9-27 invalid quantity "1GB" of memory`},
		"cap's quantity":          {"policy = \"gke\"\ncap = { cpu = -1 }", `wrong-type site.hcl:2,7-19 "-1" of cpu is negative`},
		"floor above cap": {"policy = \"gke\"\nfloor = { memory = \"2Gi\" }\ncap = { memory = \"1Gi\" " +
			"}", `wrong-type site.hcl:2,20-25 At least 2Gi and at most 1Gi`},
		"topology and floor":      {"policy = \"gke\"\nfloor = { cpu = 1 }\ntopology { cores = 2 }", `wrong-type site.hcl:2,17-18 silently ignores every amount of cpu`},
		"topology and cap":        {"policy = \"gke\"\ncap = { cpu = 1 }\ntopology { cores = 2 }", `wrong-type site.hcl:2,15-16 Remove one of them`},
		"topology's cores":        {"policy = \"gke\"\ntopology { cores = 0 }", `wrong-type site.hcl:2,20-21 0 is not possible`},
		"topology, null cores":    {"policy = \"gke\"\ntopology { cores = null }", `missing-argument site.hcl:2,20-24 leave the block out`},
		"topology's spread":       {"policy = \"gke\"\ntopology {\n cores = 1\n spread = \"even\"\n}", `wrong-type site.hcl:4,11-17 "even" is not one of`},
		"static without block":    {`policy = "static"`, `missing-argument site.hcl:1,10-18 static { memory = "8Gi" }`},
		"static of nothing":       {"policy = \"static\"\nstatic {}", `missing-argument site.hcl:1,10-18 static { memory = "8Gi" }`},
		"static's quantity":       {"policy = \"static\"\nstatic { memory = \"8 Gi\" }", `wrong-type site.hcl:2,19-25 invalid quantity "8 Gi" of memory`},
		"remainder without block": {`policy = "remainder"`, `missing-argument site.hcl:1,10-21 remainder { cpus = 8 }`},
		"remainder's percent":     {"policy = \"remainder\"\nremainder { memory = 10 }", `wrong-type site.hcl:2,22-24 invalid percentage "10"`},
		"remainder's cpus":        {"policy = \"remainder\"\nremainder { cpus = -4 }", `wrong-type site.hcl:2,20-22 -4 is not possible`},
		"half of a pair":          {"policy = \"eks\"\neks { enis = 3 }", `missing-argument site.hcl:2,1-4 Write both, or neither`},
	} {
		t.Run(name, func(t *testing.T) {
			r := decide(t, c.site, stages.Inputs{Check: true})
			code, rest, _ := strings.Cut(c.want, " ")
			place, words, _ := strings.Cut(rest, " ")
			if got := formatDiagnostics(r.diags); !strings.HasPrefix(got, code+" "+place+"\n") ||
				!strings.Contains(got, words) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if origin.Exit(r.diags) != 10 {
				t.Errorf("got exit %d, want 10", origin.Exit(r.diags))
			}
		})
	}
}

// TestBaseFaults: errors of the base are reported as such, and only where the value is needed.
func TestBaseFaults(t *testing.T) {
	site := "policy = \"static\"\nstatic { cpu = 1 }"
	for name, c := range map[string]struct {
		base map[string]any
		want string
	}{
		"quantity":   {map[string]any{"systemReserved": map[string]any{"memory": "1x"}}, "systemReserved.memory: invalid quantity \"1x\""},
		"threshold":  {map[string]any{"evictionHard": map[string]any{"memory.available": "200%"}}, "evictionHard: memory.available: \"200%\" is not a percentage"},
		"threshold2": {map[string]any{"evictionHard": map[string]any{"memory.available": "much"}}, "evictionHard: memory.available: invalid quantity \"much\""},
	} {
		r := decide(t, site, withBase(machineOf(8, 16*gib), c.base))
		if got := formatDiagnostics(r.diags); !strings.HasPrefix(got, "kubelet-config ") ||
			!strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want kubelet-config with %s", name, got, c.want)
		}
	}
	r := decide(
		t,
		"policy = \"static\"\nstatic { memory = \"1Gi\" }",
		withBase(machineOf(8, 16*gib), map[string]any{"reservedSystemCPUs": "0-"}),
	)
	if got := formatDiagnostics(r.diags); !strings.Contains(got, "CPU list \"0-\"") {
		t.Errorf("CPU list 0-: got %s, want an error about it", got)
	}
	mustDecide(
		t,
		`policy = "gke"`,
		withBase(
			machineOf(8, 16*gib),
			map[string]any{"systemReserved": map[string]any{"memory": "1x"}, "reservedSystemCPUs": "0-"},
		),
	)
}

// 0% and 100% switch a threshold off; percentages are the kubelet's own arithmetic.
func TestThresholds(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "0%": 0, "100%": 0, "10%": 1717986944, "5%": 858993472, "50%": 8 * gib, "100Mi": 100 * mib} {
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
