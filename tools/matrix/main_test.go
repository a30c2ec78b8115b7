package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/test/matrix"
)

// TestPage: the table in docs/develop/testing.md is the one of the results that are kept.
func TestPage(t *testing.T) {
	t.Chdir("../..")
	results, err := read(kept)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want, err := replace(string(text), render(newest(results)))
	if diff := cmp.Diff(want, string(text)); err != nil || diff != "" {
		t.Errorf("%s: got %v and a table of other results (-want +got). Try: make matrix\n%s", page, err, diff)
	}
}

// TestTable: the last result of each suite counts, a failure is named, and so is a system that could not be had, until
// there is a later result on it.
func TestTable(t *testing.T) {
	result := func(debian, suite, date string, passed int, failed ...string) matrix.SuiteResult {
		return matrix.SuiteResult{
			Debian: debian, Architecture: "amd64", Systemd: "257.9", Suite: suite, Date: date, Passed: passed, Failed: failed,
		}
	}
	missing := func(debian, date string) matrix.SuiteResult {
		return matrix.SuiteResult{Debian: debian, Architecture: "amd64", Date: date, Missing: "no mirror"}
	}
	failed := result("trixie", "boot", "2026-01-05", 8, "TestA", "TestB")
	failed.Skipped = 1
	results := []matrix.SuiteResult{
		missing("trixie", "2026-01-05"),
		failed,
		result("trixie", "boot", "2026-01-03", 10),
		result("sid", "boot", "2026-01-03", 10),
		missing("sid", "2026-01-05"),
		missing("bullseye", "2026-01-05"),
		result("trixie", "packages", "2026-01-04", 2),
		result("trixie", "image", "2026-01-04", 9),
	}
	want := strings.TrimPrefix(`
| Debian | architecture | systemd | tests that boot | golden image in QEMU | packages installed, upgraded, removed, purged |
|---|---|---|---|---|---|
| 11 bullseye | amd64 | not to be had on 2026-01-05: no mirror | not run | not run | not run |
| 13 trixie | amd64 | 257.9 | 8 of 10 and 1 skipped, not TestA, TestB; 2026-01-05 | 9 of 9; 2026-01-04 | 2 of 2; 2026-01-04 |
| unstable sid | amd64 | 257.9; not to be had on 2026-01-05: no mirror | 10 of 10; 2026-01-03 | not run | not run |
`, "\n")
	if diff := cmp.Diff(want, render(newest(results))); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// TestRecord: the tests of a suite are printed as they were, and counted without their parts. One without an end, as
// after the limit of all, has failed.
func TestRecord(t *testing.T) {
	const events = `{"Action":"run","Test":"TestA"}
{"Action":"attr","Test":"TestA","Key":"debian","Value":"trixie"}
{"Action":"attr","Test":"TestA","Key":"architecture","Value":"arm64"}
{"Action":"attr","Test":"TestA","Key":"systemd","Value":"257.9"}
{"Action":"output","Test":"TestA","Output":"--- PASS: TestA\n"}
{"Action":"pass","Test":"TestA/part"}
{"Action":"pass","Test":"TestA"}
{"Action":"skip","Test":"TestB"}
{"Action":"fail","Test":"TestC"}
{"Action":"run","Test":"TestD"}
# not of a test
{"Action":"fail"}
`
	var out strings.Builder
	got, err := record(strings.NewReader(events), &out)
	want := matrix.SuiteResult{
		Debian: "trixie", Architecture: "arm64", Systemd: "257.9", Passed: 1, Skipped: 1, Failed: []string{"TestC", "TestD"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("result: got %v (-want +got):\n%s", err, diff)
	}
	if want := "--- PASS: TestA\n# not of a test\n"; out.String() != want {
		t.Errorf("output: got %q, want %q", out.String(), want)
	}

	const broken = `{"Action":"pass","Test":"TestA"}
{"Action":"fail"}
`
	if got, err := record(strings.NewReader(broken), io.Discard); err == nil {
		t.Errorf("of a suite that failed outside of tests: got %v, want an error", got)
	}
}
