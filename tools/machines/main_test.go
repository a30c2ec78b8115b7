package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/machine/probe/hardware"
)

// Each description becomes a tree that prelet reads facts from, also when it is built again over an old one.
func TestMachines(t *testing.T) {
	specs, out := t.TempDir(), filepath.Join(t.TempDir(), "machines")
	for _, name := range []string{"dgx-h100.json", "bare-vm.json"} {
		b, err := os.ReadFile("../../testdata/hardware/spec/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(specs, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		var stdout, stderr bytes.Buffer
		if code := run([]string{specs, out}, &stdout, &stderr); code != 0 {
			t.Fatalf("exit %d: %s", code, &stderr)
		}
		if want := filepath.Join(out, "bare-vm") + "\n" + filepath.Join(
			out,
			"dgx-h100",
		) + "\n"; stdout.String() != want {
			t.Errorf("built %q", &stdout)
		}
		if built, err := os.ReadDir(out); err != nil || len(built) != 2 {
			t.Errorf("left: %v, %v", built, err)
		}
		leftOver := filepath.Join(out, "dgx-h100", "left-over")
		if _, err := os.Stat(leftOver); !os.IsNotExist(err) {
			t.Errorf("what lay in the old tree is in the new one: %v", err)
		}
		if err := os.WriteFile(leftOver, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := hardware.Detect(t.Context(), hardware.ReadOptions{Root: filepath.Join(out, "dgx-h100")})
		if err != nil || f.Product.Name == nil || *f.Product.Name != "DGXH100" {
			t.Errorf("product %v, %v", f.Product, err)
		}
	}
}

// A description with a mistake is reported, and the previous machine stays.
func TestABadDescriptionLeavesTheOldMachine(t *testing.T) {
	in, out := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(in, "x.json"), []byte(`{"cpus": 1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(out, "x", "proc")
	if err := os.MkdirAll(old, 0o755); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	if code := run([]string{in, out}, &bytes.Buffer{}, &stderr); code != 1 ||
		!strings.Contains(stderr.String(), "x.json") {
		t.Errorf("exit %d: %s", code, &stderr)
	}
	var left []string
	err := filepath.WalkDir(out, func(p string, _ fs.DirEntry, err error) error { left = append(left, p); return err })
	if err != nil || len(left) != 3 || left[2] != old {
		t.Errorf("left: %q, %v", left, err)
	}
	for _, args := range [][]string{nil, {in}, {t.TempDir(), out}} {
		if code := run(args, &bytes.Buffer{}, &bytes.Buffer{}); code == 0 {
			t.Errorf("%q: exit 0", args)
		}
	}
}
