package sites

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
)

const (
	uglySite = "locals   {\n a=1\n}\n"
	tidySite = "locals {\n  a = 1\n}\n"
)

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		name    string
		files   map[string]string
		check   bool
		changed []string
		code    fault.Code
		err     fault.Code
		after   map[string]string
	}{
		{name: "nothing to do", files: map[string]string{"a.hcl": tidySite}},
		{
			name: "one changes", files: map[string]string{"a.hcl": tidySite, "b.hcl": uglySite},
			changed: []string{"b.hcl"}, after: map[string]string{"b.hcl": tidySite},
		},
		{
			name: "check writes nothing", files: map[string]string{"a.hcl": uglySite}, check: true,
			changed: []string{"a.hcl"}, after: map[string]string{"a.hcl": uglySite},
		},
		{
			name: "one refused, the next formatted", files: map[string]string{"a.hcl": "stage {\n", "b.hcl": uglySite},
			changed: []string{"b.hcl"}, code: fault.Syntax,
			after: map[string]string{"a.hcl": "stage {\n", "b.hcl": tidySite},
		},
		{
			name: "a link is refused", files: map[string]string{"a.hcl": "-> b.hcl", "b.hcl": tidySite},
			code: fault.FileRefused,
		},
		{name: "a mask is empty", files: map[string]string{"a.hcl": "-> /dev/null"}},
		{
			name: "a dangling link is refused", files: map[string]string{"a.hcl": "-> none"},
			code: fault.FileRefused,
		},
		{
			name: "variables", files: map[string]string{"a.prelet.vars": "a=1\nbc=2\n"},
			changed: []string{"a.prelet.vars"},
		},
		{name: "JSON in a folder is left alone", files: map[string]string{"a.hcl.json": "{}"}},
		{name: "folders are not entered", files: map[string]string{"d.d/a.hcl": uglySite}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			putTestFiles(t, dir, c.files)

			got, err := Format([]string{dir}, c.check)
			if fault.CodeOf(err) != c.err {
				t.Fatalf("Format: error %v, want code %q", err, c.err)
			}
			var changed []string
			for _, p := range got.Changed() {
				changed = append(changed, filepath.Base(p))
			}
			if !slices.Equal(changed, c.changed) || got.Code != c.code {
				t.Errorf("Format: changed %q, code %q; want %q, %q", changed, got.Code, c.changed, c.code)
			}
			for name, want := range c.after {
				if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != want {
					t.Errorf("%s: %q, %v; want %q", name, text, err, want)
				}
			}
		})
	}
}

// putTestFiles writes files below dir. A text "-> TARGET" makes a symbolic link.
func putTestFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if len(text) > 3 && text[:3] == "-> " {
			err = os.Symlink(text[3:], path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o640)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// An error ends the command, and the result has the files that were formatted before it.
func TestFormatErrors(t *testing.T) {
	dir := t.TempDir()
	putTestFiles(t, dir, map[string]string{"a.hcl": uglySite, "b.json": "{}"})

	got, err := Format([]string{filepath.Join(dir, "a.hcl"), filepath.Join(dir, "b.json")}, false)
	if fault.CodeOf(err) != fault.Usage || len(got.Changed()) != 1 {
		t.Errorf("a.hcl and b.json: %v, changed %q; want a usage error after a.hcl", err, got.Changed())
	}
	got, err = Format([]string{filepath.Join(dir, "none")}, false)
	if fault.CodeOf(err) != fault.Usage || got.Files != nil {
		t.Errorf("a missing file: %v, %v; want a usage error and no file", got.Files, err)
	}
}

// A file keeps its permissions.
func TestFormatKeepsMode(t *testing.T) {
	path := writeTestFile(t, "a.hcl", uglySite)
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Format([]string{path}, false); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if st.Mode().Perm() != 0o600 {
		t.Errorf("mode %o after Format, want 600", st.Mode().Perm())
	}
}

// FormatInput reads an endless input only until it is too large.
func TestFormatInput(t *testing.T) {
	got, err := FormatInput(strings.NewReader(uglySite))
	if err != nil || string(got.Text) != tidySite || got.IsCanonical() {
		t.Errorf("FormatInput(%q): got %q, canonical %v, %v; want %q", uglySite, got.Text, got.IsCanonical(), err, tidySite)
	}

	got, err = FormatInput(strings.NewReader(tidySite))
	if err != nil || !got.IsCanonical() {
		t.Errorf("FormatInput(%q): got %q, %v; want it as canonical", tidySite, got.Text, err)
	}

	got, err = FormatInput(endless{})
	if err != nil || origin.Code(got.Diagnostics) != fault.Limit {
		t.Errorf("FormatInput of an endless text: got %v, %v; want the code %s", got.Diagnostics, err, fault.Limit)
	}
}

// endless is a text without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '#'
	}
	return len(p), nil
}
