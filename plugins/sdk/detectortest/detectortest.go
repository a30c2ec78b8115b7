// Package detectortest runs a detector in its own tests: in the test's process, on machines that are described in a few
// lines (package fakeroot), with all the checks that prelet makes of what it says.
//
// The least that a detector's test should have:
//
//	func TestMachines(t *testing.T) { detectortest.Machines(t, detector{}, "testdata") }
//
// which finds the files testdata/*.machine by itself. Each is a machine, what a site would configure, and the answer:
//
//	config {"virtual_functions": true}
//	pci 0000:3b:00.0 8086:159b 8086:0002 020000 ice numa=1
//	---- answer
//	{"devices": […], …}
//
// Write the part before the answer, run `DETECTORTEST_UPDATE=1 go test`, and look at what it wrote. What must hold of the program as
// prelet starts it, in whatever language, is in package conformance.
package detectortest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/sdk"
	"github.com/prelet/prelet/plugins/sdk/fakeroot"
)

// Update is the environment variable that lets Machines write the answers instead of comparing them.
const Update = "DETECTORTEST_UPDATE"

// Timeout is how long a detector may take in a test.
const Timeout = 10 * time.Second

// Root writes a described machine into a folder of the test.
func Root(t testing.TB, description string) sdk.Root {
	t.Helper()
	tree, err := fakeroot.Parse(description)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "machine-") // not t.TempDir, which only its owner may enter: Conform's detector is nobody
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // what is left is of /tmp
	if err := errors.Join(os.Chmod(dir, 0o755), tree.Write(dir)); err != nil {
		t.Fatal(err)
	}
	root, err := sdk.NewRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// Detect runs a detector on a root as prelet would: on the devices there that match. It ends the test where prelet
// would refuse: a description or an answer that is not usable, a panic, a detector that is late or says something else
// the second time. Problems of the configuration are in the answer.
func Detect(t testing.TB, d sdk.Detector, root sdk.Root, config map[string]any) contract.Answer {
	t.Helper()
	description := Describe(t, d)
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	var said [2]contract.Answer
	for i := range said {
		var err error
		if said[i], err = sdk.Detect(ctx, d, config, description.Match.Devices(root.PCIDevices()), root); err != nil {
			t.Fatalf("%s: %v", description.Name, err)
		}
	}
	if a, b := text(t, said[0]), text(t, said[1]); a != b {
		t.Fatalf("%s says something else the second time:\n%s\nthen:\n%s", description.Name, a, b)
	}
	return said[0]
}

// Describe returns a detector's description, and ends the test if it is not usable or differs the second time.
func Describe(t testing.TB, d sdk.Detector) contract.Description {
	t.Helper()
	first, err := sdk.Describe(d)
	if err != nil {
		t.Fatal(err)
	}
	second, err := sdk.Describe(d)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := text(t, first), text(t, second); a != b {
		t.Fatalf("the description differs the second time:\n%s\nthen:\n%s", a, b)
	}
	return first
}

// Roots writes the machines of a folder's NAME.machine files, for Conform.
func Roots(t testing.TB, folder string) []sdk.Root {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.machine"))
	if err != nil {
		t.Fatal(err)
	}
	var out []sdk.Root
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		description, _, _ := strings.Cut(string(b), answerLine)
		_, tree, err := takeConfig(description)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, Root(t, tree))
	}
	return out
}

// Machines runs a detector on every NAME.machine file of a folder, each as a subtest.
func Machines(t *testing.T, d sdk.Detector, folder string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.machine"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s/*.machine: a test of nothing (%v)", folder, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".machine"), func(t *testing.T) { machine(t, d, file) })
	}
}

const answerLine = "---- answer\n"

func machine(t *testing.T, d sdk.Detector, file string) {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	description, want, found := strings.Cut(string(b), answerLine)
	update := os.Getenv(Update) != ""
	if !found && !update {
		t.Fatalf("%s: no line %q; %s=1 writes it", file, strings.TrimSpace(answerLine), Update)
	}
	config, tree, err := takeConfig(description)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	got := text(t, Detect(t, d, Root(t, tree), config))
	if update {
		if err := os.WriteFile(file, []byte(description+answerLine+got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("%s: the answer differs; %s=1 writes it\n%s", file, Update, diff(want, got))
	}
}

// takeConfig takes the line that starts with config out of a machine's description, and leaves an empty one.
func takeConfig(description string) (config map[string]any, rest string, err error) {
	lines := strings.Split(description, "\n")
	for i, line := range lines {
		if object, ok := strings.CutPrefix(line, "config "); ok {
			if err := json.Unmarshal([]byte(object), &config); err != nil {
				return nil, "", fmt.Errorf("line %d: %w", i+1, err)
			}
			lines[i] = ""
		}
	}
	return config, strings.Join(lines, "\n"), nil
}

func text(t testing.TB, v any) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// diff shows the lines around the first difference.
func diff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	n := 0
	for n < len(w) && n < len(g) && w[n] == g[n] {
		n++
	}
	around := func(l []string) string { return strings.Join(l[max(0, min(n-3, len(l))):min(len(l), n+6)], "\n") }
	return fmt.Sprintf("from line %d, want\n%s\n\ngot\n%s", n+1, around(w), around(g))
}
