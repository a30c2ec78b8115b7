package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/bench/measure"
)

// sampleResult has two programs, and a growth with a range.
func sampleResult() result {
	samples := []measure.Sample{
		{WallMS: 60, CPUMS: 50, RSSMiB: 30, Requests: 3, Written: 240},
		{WallMS: 80, CPUMS: 70, RSSMiB: 32, Requests: 3, Written: 240},
		{WallMS: 70, CPUMS: 60, RSSMiB: 31, Requests: 3, Written: 240},
	}

	return result{
		Date: "2026-01-02", Machine: "linux/amd64, 2 CPUs", CPU: "a processor", Kernel: "6.1.0", Rounds: 3,
		Peers: []row{
			{Name: "floor", Disk: 6e6, Samples: samples[:1]},
			{Name: "prelet, first run", Version: "0.1.0+dev.g1", Disk: 31e6, Samples: samples},
		},
		Growth: []growth{
			{"devices", []series{{"floor", []point{{0, samples[:1]}, {8, samples}}}}},
			{"recordings", []series{{"plan", []point{{10, samples[:1]}, {1000, samples}}}}},
		},
	}
}

// TestDocs writes the images and the page, twice with the same bytes.
func TestDocs(t *testing.T) {
	dir := t.TempDir()
	text, err := json.Marshal(sampleResult())
	if err != nil {
		t.Fatal(err)
	}
	file, page := filepath.Join(dir, "result.json"), filepath.Join(dir, "performance.md")
	write(t, file, string(text))
	write(t, page, "before\n"+begin+"old\n"+end+"after\n")

	var first map[string]string
	for range 2 {
		if err := run([]string{"-docs", dir, file}, io.Discard); err != nil {
			t.Fatalf("run: got %v, want no error", err)
		}
		got := map[string]string{}
		for _, name := range []string{
			"performance.md", "images/peers-time.svg", "images/peers-size.svg", "images/growth-devices.svg",
			"images/growth-recordings.svg", "images/growth-recordings-memory.svg",
		} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			got[name] = string(text)
			if first != nil && got[name] != first[name] {
				t.Errorf("%s: got other bytes the second time, want the same", name)
			}
		}
		first = got
	}

	want := "| prelet, first run | 0.1.0+dev.g1 | **70** (60–80) | 60 (50–70) | 31 | 3 | 120 | 31 |\n"
	if got := first["performance.md"]; !strings.Contains(got, want) || strings.Contains(got, "old") ||
		!strings.HasPrefix(got, "before\n") || !strings.HasSuffix(got, "after\n") {
		t.Errorf("page: got\n%s\nwant the line %s between what was around it", got, want)
	}
	for name, text := range first {
		if strings.HasSuffix(name, ".svg") {
			checkImage(t, name, text)
		}
	}
	if got := first["images/growth-devices.svg"]; !strings.Contains(got, ">First run on a machine with 0 to 64 GPUs<") {
		t.Errorf("growth-devices.svg: got\n%s\nwant the title as text", got)
	}
}

// checkImage fails unless an image is XML with both themes.
func checkImage(t *testing.T, name, text string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		_, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%s: got %v, want XML", name, err)
		}
	}
	if got, want := strings.Count(text, "textLength="), strings.Count(text, "<text"); got != want {
		t.Errorf("%s: got %d texts with a width, want all %d", name, got, want)
	}
	for _, want := range []string{"prefers-color-scheme: dark", `style="fill:#FFFFFF"`, "stroke:#000000", "<text"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s: got no %q, want it", name, want)
		}
	}
}

// TestEvenly: an axis has enough labels, from zero.
func TestEvenly(t *testing.T) {
	for _, high := range []float64{0.3, 1, 9, 10, 47, 99, 201, 1000, 7777} {
		got := evenly{}.Ticks(0, high)
		if len(got) < 4 || len(got) > 10 || got[0].Value != 0 || got[len(got)-1].Value > high {
			t.Errorf("an axis to %g: got %+v, want 4 to 10 ticks from 0", high, got)
		}
	}
}

func TestRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "result.json")
	write(t, file, "{}")
	if err := run([]string{file}, io.Discard); err == nil || !strings.Contains(err.Error(), "no programs") {
		t.Errorf("an empty result: got %v, want an error about programs", err)
	}

	text, err := json.Marshal(sampleResult())
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, string(text))
	write(t, filepath.Join(dir, "performance.md"), "no part\n")
	if err := run([]string{"-docs", dir, file}, io.Discard); err == nil || !strings.Contains(err.Error(), "made by") {
		t.Errorf("a page without the part: got %v, want an error with its first line", err)
	}

	var out bytes.Buffer
	if err := run([]string{file}, &out); err != nil || !strings.Contains(out.String(), "| floor |") {
		t.Errorf("without -docs: got %q, %v; want the table", &out, err)
	}
}

func TestShortVersion(t *testing.T) {
	tests := []struct{ name, version, want string }{
		{"prelet, first run", "0.1.0+dev.gb1da6aed0f.dirty", "0.1.0+dev.gb1da6aed0f.dirty"},
		{"ignition", "2.14.0+ds1-1+b6", "2.14.0"},
		{"nodeadm", "v0.0.0-20240229193347-cfab22a10647", "of 2024-02-29"},
		{"kubeadm", "v1.37.1", "v1.37.1"},
		{"floor", "", ""},
	}
	for _, test := range tests {
		if got := (row{Name: test.name, Version: test.version}).shortVersion(); got != test.want {
			t.Errorf("version %q of %s: got %q, want %q", test.version, test.name, got, test.want)
		}
	}
}

// TestSentences: what the page claims follows from the samples, also where prelet is slower or a budget is missed.
func TestSentences(t *testing.T) {
	at := func(wall, cpu, memory float64) []measure.Sample {
		return []measure.Sample{{WallMS: wall, CPUMS: cpu, RSSMiB: memory}}
	}
	r := result{
		Peers: []row{
			{Name: "prelet, first run", Samples: at(100, 75, 0)},
			{Name: kubeadm, Samples: at(400, 50, 0)},
		},
		Growth: []growth{
			{"threads", []series{
				{inUnits, []point{{224, at(0, 50, 34)}}},
				{byHand, []point{{224, at(0, 75, 43)}}},
			}},
			{"recordings", []series{{"plan", []point{{1000, slices.Repeat(at(12000, 7000, 0), 2)}, {10000, at(1, 1, 1)}}}}},
		},
	}
	want := "\n| median over that of `kubeadm join phase kubelet-start` | wall | CPU |\n|---|---|---|\n" +
		"| prelet, first run | 0.25 | 1.50 |\n" +
		"\nkubeadm's wall time is 400 ms, its CPU time 50 ms: the difference is waiting.\n" +
		"\n[How cost grows](#how-cost-grows), samples of a point: threads 1, recordings 1 to 2.\n" +
		"\nWith 224 CPUs, `GOMAXPROCS=224` takes 1.5 times the CPU time of `GOMAXPROCS=4`: 75 and 50 ms, and 43 and 34 " +
		"MiB.\n\n1,000 recordings missed their budget of 10 s: 12.0 s wall time on the machine above, 7.0 s CPU time.\n"
	if got := r.ratios() + r.costs(); got != want {
		t.Errorf("sentences: got\n%s\nwant\n%s", got, want)
	}

	r.GrowthMachine = "2 CPUs, quiet"
	r.Growth[1].Series[0].Points[0].Samples = at(9000, 7000, 0)
	got := r.costs()
	for _, want := range []string{"\n2 CPUs, quiet.\n", "1,000 recordings met their budget of 10 s: 9.0 s"} {
		if !strings.Contains(got, want) {
			t.Errorf("a quiet run: got\n%s\nwant %q in it", got, want)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
