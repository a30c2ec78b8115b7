// Command matrix prints the table of systems on which suites have run, from their results and those in files that are
// arguments. With -w it keeps them in results.jsonl, and writes the table into docs/develop/testing.md; with -o it
// writes those that it has found into another file, without the kept ones.
//
// A suite leaves its result in a .cache when all of it has run (package test/matrix). -record makes one of
// `go test -json`.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prelet/prelet/test/matrix"
)

const (
	kept  = "tools/matrix/results.jsonl"
	page  = "docs/develop/testing.md"
	begin = "<!-- made by `make matrix`, from " + kept + " -->\n"
	end   = "<!-- end of what was made -->\n"
)

// found are where suites and test/debian.sh leave results.
var found = []string{
	"test/boot/.cache/*.json", "test/boot/.cache/*/*.json", "test/packages/.cache/*.json",
	"test/kube/image/.cache/*.json",
}

// suites are the columns.
var suites = []struct{ name, title string }{
	{"boot", "tests that boot"},
	{"image", "golden image in QEMU"},
	{"detectors", "hostile detectors"},
	{"packages", "packages installed, upgraded, removed, purged"},
}

var titles = map[string]string{"bullseye": "11", "bookworm": "12", "trixie": "13", "sid": "unstable"}

func main() {
	write := flag.Bool("w", false, "keep the results, and write the table into "+page)
	out := flag.String("o", "", "write the results into this file")
	suite := flag.String("record", "",
		"print the tests of this suite from `go test -json`, and write their result into the argument")
	flag.Parse()
	work := func() error { return run(*write, *out, flag.Args()) }
	if *suite != "" {
		work = func() error { return recordSuite(*suite, flag.Arg(0)) }
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func run(write bool, out string, files []string) error {
	results, err := read(kept)
	if err != nil {
		return err
	}
	for _, pattern := range found {
		more, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		files = append(files, more...)
	}
	var made []matrix.SuiteResult
	for _, file := range files {
		more, err := read(file)
		if err != nil {
			return err
		}
		made = append(made, more...)
	}
	results = newest(append(results, made...))
	table := render(results)
	fmt.Print(table)

	if out != "" {
		if err := keep(newest(made), out); err != nil {
			return err
		}
	}
	if !write {
		return nil
	}

	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	changed, err := replace(string(text), table)
	if err != nil {
		return err
	}
	if err := keep(results, kept); err != nil {
		return err
	}

	return os.WriteFile(page, []byte(changed), 0o644)
}

// keep writes results into a file, one on each line.
func keep(results []matrix.SuiteResult, file string) error {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, r := range results {
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}

	return os.WriteFile(file, lines.Bytes(), 0o644)
}

// read returns the results in a file, one on each line.
func read(file string) ([]matrix.SuiteResult, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var results []matrix.SuiteResult
	for line := range strings.Lines(string(text)) {
		var r matrix.SuiteResult
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		results = append(results, r)
	}

	return results, nil
}

// newest returns the last result of each suite on each system, by the version of systemd. That a system could not be
// had goes with the next result on it.
func newest(results []matrix.SuiteResult) []matrix.SuiteResult {
	last := map[[3]string]matrix.SuiteResult{}
	for _, r := range results {
		key := [3]string{r.Debian, r.Architecture, r.Suite}
		if r.Date >= last[key].Date {
			last[key] = r
		}
	}
	for _, r := range last {
		missing := [3]string{r.Debian, r.Architecture, ""}
		if r.Suite != "" && r.Date >= last[missing].Date {
			delete(last, missing)
		}
	}
	results = nil
	for _, r := range last {
		results = append(results, r)
	}
	slices.SortFunc(results, func(a, b matrix.SuiteResult) int {
		return cmp.Or(
			cmp.Compare(order(a.Debian), order(b.Debian)),
			cmp.Compare(a.Architecture, b.Architecture),
			cmp.Compare(a.Suite, b.Suite),
		)
	})

	return results
}

// order is that of the titles: unstable, and a release without a title, comes last.
func order(debian string) string { return cmp.Or(titles[debian], "~"+debian) }

// render makes the table, a row for each system.
func render(results []matrix.SuiteResult) string {
	var columns []string
	text := "| Debian | architecture | systemd |"
	for _, suite := range suites {
		if slices.ContainsFunc(results, func(r matrix.SuiteResult) bool { return r.Suite == suite.name }) {
			columns = append(columns, suite.name)
			text += " " + suite.title + " |"
		}
	}
	text += "\n|" + strings.Repeat("---|", 3+len(columns)) + "\n"

	for len(results) > 0 {
		first := results[0]
		other := func(r matrix.SuiteResult) bool {
			return r.Debian != first.Debian || r.Architecture != first.Architecture
		}
		size := slices.IndexFunc(results, other)
		if size < 0 {
			size = len(results)
		}
		text += row(results[:size], columns)
		results = results[size:]
	}

	return text
}

// row makes the row of one system from its results.
func row(results []matrix.SuiteResult, columns []string) string {
	cells := map[string]string{}
	var systemd, missing string
	for _, r := range results {
		systemd = cmp.Or(r.Systemd, systemd)
		if r.Missing != "" {
			missing = fmt.Sprintf("not to be had on %s: %s", r.Date, r.Missing)
			continue
		}
		cell := fmt.Sprintf("%d of %d", r.Passed, r.Passed+len(r.Failed))
		if r.Skipped > 0 {
			cell += fmt.Sprintf(" and %d skipped", r.Skipped)
		}
		if len(r.Failed) > 0 {
			cell += ", not " + strings.Join(r.Failed, ", ")
		}
		cells[r.Suite] = cell + "; " + r.Date
	}

	first := results[0]
	debian := strings.TrimSpace(titles[first.Debian] + " " + first.Debian)
	systemd = cmp.Or(strings.Trim(systemd+"; "+missing, "; "), "unknown")
	text := fmt.Sprintf("| %s | %s | %s |", debian, first.Architecture, systemd)
	for _, column := range columns {
		text += " " + cmp.Or(cells[column], "not run") + " |"
	}

	return text + "\n"
}

func replace(text, table string) (string, error) {
	before, rest, isBegun := strings.Cut(text, begin)
	_, after, isEnded := strings.Cut(rest, end)
	if !isBegun || !isEnded {
		return "", fmt.Errorf("%s: got no lines %q and %q, want a place for the table", page, begin, end)
	}

	return before + begin + "\n" + table + "\n" + end + after, nil
}
