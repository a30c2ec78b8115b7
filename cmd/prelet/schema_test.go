package main

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/prelet/prelet/stages/builtin"
)

func TestSchemaPrints(t *testing.T) {
	t.Parallel()
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
	if doc.FormatVersion != 1 || len(doc.Stages) != len(builtin.Stages()) || doc.Stages[0].Type != "fetch-ca" ||
		doc.Stages[0].Outputs[0].Name != "pem" {
		t.Errorf("not the language: %+v", doc)
	}
	stdout.Reset()
	if code := run([]string{"schema"}, &stdout, &stderr); code != 0 || !strings.HasPrefix(stdout.String(), "# Blocks") {
		t.Errorf("exit %d: %.80s", code, stdout.String())
	}
	for _, args := range [][]string{{"schema", "-o", "yaml"}, {"schema", "-o", "json", "--out", t.TempDir()}, {"schema", "label"}} {
		if code := run(args, io.Discard, io.Discard); code != 64 {
			t.Errorf("prelet %s: exit %d, want 64", strings.Join(args, " "), code)
		}
	}
}
