package probe

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/table"
)

func TestExists(t *testing.T) {
	dir := t.TempDir()
	here := &Live{}
	for path, want := range map[string]string{
		dir:                        `{"exists":true}`,
		filepath.Join(dir, "none"): `{"exists":false}`,
	} {
		if a := here.answerExists(t.Context(), tape.ExistsReq{Path: path}); a.Fault != nil || string(a.Value) != want {
			t.Errorf("%s: got %+v, want %s", path, a, want)
		}
	}

	other := &Live{o: Sources{Root: dir}}
	if a := other.answerExists(t.Context(), tape.ExistsReq{Path: "/etc"}); a.Code() != fault.Absent {
		t.Errorf("below another root: got %+v, want code %s", a, fault.Absent)
	}
}

// TestVariableSources takes a variable from the first source that has it, and a sensitive one from a credential only.
func TestVariableSources(t *testing.T) {
	root, hardware := t.TempDir(), t.TempDir()
	place(t, root, "/proc/cmdline", "quiet prelet.var.both=line prelet.var.line=\"a b\"\n")
	place(t, hardware, "/proc/cmdline", "prelet.var.line=recorded\n")
	credentials := creds{
		"prelet.var.both": "credential", "prelet.var.line": "credential", "prelet.var.own": "text of ours\n",
		"prelet.var.bytes": "\xff",
	}

	for _, c := range table.YAML[[]struct {
		Name         string
		Sensitive    bool
		Hardware     string
		Text, Source string
		Code         fault.Code
	}](t, `
- {name: both, text: given, source: --var}
- {name: line, text: a b, source: the kernel command line}
- {name: line, hardware: '{hardware}', text: recorded, source: the kernel command line}
- {name: own, text: text of ours, source: credential prelet.var.own}
- {name: own, sensitive: true, source: credential prelet.var.own}
- {name: bytes, sensitive: true, source: credential prelet.var.bytes}
- {name: bytes, code: file-unusable}
- {name: both, sensitive: true, code: denied}
- {name: line, sensitive: true, code: denied}
- {name: filed, text: f, source: --var-file x}
- {name: filed, sensitive: true, source: --var-file x}
- {name: none, code: absent}
`, "hardware", hardware) {
		l := New(Sources{
			Root: root, Hardware: c.Hardware, Credentials: credentials,
			Variables: map[string]Given{
				"both": {Text: "given", Source: "--var"}, "filed": {Text: "f", Source: "--var-file x", IsFile: true},
			},
		})
		got, a, _ := tape.Variable.Ask(t.Context(), l, tape.VariableReq{Name: c.Name, Sensitive: c.Sensitive})
		if want := (tape.VariableAns{Text: c.Text, Source: c.Source}); got != want || a.Code() != c.Code {
			t.Errorf("%s, sensitive %t: got %+v, %+v; want %+v, code %q", c.Name, c.Sensitive, got, a, want, c.Code)
		}
		l.Close()
	}
}

// creds are credentials by name.
type creds map[string]string

func (c creds) Read(name string) ([]byte, error) {
	if s, ok := c[name]; ok {
		return []byte(s), nil
	}
	return nil, os.ErrNotExist
}

// newLive returns a node that is closed at the end of the test.
func newLive(t *testing.T, o Sources) *Live {
	l := New(o)
	t.Cleanup(l.Close)
	return l
}

// place writes a file that everyone may read below a root.
func place(t *testing.T, root, path, text string) {
	t.Helper()
	placeMode(t, root, path, text, 0o644)
}

// placeMode writes a file with a mode below a root.
func placeMode(t *testing.T, root, path, text string, mode os.FileMode) {
	t.Helper()
	file := filepath.Join(root, path)
	err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644), os.Chmod(file, mode))
	must(t, err)
}

// TestFileThatComesLate waits for a file that is written after a while, and for a file that is never written. For
// missing files of another machine it does not wait. The clock is synctest's.
func TestFileThatComesLate(t *testing.T) { synctest.Test(t, testFileThatComesLate) }

func testFileThatComesLate(t *testing.T) {
	dir := t.TempDir()
	late := filepath.Join(dir, "late.yaml")
	// Its text is an answer although not every user may pass this folder.
	const text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	l := newLive(t, Sources{})
	time.AfterFunc(300*time.Millisecond, func() { place(t, "/", late, text) })

	got, a, _ := tape.File.Ask(t.Context(), l, tape.FileReq{Path: late, WaitMillis: 300_000})
	if got.Text != text {
		t.Errorf("a file that comes late: got %+v, %+v; want its text", got, a)
	}

	start := time.Now()
	_, a, _ = tape.File.Ask(t.Context(), l, tape.FileReq{Path: filepath.Join(dir, "none"), WaitMillis: 300})
	if took := time.Since(start); a.Code() != fault.Absent || took < 300*time.Millisecond || took > time.Second {
		t.Errorf("a file that never comes: got %+v after %s; want code absent after 300ms", a, took)
	}

	below := newLive(t, Sources{Root: dir})
	start = time.Now()
	_, a, _ = tape.File.Ask(t.Context(), below, tape.FileReq{Path: "/none", WaitMillis: 60_000})
	if took := time.Since(start); a.Code() != fault.Absent || took > 0 {
		t.Errorf("below a root: got %+v after %s; want code absent at once", a, took)
	}
}
