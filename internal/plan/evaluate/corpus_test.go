package evaluate

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/stages/builtin"
)

var record = flag.Bool("record", false, "record the cases that are in no corpus yet into that of this format")

// recordings are kept for ever: what a format once said must be understood by all later versions.
const recordings = "../../../testdata/recordings"

// corpusCases are recorded, those whose answers are of many kinds.
func corpusCases() []string {
	return []string{
		"states",
		"joined",
		"not-joined",
		"secret-carried",
		"base",
		"drop-in",
		"withheld",
		"null-item",
		"gpu",
	}
}

// gpuCase is the largest of the examples on the machine that it was written for.
func gpuCase(t testing.TB) *txtar.Archive {
	t.Helper()
	a := &txtar.Archive{}
	for name, path := range map[string]string{"site.hcl": "../../../examples/gpu-training/site.hcl",
		"facts": "../../../testdata/hardware/facts/dgx-h100.json"} {
		b := osfile.Read(t, path)
		a.Files = append(a.Files, txtar.File{Name: name, Data: b})
	}
	a.Files = append(a.Files, txtar.File{Name: "site.prelet.vars", Data: []byte("zone = \"az1-r07\"\n")})
	return a
}

// TestCorpus replays every recording of every format, and compares with the plan that it gave when it was made.
func TestCorpus(t *testing.T) {
	if *record {
		writeCorpus(t)
	}
	names, err := filepath.Glob(recordings + "/v*/*.prelet")
	if err != nil || len(names) < len(corpusCases()) {
		t.Fatalf("recordings in the corpus: got %d, %v; want at least %d", len(names), err, len(corpusCases()))
	}
	for _, n := range names {
		t.Run(strings.TrimPrefix(n, recordings+"/"), func(t *testing.T) {
			b := osfile.Read(t, n)
			rec, err := tape.Decode(bytes.NewReader(b))
			must(t, err)
			s, diags := lang.Parse(rec.Header.Site, lang.LoadOptions{Stages: builtin.Stages(), Version: "0.1.0"})
			if diags.HasErrors() {
				t.Fatalf("parsing the site: got %v, want no error", diags)
			}
			got := printNode(Run(context.Background(), s, RunInput{Source: rec.Source()}))
			golden := strings.TrimSuffix(n, ".prelet") + ".want"
			if *record {
				if _, err := os.Stat(golden); err != nil {
					osfile.Write(t, golden, got, 0o644)
				}
			}
			want := osfile.Read(t, golden)
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("the node differs (-want +got):\n%s", d)
			}
		})
	}
}

// showNode is showPlan without words: later versions may say the same better.
func printNode(p *Plan) string {
	var out []string
	for _, l := range strings.Split(showPlan(p), "\n") {
		switch kind, _, _ := strings.Cut(l, " "); kind {
		case "error", "warning", "note", "degraded", "setting":
		default:
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}

func writeCorpus(t *testing.T) {
	dir := recordings + "/v1"
	must(t, os.MkdirAll(dir, 0o755))
	for _, n := range corpusCases() {
		path := filepath.Join(dir, n+".prelet")
		if _, err := os.Stat(path); err == nil {
			continue
		}
		a, err := txtar.ParseFile("testdata/run/" + n + ".txt")
		if n == "gpu" {
			a, err = gpuCase(t), nil
		}
		must(t, err)
		s, _ := parseCase(a)
		p := Run(context.Background(), s, RunInput{Source: fakeWorld(t, a)})
		rec := tape.Recording{Header: tape.Header{Prelet: "0.1.0", Time: "2026-01-01T00:00:00Z", Site: s.Files},
			Entries: p.Tape.Entries()}
		var b bytes.Buffer
		must(t, rec.Encode(&b))
		osfile.Write(t, path, b.Bytes(), 0o644)
	}
}

// TestHashKnowsNoText plans one site three times: unchanged, with comments and other line breaks, and in other files.
// The hash must stay the same.
func TestHashIgnoresText(t *testing.T) {
	a := gpuCase(t)
	plan := func(a *txtar.Archive) *Plan {
		s, diags := parseCase(a)
		if diags.HasErrors() {
			t.Fatalf("parsing the site: got %v, want no error", diags)
		}
		p := Run(context.Background(), s, RunInput{Source: fakeWorld(t, a), Now: time.Now})
		if !p.Complete {
			t.Fatalf("got %s\nwant a complete plan", showDiagnostics(p.Diagnostics))
		}
		return p
	}
	hash := plan(a).Hash
	commented := &txtar.Archive{Files: slices.Clone(a.Files)}
	renamed := &txtar.Archive{Files: slices.Clone(a.Files)}
	for n, f := range a.Files {
		if f.Name == "site.hcl" {
			commented.Files[n].Data = []byte("# another line\n\n" + string(f.Data) + "\n# one more\n")
			renamed.Files[n].Name = "other.hcl"
		}
	}
	if h := plan(commented).Hash; h != hash {
		t.Errorf("hash with a comment: got %s, want %s", h, hash)
	}
	if h := plan(renamed).Hash; h != hash {
		t.Errorf("hash with another name of a file: got %s, want %s", h, hash)
	}
}

// TestPlanHasNoPlaceholder looks at everything that a plan shows of the cases with secrets.
func TestPlanHasNoPlaceholder(t *testing.T) {
	names, err := filepath.Glob("testdata/*/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatal(err)
	}
	for _, n := range names {
		b := osfile.Read(t, n)
		if secret.HasPlaceholder(string(b)) {
			t.Errorf("%s: got a placeholder, want none", n)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	s, _ := parseCase(gpuCase(b))
	b.ReportAllocs()
	for b.Loop() {
		if d := Check(s, SampleMachines(), CheckOptions{}); d.HasErrors() {
			b.Fatal(d)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	a := gpuCase(b)
	s, _ := parseCase(a)
	src := fakeWorld(b, a)
	b.ReportAllocs()
	for b.Loop() {
		Run(context.Background(), s, RunInput{Source: src})
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
