package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages/builtin"
)

// TestPagesAreFresh holds docs/ against the code.
func TestPagesAreFresh(t *testing.T) {
	want := pages(schema.Describe(builtin.Language()))
	const help = "run `make generate` and commit what changes"
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join("../../docs", filepath.FromSlash(name)))
		switch {
		case err != nil:
			t.Errorf("%s: %s", err, help)
		case string(got) != text:
			t.Errorf("docs/%s is stale: %s", name, help)
		}
	}
	for _, dir := range []string{"reference", "codes"} {
		there, err := filepath.Glob(filepath.Join("../../docs", dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range there {
			if name := dir + "/" + filepath.Base(p); want[name] == "" {
				t.Errorf("docs/%s is made from nothing any more: remove it", name)
			}
		}
	}
}

func TestSchemaWritesItsPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	var stderr strings.Builder
	if code := run([]string{"schema", "--dir", dir}, io.Discard, &stderr); code != 0 {
		t.Fatalf("exit %d: %s", code, &stderr)
	}
	for name, text := range pages(schema.Describe(builtin.Language())) {
		got, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil || string(got) != text {
			t.Errorf("%s: %v, %d bytes of %d", name, err, len(got), len(text))
		}
	}
}

func TestSchemaPrints(t *testing.T) {
	var stdout, stderr strings.Builder
	if code := run([]string{"schema", "-o", "json"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit %d: %s", code, &stderr)
	}
	var doc struct {
		FormatVersion int `json:"format_version"`
		Stages        []struct {
			Type    string
			Outputs []struct{ Name string }
		}
	}
	if err := json.Unmarshal([]byte(stdout.String()), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.FormatVersion != 1 || len(doc.Stages) != len(builtin.Stages()) || doc.Stages[0].Type != "fetch-ca" || doc.Stages[0].Outputs[0].Name != "pem" {
		t.Errorf("not the language: %+v", doc)
	}
	stdout.Reset()
	if code := run([]string{"schema"}, &stdout, &stderr); code != 0 || !strings.HasPrefix(stdout.String(), "# Blocks") {
		t.Errorf("exit %d: %.80s", code, stdout.String())
	}
	for _, args := range [][]string{{"schema", "-o", "yaml"}, {"schema", "-o", "json", "--dir", t.TempDir()}, {"schema", "label"}} {
		if code := run(args, io.Discard, io.Discard); code != 64 {
			t.Errorf("prelet %s: exit %d, want 64", strings.Join(args, " "), code)
		}
	}
}
