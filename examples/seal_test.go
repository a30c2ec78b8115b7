package examples

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/images"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/run"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/testing/osfile"
)

// TestSealedNode holds that an image of a former node is as one that never was a node: for each example, on each pair of
// its machines, the second machine gets the files that it gets from a fresh image.
func TestSealedNode(t *testing.T) {
	t.Parallel()
	for _, e := range all() {
		for i, former := range e.machines {
			next := e.machines[(i+1)%len(e.machines)]
			t.Run(e.name+"/"+former+"/"+next, func(t *testing.T) { sealNode(t, e, former, next) })
		}
	}
}

func sealNode(t *testing.T, e example, former, next string) {
	t.Helper()
	fresh, node := makeImage(t, e), makeImage(t, e)
	image := readFiles(t, node)
	runBelow(t, e, node, former)
	if d := cmp.Diff(image, readFiles(t, node)); d == "" {
		t.Fatal("the run changed no file")
	}

	sealed, err := images.Seal(t.Context(), testEnv(t), images.SealOptions{
		Request: lab.Request{Where: machine.Where{Root: node}, KubeletVersion: "1.36"},
		Yes:     true,
	})
	if err != nil || !sealed.IsSealed {
		t.Fatalf("seal: got %q, %v; want a sealed image", sealed.Refused, err)
	}
	if d := cmp.Diff(image, readFiles(t, node)); d != "" {
		t.Errorf("the sealed image differs from the one before prelet (-before +sealed)\n%s", d)
	}

	runBelow(t, e, node, next)
	runBelow(t, e, fresh, next)
	if d := cmp.Diff(readFiles(t, fresh), readFiles(t, node)); d != "" {
		t.Errorf("the next machine differs from one of a fresh image (-fresh +sealed)\n%s", d)
	}
}

func testEnv(t *testing.T) *machine.Env {
	t.Helper()
	credentials := t.TempDir()
	osfile.Write(t, filepath.Join(credentials, "bootstrap-token"), token, 0o600)

	return &machine.Env{
		Version:  "0.1.0",
		Getenv:   func(name string) string { return map[string]string{"CREDENTIALS_DIRECTORY": credentials}[name] },
		Redactor: secret.NewRedactor(),
		Say:      func(string) {},
	}
}

// makeImage returns the root of an image with an example's site, files and units, and a base of the kubelet's flags.
func makeImage(t *testing.T, e example) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"etc/default/kubelet": "KUBELET_EXTRA_ARGS=--v=2\n",
		"usr/bin/kubelet":     "program\n",
		"etc/machine-id":      "",

		"usr/lib/systemd/system/kubelet.service":       "[Service]\nExecStart=/usr/bin/kubelet\n",
		"usr/lib/systemd/system/prelet.service":        "[Service]\n",
		"usr/lib/systemd/system/prelet-verify.service": "[Service]\n",
		"usr/lib/systemd/system/kubelet.service.d/05-prelet-gate.conf": "[Service]\n" +
			"EnvironmentFile=/run/prelet/kubelet.env\n",
	}
	for name, text := range e.root {
		files[name] = text
	}
	paths := e.paths
	if paths == nil {
		paths = []string{e.name}
	}
	for i, folder := range paths {
		at := []string{"usr/lib/prelet/site", "etc/prelet"}[i+2-len(paths)]
		must(t, filepath.WalkDir(folder, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.Contains(p, "testdata") || strings.Contains(p, ".prelettest.") {
				return err
			}
			name, _ := filepath.Rel(folder, p)
			files[filepath.Join(at, name)] = read(p)
			return nil
		}))
	}
	for name, text := range files {
		osfile.Write(t, filepath.Join(root, name), text, 0o755)
	}

	return root
}

func runBelow(t *testing.T, e example, root, facts string) {
	t.Helper()
	w := machine.Where{Root: root, Hardware: filepath.Join("../testdata/hardware/facts", facts+".json"), Objects: "objects"}
	for name, text := range e.vars {
		w.Variables = append(w.Variables, name+"="+text)
	}
	ran, err := run.Run(context.Background(), testEnv(t), run.RunOptions{Where: w})
	if err != nil || ran.Code != fault.Code("") {
		messages, _ := ran.Explain()
		t.Fatalf("run on %s: got %v, %s, %v, %v; want no error", facts, err, ran.Code, ran.Summary, messages)
	}
}

// readFiles returns the files below a root, without those of prelet itself and of one boot.
func readFiles(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, p)
		switch name {
		case "var/lib/prelet", "run", "usr/lib/prelet/seal.json":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			out[name] = read(p)
		}
		return nil
	}))

	return out
}

// TestSealIsRepeated ends a seal at each step, and holds that the next one gives the image of before.
func TestSealIsRepeated(t *testing.T) {
	t.Parallel()
	e := all()[0]
	image := makeImage(t, e)
	want := readFiles(t, image)
	for step := 1; ; step++ {
		root := makeImage(t, e)
		runBelow(t, e, root, e.machines[0])
		options := images.SealOptions{Request: lab.Request{Where: machine.Where{Root: root}, KubeletVersion: "1.36"}, Yes: true}
		_, restoring := rollBack(t, root, step)
		_, removing := images.Seal(&endingContext{Context: t.Context(), left: step}, testEnv(t), options)

		if sealed, err := images.Seal(t.Context(), testEnv(t), options); err != nil || !sealed.IsSealed {
			t.Fatalf("step %d: got %q, %v; want a sealed image", step, sealed.Refused, err)
		}
		if d := cmp.Diff(want, readFiles(t, root)); d != "" {
			t.Fatalf("step %d: the sealed image differs from the one before prelet (-before +sealed)\n%s", step, d)
		}
		if restoring == nil && removing == nil {
			if step < 10 {
				t.Fatalf("got %d steps, want some", step)
			}
			return
		}
	}
}

// rollBack puts back what was before prelet, as seal does, until a step, at which the process ends.
func rollBack(t *testing.T, root string, step int) (int, error) {
	t.Helper()
	killed := errors.New("killed")
	store, err := generation.Open(t.Context(), generation.StoreConfig{
		Root: root,
		Dir:  filepath.Join(root, "var/lib/prelet"),
		Fault: func(string, string) error {
			if step--; step <= 0 {
				return killed
			}
			return nil
		},
	})
	must(t, err)
	defer store.Close()
	_, gen, err := commit.RollBackBelowRoot(store, 0, "sealed")

	return gen, err
}

// endingContext ends after some looks at it.
type endingContext struct {
	context.Context
	left int
}

func (c *endingContext) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}

	return nil
}
