// Command machines builds the sample machines of testdata/hardware/spec as trees for `prelet --hardware`, to try
// prelet without such a machine. It reads SPECS/*.json and replaces a folder OUT/NAME for each. It must not write
// anything else.
//
//	machines SPECS OUT
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/prelet/prelet/internal/machine/probe/hardware/hwtree"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) != 2 {
		fmt.Fprintln(stderr, "usage: machines SPECS OUT")
		return 64
	}
	if err := buildAll(args[0], args[1], stdout); err != nil {
		fmt.Fprintln(stderr, "machines:", err)
		return 1
	}
	return 0
}

func buildAll(specs, out string, stdout io.Writer) error {
	files, err := filepath.Glob(filepath.Join(specs, "*.json"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s: no description of a machine (*.json)", specs)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		dir := filepath.Join(out, strings.TrimSuffix(filepath.Base(f), ".json"))
		if err := replace(f, dir); err != nil {
			return err
		}
		fmt.Fprintln(stdout, dir)
	}
	return nil
}

// replace builds a machine in a temporary folder and renames it, so that an invalid description keeps the old one.
func replace(spec, dir string) (err error) {
	fresh, err := os.MkdirTemp(filepath.Dir(dir), ".machine-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(fresh)) }() // it does not exist after the rename
	if err := hwtree.BuildFile(spec, fresh); err != nil {
		return err
	}
	if err := os.Chmod(fresh, 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(fresh, dir)
}
