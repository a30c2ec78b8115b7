package planning

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/testing/osfile"
)

func TestEachMachine(t *testing.T) {
	dir := t.TempDir()
	osfile.WriteTree(t, dir, map[string]string{"b.prelet": "", "a.prelet.gz": "", "c.txt": ""})
	file := filepath.Join(dir, "b.prelet")

	errEnd := errors.New("end")
	for _, c := range []struct {
		name, from  string
		end         bool
		begun, done []string
		err         bool
	}{
		{"no recording", "", false, nil, []string{""}, false},
		{"one recording", file, false, nil, []string{""}, false},
		{"a folder", dir, false, []string{"a.prelet.gz", "b.prelet"}, []string{"a.prelet.gz", "b.prelet"}, false},
		{"an error ends it", dir, true, []string{"a.prelet.gz"}, []string{"a.prelet.gz"}, true},
		{"an empty folder", t.TempDir(), false, nil, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var begun, done []string
			begin := func(source string) { begun = append(begun, filepath.Base(source)) }
			do := func(one lab.Request, source string) (fault.Code, error) {
				if source == "" {
					done = append(done, "")
				} else {
					done = append(done, filepath.Base(one.From))
				}
				if c.end {
					return "", errEnd
				}
				return "", nil
			}
			_, err := eachMachine(t.Context(), &machine.Env{}, lab.Request{From: c.from}, begin, do)
			if (err != nil) != c.err || !slices.Equal(begun, c.begun) || !slices.Equal(done, c.done) {
				t.Errorf("begun %q, done %q, %v; want %q, %q, an error: %v", begun, done, err, c.begun, c.done, c.err)
			}
		})
	}
}

// A signal ends the command after the recording that is being read.
func TestEachMachineStops(t *testing.T) {
	dir := t.TempDir()
	osfile.WriteTree(t, dir, map[string]string{"a.prelet": "", "b.prelet": ""})

	ctx, cancel := context.WithCancel(t.Context())
	done := 0
	_, err := eachMachine(ctx, &machine.Env{}, lab.Request{From: dir}, func(string) {}, func(lab.Request, string) (fault.Code, error) {
		done++
		cancel()
		return "", nil
	})
	if fault.CodeOf(err) != fault.Interrupted || done != 1 {
		t.Errorf("%d recordings, %v; want 1 and code %q", done, err, fault.Interrupted)
	}
}

// A recording that does not have the item fails, but for JSON over a folder: there each recording has its document.
func TestExplainOverFolder(t *testing.T) {
	dir := t.TempDir()
	recording, err := os.ReadFile("../../../testdata/recordings/v1/gpu.prelet")
	must(t, err)
	osfile.WriteTree(t, dir, map[string]string{"a.prelet": string(recording)})

	for _, c := range []struct {
		name, from      string
		missingIsResult bool
		code            fault.Code // of the command
		err             fault.Code // of its error
		shown           int
	}{
		{"text, a folder", dir, false, fault.Usage, "", 1},
		{"JSON, a folder", dir, true, "", "", 1},
		{"text, one recording", filepath.Join(dir, "a.prelet"), false, fault.Usage, "", 1},
		{"JSON, one recording", filepath.Join(dir, "a.prelet"), true, fault.Usage, "", 1},
		{"a recording that is missing", filepath.Join(dir, "none"), true, "", fault.RecordingInvalid, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			shown := 0
			o := ExplainOptions{
				Request: lab.Request{From: c.from}, Word: "config/noSuchField", MissingIsResult: c.missingIsResult,
			}
			code, err := Explain(t.Context(), newTestEnv(), o, func(string) {}, func(x Explanation) error {
				shown++
				if x.Missing == nil {
					t.Errorf("Missing is nil, want why %s is not in the plan", o.Word)
				}
				return nil
			})
			if code != c.code || fault.CodeOf(err) != c.err || shown != c.shown {
				t.Errorf("code %q, error %v, %d shown; want %q, code %q, %d", code, err, shown, c.code, c.err, c.shown)
			}
		})
	}
}

func TestExplainCode(t *testing.T) {
	for _, c := range []struct {
		word  string
		err   fault.Code
		shown int
	}{{"code/null-fact", "", 1}, {"code/nul-fact", fault.Usage, 0}} {
		shown := 0
		code, err := Explain(t.Context(), newTestEnv(), ExplainOptions{Word: c.word}, nil, func(x Explanation) error {
			shown++
			if x.Page.Text == "" {
				t.Errorf("%s: the page is empty", c.word)
			}
			return nil
		})
		if code != "" || fault.CodeOf(err) != c.err || shown != c.shown {
			t.Errorf("Explain(%s): code %q, error %v, %d shown; want error code %q, %d",
				c.word, code, err, shown, c.err, c.shown)
		}
	}
}
