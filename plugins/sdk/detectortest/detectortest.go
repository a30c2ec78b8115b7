// Package detectortest tests a detector in the process of its test, on machines that a few lines describe (package
// fakeroot), with all checks that prelet makes of its answers.
//
// The least that a detector's test should have:
//
//	func TestMachines(t *testing.T) { detectortest.Machines(t, detector{}, "testdata") }
//
// It finds the files testdata/*.machine. Each has a machine, a site's configuration, and the expected answer:
//
//	config {"virtual_functions": true}
//	pci 0000:3b:00.0 8086:159b 8086:0002 020000 ice numa=1
//	---- answer
//	{"devices": […], …}
//
// Write the part before the answer, run `DETECTORTEST_UPDATE=1 go test`, and check the answer that it wrote. Conform
// checks the program as prelet starts it.
package detectortest

import (
	"bytes"
	"context"
	"encoding/json"
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

// Update is the environment variable with which Machines writes the answers instead of comparing them.
const Update = "DETECTORTEST_UPDATE"

// Timeout is the time limit of a detector in a test.
const Timeout = 10 * time.Second

// Root writes a machine to a folder of the test.
func Root(t testing.TB, description string) sdk.Root {
	t.Helper()
	tree, err := fakeroot.Parse(description)
	if err != nil {
		t.Fatalf("invalid machine: %v", err)
	}
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

// Describe returns a detector's description. The test fails at once if it is invalid or differs the second time.
func Describe(t testing.TB, d sdk.Detector) contract.Description {
	t.Helper()
	first, err := sdk.Describe(d)
	if err != nil {
		t.Fatalf("Describe: got %v, want no error", err)
	}
	second, err := sdk.Describe(d)
	if err != nil {
		t.Fatalf("second Describe: got %v, want no error", err)
	}
	want := toJSON(t, first)
	got := toJSON(t, second)
	if got != want {
		t.Fatalf("second Describe: got\n%s\nwant the first description\n%s", got, want)
	}

	return first
}

// Roots writes the machines of the NAME.machine files in a folder, for Conform.
func Roots(t testing.TB, folder string) []sdk.Root {
	t.Helper()
	var roots []sdk.Root
	for _, file := range machineFiles(t, folder) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		description, _, _ := strings.Cut(string(b), answerLine)
		_, tree, err := cutConfig(description)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		roots = append(roots, Root(t, tree))
	}

	return roots
}

// Machines runs a detector on each NAME.machine file in a folder, as a subtest.
func Machines(t *testing.T, d sdk.Detector, folder string) {
	t.Helper()
	for _, file := range machineFiles(t, folder) {
		name := strings.TrimSuffix(filepath.Base(file), ".machine")
		t.Run(name, func(t *testing.T) {
			testMachine(t, d, file)
		})
	}
}

func machineFiles(t testing.TB, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.machine"))
	if err != nil || len(files) == 0 {
		t.Fatalf("got no files %s/*.machine (%v), want at least one", folder, err)
	}

	return files
}

const answerLine = "---- answer\n"

// testMachine compares the answer for a machine with the expected answer in its file, or writes it there.
func testMachine(t *testing.T, d sdk.Detector, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	description, want, found := strings.Cut(string(b), answerLine)
	update := os.Getenv(Update) != ""
	if !found && !update {
		line := strings.TrimSpace(answerLine)
		t.Fatalf("%s: got no line %q with the expected answer below it, want one. `%s=1 go test` writes both, "+
			"once the detector gives the same answer twice", file, line, Update)
	}
	config, tree, err := cutConfig(description)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}

	root := Root(t, tree)
	answer := Detect(t, d, root, config)
	got := toJSON(t, answer)
	if update {
		text := description + answerLine + got
		err = os.WriteFile(file, []byte(text), 0o644)
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		const text = "%s: got another answer than expected; %s=1 writes it\n%s"
		t.Errorf(text, file, Update, diff(want, got))
	}
}

// cutConfig returns the configuration in a machine's description, and the description with an empty line in its
// place.
func cutConfig(description string) (config map[string]any, rest string, err error) {
	lines := strings.Split(description, "\n")
	for i, line := range lines {
		object, isConfig := strings.CutPrefix(line, "config ")
		if !isConfig {
			continue
		}
		err = json.Unmarshal([]byte(object), &config)
		if err != nil {
			return nil, "", fmt.Errorf("line %d: %w", i+1, err)
		}
		lines[i] = ""
	}

	return config, strings.Join(lines, "\n"), nil
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
