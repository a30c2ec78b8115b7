// Command machines builds the machines that testdata/hardware/spec describes, as trees that `prelet --hardware` takes:
// for who wants to try prelet and has no such machine.
//
//	machines SPECS OUT
//
// It reads SPECS/*.json, replaces the folders OUT/NAME, one for each, and touches nothing else.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/prelet/prelet/internal/probe/hardware/hwtree"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

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
		return fmt.Errorf("%s: there is no description of a machine (*.json) in it", specs)
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

// replace builds a machine beside its place and moves it there, so that a description with a mistake leaves the old one.
func replace(spec, dir string) (err error) {
	fresh, err := os.MkdirTemp(filepath.Dir(dir), ".machine-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(fresh)) }() // nothing is left of it once it was moved
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
