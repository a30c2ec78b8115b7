package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/test/matrix"
)

// testEvent is a line of `go test -json` (go doc test2json).
type testEvent struct {
	Action string
	Test   string
	Output string
	Key    string // of an attribute
	Value  string
}

// record prints the output of the tests of a suite, and returns their result. Their attributes name the system.
func record(events io.Reader, out io.Writer) (result matrix.SuiteResult, err error) {
	system := map[string]*string{
		"debian":       &result.Debian,
		"architecture": &result.Architecture,
		"systemd":      &result.Systemd,
	}

	ends := map[string]string{} // of each test; "" while it runs
	hasFailed := false
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e testEvent
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			e.Output = lines.Text() + "\n" // of the compiler
		}
		if _, err := io.WriteString(out, e.Output); err != nil {
			return result, err
		}

		hasFailed = hasFailed || e.Action == "fail"
		switch {
		case e.Action == "attr" && system[e.Key] != nil:
			*system[e.Key] = e.Value
		case e.Test == "" || strings.Contains(e.Test, "/"):
		case e.Action == "run":
			ends[e.Test] = ""
		case e.Action == "pass", e.Action == "skip", e.Action == "fail":
			ends[e.Test] = e.Action
		}
	}

	for name, end := range ends {
		switch end {
		case "pass":
			result.Passed++
		case "skip":
			result.Skipped++
		default: // also one in which the program ended
			result.Failed = append(result.Failed, name)
		}
	}
	slices.Sort(result.Failed)

	if hasFailed && len(result.Failed) == 0 {
		return result, errors.New("the tests failed, and none of them did")
	}

	return result, lines.Err()
}

// recordSuite records a suite that runs now, into a file. "" only prints.
func recordSuite(suite, file string) error {
	result, err := record(os.Stdin, os.Stdout)
	if err != nil || file == "" {
		return err
	}
	if result.Debian == "" {
		return fmt.Errorf("%s: no test said on which system it ran", suite)
	}
	version, err := exec.Command("tools/version.sh").Output()
	if err != nil {
		return fmt.Errorf("tools/version.sh: %w", err)
	}
	result.Suite = suite
	result.Prelet = strings.TrimSpace(string(version))
	result.Date = time.Now().UTC().Format(time.DateOnly)
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}

	return os.WriteFile(file, append(text, '\n'), 0o644)
}
