// Package detectortest tests a detector in the process of its test, on machines that a few lines describe (package
// fakeroot), with all checks that prelet makes of its answers.
//
// A detector's test is one call:
//
//	func TestDetector(t *testing.T) { detectortest.Run(t, detector) }
//
// It reads the files testdata/*.machine. Each has a machine, a site's configuration, and the expected answer:
//
//	config {"virtual_functions": true}
//	pci 0000:3b:00.0 8086:159b 8086:0002 020000 ice numa=1
//	---- answer
//	{"devices": […], …}
//
// Write the part before the answer, run `DETECTORTEST_UPDATE=1 go test`, and check the answer that it wrote.
package detectortest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/internal/cli"
	"github.com/prelet/prelet/plugins/sdk"
	"github.com/prelet/prelet/plugins/sdk/fakeroot"
)

// Update is the environment variable with which Run writes the answers instead of comparing them.
const Update = "DETECTORTEST_UPDATE"

// Timeout is the time limit of a detector in a test.
const Timeout = 10 * time.Second

// Root writes a machine, as package fakeroot describes it, to a folder of the test.
func Root(t testing.TB, description string) sdk.Root {
	t.Helper()
	tree, err := fakeroot.Parse(description)
	if err != nil {
		t.Fatalf("invalid machine: %v", err)
	}

	return writeRoot(t, tree)
}

func writeRoot(t testing.TB, tree *fakeroot.Tree) sdk.Root {
	t.Helper()
	dir, err := os.MkdirTemp("", "machine-") // not t.TempDir, which Conform's user cannot enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // the rest stays in /tmp
	err = os.Chmod(dir, 0o755)
	if err == nil {
		err = tree.Write(dir)
	}
	if err != nil {
		t.Fatalf("writing the machine: %v", err)
	}
	root, err := sdk.NewRoot(dir)
	if err != nil {
		t.Fatalf("opening the machine: %v", err)
	}

	return root
}

// differs is the message of a detector whose answer to the same machine changes.
const differs = "Detect of %s gave two different answers for the same machine, and a boot would change the node each " +
	"time. No answer is written before it gives the same answer twice: sort what comes from a map, and leave out " +
	"times and counters\n%s"

// Detect runs a detector twice as prelet would, with the devices of the root that match. The test fails at once if
// prelet would reject the result: an invalid description or answer, a panic, a timeout, or two different answers.
// Problems of the configuration are in the answer.
func Detect(
	t testing.TB,
	d sdk.Detector,
	root sdk.Root,
	config map[string]any,
) contract.Answer {
	t.Helper()
	description := Describe(t, d)
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	devices := description.Match.Devices(root.PCIDevices())
	first, err := sdk.Detect(ctx, d, config, devices, root)
	if err != nil {
		t.Fatalf("Detect of %s: got %v, want no error", description.Name, err)
	}
	second, err := sdk.Detect(ctx, d, config, devices, root)
	if err != nil {
		t.Fatalf("second Detect of %s: got %v, want no error", description.Name, err)
	}
	want := toJSON(t, first)
	got := toJSON(t, second)
	if got != want {
		t.Fatalf(differs, description.Name, diff(want, got))
	}

	return first
}

// Describe returns a detector's description. The test fails at once if it is invalid.
func Describe(t testing.TB, d sdk.Detector) contract.Description {
	t.Helper()
	out, err := sdk.Describe(d)
	if err != nil {
		t.Fatalf("Describe: got %v, want no error", err)
	}

	return out
}

// Run is the whole test of a detector: its description; its answer for each file testdata/*.machine, as a subtest; and
// all checks of Conform, among them files with unexpected content. If it has required attributes, these are of the
// first file. The test must have nothing before Run.
func Run(t *testing.T, d sdk.Detector) {
	t.Helper()
	becomeDetector(d)

	files, err := filepath.Glob("testdata/*.machine")
	if err != nil || len(files) == 0 {
		t.Fatalf("got no files testdata/*.machine (%v), want at least one", err)
	}

	var config map[string]any
	var roots []sdk.Root
	_, missing := contract.Config(Describe(t, d).Config, nil)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := fakeroot.ParseMachine(string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		root := writeRoot(t, m.Tree)
		roots = append(roots, root)
		if config == nil && len(missing) > 0 {
			config = m.Config
		}
		name := strings.TrimSuffix(filepath.Base(file), ".machine")
		t.Run(name, func(t *testing.T) { testMachine(t, d, file, m, root) })
	}
	t.Run("conforms", func(t *testing.T) { Conform(t, d, config, roots...) })
}

// testMachine compares the answer for a machine with the expected answer in its file, or writes it there.
func testMachine(t *testing.T, d sdk.Detector, file string, m fakeroot.Machine, root sdk.Root) {
	t.Helper()
	update := os.Getenv(Update) != ""
	if m.Answer == "" && !update {
		line := strings.TrimSpace(fakeroot.AnswerLine)
		t.Fatalf("%s: got no line %q with the expected answer below it, want one. `%s=1 go test` writes both, "+
			"once the detector gives the same answer twice", file, line, Update)
	}

	got := toJSON(t, Detect(t, d, root, m.Config))
	switch {
	case update:
		if err := os.WriteFile(file, []byte(m.Text+fakeroot.AnswerLine+got), 0o644); err != nil {
			t.Fatal(err)
		}
	case got != m.Answer:
		const text = "%s: got another answer than expected; %s=1 writes it\n%s"
		t.Errorf(text, file, Update, diff(m.Answer, got))
	}
}

func toJSON(t testing.TB, v any) string {
	t.Helper()
	var b bytes.Buffer
	if err := cli.PrintJSON(&b, v); err != nil {
		t.Fatal(err)
	}

	return b.String()
}

// diff shows the lines around the first difference.
func diff(want, got string) string {
	wantLines := strings.Split(want, "\n")
	gotLines := strings.Split(got, "\n")
	shorter := min(len(wantLines), len(gotLines))
	n := 0
	for n < shorter && wantLines[n] == gotLines[n] {
		n++
	}

	around := func(lines []string) string {
		first := max(0, n-3)
		last := min(len(lines), n+6)
		return strings.Join(lines[min(first, last):last], "\n")
	}

	wantText := around(wantLines)
	gotText := around(gotLines)

	return fmt.Sprintf("from line %d, want\n%s\n\ngot\n%s", n+1, wantText, gotText)
}
