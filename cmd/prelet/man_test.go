//go:build man

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each command has a manual page with its flags, and the language has one with its blocks. A time that cannot be read is
// an error: pages of a package must not depend on the day.
func TestManPages(t *testing.T) {
	dir := t.TempDir()

	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if err, want := writeFiles(dir), "invalid $SOURCE_DATE_EPOCH \"yesterday\""; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("at no time: got %v; want an error with %q", err, want)
	}

	t.Setenv("SOURCE_DATE_EPOCH", "1772323200") // 2026-03-01
	if err := writeFiles(dir); err != nil {
		t.Fatalf("got %v; want no error", err)
	}

	for page, wants := range map[string][]string{
		"prelet.8": {
			`"2026-03-01"`, `\fBprelet-plan(8)\fP`, "/run/prelet/status.json", "\\fB64\\fP\nThe command line is not valid.",
		},
		"prelet-plan.8":         {`\fB--against\fP=[]`, `\fB-o\fP, \fB--output\fP=`, `\fB--full\fP`},
		"prelet-history-diff.8": {`\fBprelet history diff A [B] [flags]\fP`, "prelet-history(8)"},
		"prelet-fleet.8":        {`\fBprelet fleet [flags]\fP`, "Work with reports about many machines.", `prelet-fleet-merge`},
		"prelet.5": {
			"\\fBca_cert_hashes\\fR (list of string, null)\n", ".SS slug", ".SH Stage type reserve", ".SH Facts",
		},
		"prelet.bash": {"__start_prelet"},
		"prelet.fish": {"complete -c prelet"},
		"prelet.zsh":  {"#compdef prelet"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil {
			t.Errorf("%s: got %v, want a file", page, err)
			continue
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: got\n%.20000s\nwant it to contain %s", page, text, want)
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

// TestUnitsDocumentation: each unit names manual pages, and these are made.
func TestUnitsDocumentation(t *testing.T) {
	dir := t.TempDir()
	noError(t, writeFiles(dir))

	units := 0
	err := filepath.WalkDir(filepath.Join(repository, "packaging"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains(unitSuffixes, filepath.Ext(path)) {
			return err
		}
		units++
		text, err := os.ReadFile(path)
		pages := documentation.FindSubmatch(text)
		if err != nil || pages == nil {
			t.Errorf("%s: got no line Documentation= (%v), want one with manual pages", path, err)
			return nil
		}
		for page := range strings.FieldsSeq(string(pages[1])) {
			name := strings.NewReplacer("man:", "", "(", ".", ")", "").Replace(page)
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Errorf("%s: Documentation=%s: got %v, want a page", path, page, err)
			}
		}

		return nil
	})
	if err != nil || units < 6 {
		t.Errorf("units below packaging: got %d, %v; want 6 or more", units, err)
	}
}

var (
	unitSuffixes  = []string{".service", ".socket", ".timer", ".path", ".target", ".mount"}
	documentation = regexp.MustCompile(`(?m)^Documentation=(man:.+)$`)
)
