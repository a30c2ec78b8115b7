package main

import (
	"bufio"
	"encoding/json"
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

// record prints what the tests of a suite print, and returns their result. Their attributes say on which system.
func record(events io.Reader, out io.Writer) (result matrix.SuiteResult, err error) {
	system := map[string]*string{
		"debian":       &result.Debian,
		"architecture": &result.Architecture,
		"systemd":      &result.Systemd,
	}

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

		isTest := e.Test != "" && !strings.Contains(e.Test, "/")
		switch {
		case e.Action == "attr" && system[e.Key] != nil:
			*system[e.Key] = e.Value
		case e.Action == "pass" && isTest:
			result.Passed++
		case e.Action == "skip" && isTest:
			result.Skipped++
		case e.Action == "fail" && isTest:
			result.Failed = append(result.Failed, e.Test)
		}
	}
	slices.Sort(result.Failed)

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
