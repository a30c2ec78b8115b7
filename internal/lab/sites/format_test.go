package sites

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/internal/testing/table"
)

const (
	uglySite = "locals   {\n a=1\n}\n"
	tidySite = "locals {\n  a = 1\n}\n"
)

func TestFormat(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		Name    string
		Files   map[string]string
		Check   bool
		Changed []string
		Code    fault.Code
		Err     fault.Code
		After   map[string]string
	}](t, `
- name: nothing to do
  files:
    a.hcl: |
      locals {
        a = 1
      }
- name: one changes
  files:
    a.hcl: |
      locals {
        a = 1
      }
    b.hcl: |
      locals   {
       a=1
      }
  changed: [b.hcl]
  after:
    b.hcl: |
      locals {
        a = 1
      }
- name: check writes nothing
  files:
    a.hcl: |
      locals   {
       a=1
      }
  check: true
  changed: [a.hcl]
  after:
    a.hcl: |
      locals   {
       a=1
      }
- name: one refused, the next formatted
  files:
    a.hcl: "stage {\n"
    b.hcl: |
      locals   {
       a=1
      }
  changed: [b.hcl]
  code: syntax
  after:
    a.hcl: "stage {\n"
    b.hcl: |
      locals {
        a = 1
      }
- name: a link is refused
  files:
    a.hcl: -> b.hcl
    b.hcl: |
      locals {
        a = 1
      }
  code: file-refused
- {name: a mask is empty, files: {a.hcl: -> /dev/null}}
- {name: a dangling link is refused, files: {a.hcl: -> none}, code: file-refused}
- name: variables
  files:
    a.prelet.vars: |
      a=1
      bc=2
  changed: [a.prelet.vars]
- {name: JSON in a folder is left alone, files: {a.hcl.json: '{}'}}
- name: folders are not entered
  files:
    d.d/a.hcl: |
      locals   {
       a=1
      }
`) {
		t.Run(c.Name, func(t *testing.T) {
			dir := t.TempDir()
			osfile.WriteTree(t, dir, c.Files)

			got, err := Format([]string{dir}, c.Check)
			if fault.CodeOf(err) != c.Err {
				t.Fatalf("Format: error %v, want code %q", err, c.Err)
			}
			var changed []string
			for _, p := range got.Changed() {
				changed = append(changed, filepath.Base(p))
			}
			if !slices.Equal(changed, c.Changed) || got.Code != c.Code {
				t.Errorf("Format: changed %q, code %q; want %q, %q", changed, got.Code, c.Changed, c.Code)
			}
			for name, want := range c.After {
				if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != want {
					t.Errorf("%s: %q, %v; want %q", name, text, err, want)
				}
			}
		})
	}
}

// An error ends the command, and the result has the files that were formatted before it.
func TestFormatErrors(t *testing.T) {
	dir := t.TempDir()
	osfile.WriteTree(t, dir, map[string]string{"a.hcl": uglySite, "b.json": "{}"})

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
	must(t, os.Chmod(path, 0o600))
	if _, err := Format([]string{path}, false); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	must(t, err)
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

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
