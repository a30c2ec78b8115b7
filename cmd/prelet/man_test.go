package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Pages of a package must not depend on the day: a time that cannot be read is an error.
func TestManPagesAtNoTime(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	dir := t.TempDir()
	var out strings.Builder
	code := run([]string{"man", dir}, &out, &out)
	if want := "invalid $SOURCE_DATE_EPOCH \"yesterday\""; code != 64 || !strings.Contains(out.String(), want) {
		t.Errorf("prelet man: got exit %d, %s; want 64 and %q", code, &out, want)
	}
}

// Each command has a manual page with its flags, and the language has one with its blocks.
func TestManPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1772323200") // 2026-03-01
	dir := t.TempDir()
	var out strings.Builder
	if code := run([]string{"man", dir}, &out, &out); code != 0 {
		t.Fatalf("prelet man: got exit %d, %s; want 0", code, &out)
	}

	for page, wants := range map[string][]string{
		"prelet.8": {
			`"Mar 2026"`, `\fBprelet\-plan\fR(8)`, "/run/prelet/status.json", `\fB64\fR (fixed by the caller`,
		},
		"prelet-plan.8": {
			`\fB\-\-against\fR \fISITE\fR`, `\fB\-o\fR, \fB\-\-output\fR \fIFORMAT\fR`, `\fB\-\-full\fR` + "\n",
		},
		"prelet-history-diff.8": {`\fBprelet history diff A [B] [flags]\fR`, "prelet\\-history(8)"},
		"prelet-fleet.8":        {`\fBprelet fleet\fR COMMAND`, `prelet\-fleet\-merge`},
		"prelet.5": {
			`\fBca_cert_hashes\fR (type list of string, default null)`, ".SS slug", ".SH STAGE TYPE RESERVE", ".SH FACTS",
		},
	} {
		text, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil {
			t.Errorf("%s: got %v, want a page", page, err)
			continue
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: got\n%s\nwant it to contain %s", page, text, want)
			}
		}
	}

	for path := range commandsByPath(t) {
		name := "prelet-" + strings.ReplaceAll(path, " ", "-") + ".8"
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("prelet %s: got %v, want a page", path, err)
		}
	}
}
