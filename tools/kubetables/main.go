// Command kubetables generates internal/model/kubelet/known/tables.txt: the kubelet's flags, configuration fields and
// feature gates of each minor version. It checks the types of the source of Kubernetes' modules, which the go command
// downloads and verifies. It must not import them, so that neither prelet nor its other tools depend on Kubernetes.
//
//	kubetables TABLE [RELEASE]
//	kubetables diff RULES OLD NEW
//
// Without a release it reads those of the table again. With one, 1.38.0 or 1.38.0-rc.0, it reads only that, adds it to
// the table, and removes another release of that minor version; so an alpha release is replaced by the next one. diff
// prints the changes between two releases that a person has to judge, with the rules of the file RULES that are
// concerned.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

func main() {
	if err := execute(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kubetables:", err)
		os.Exit(1)
	}
}

// execute runs a command line.
func execute(args []string) error {
	isDiff := len(args) > 0 && args[0] == "diff"
	switch {
	case isDiff && len(args) == 4:
		return runDiff(args[1], args[2], args[3])
	case !isDiff && len(args) == 1:
		return run(args[0], "")
	case !isDiff && len(args) == 2:
		return run(args[0], args[1])
	}

	return errors.New("usage: kubetables TABLE [RELEASE], or kubetables diff RULES OLD NEW, as make kubetables " +
		"RELEASE=1.38.0-rc.0 or make kubediff OLD=1.36.3 NEW=1.37.1")
}

// run makes the table in a file again, or adds a release to it.
func run(name, release string) error {
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	t, err := parseTable(string(old))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	read := t.versions
	if release != "" {
		read = []string{release}
		t.readOn = time.Now().UTC().Format(time.DateOnly)
	}

	folder, err := os.MkdirTemp("", "kubetables-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)

	for _, version := range read {
		src, err := readRelease(version, folder)
		if err != nil {
			return err
		}
		t.set(version, src.states)
	}

	return os.WriteFile(name, []byte(t.String()), 0o644)
}

func readRelease(version, folder string) (*source, error) {
	src := newSource(version, filepath.Join(folder, version))
	if err := src.link(); err != nil {
		return nil, err
	}
	if err := src.read(); err != nil {
		return nil, fmt.Errorf("%s: %w", version, err)
	}

	return src, nil
}

// runDiff prints what differs between two releases.
func runDiff(rulesFile, before, after string) error {
	folder, err := os.MkdirTemp("", "kubetables-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)

	d := differ{out: os.Stdout}
	if d.rules, err = readRules(rulesFile); err != nil {
		return err
	}
	if d.old, err = readRelease(before, folder); err != nil {
		return err
	}
	if d.new, err = readRelease(after, folder); err != nil {
		return err
	}

	return d.diff()
}

func (s *source) read() error {
	for _, part := range []func() error{s.load, s.fields, s.flags, s.gates, s.readers, s.declared} {
		if err := part(); err != nil {
			return err
		}
	}

	return nil
}
