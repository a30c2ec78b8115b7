// Command kubetables generates internal/kubelet/known/tables.txt: the kubelet's flags, configuration fields and
// feature gates of each minor version. It parses the source of Kubernetes' modules, which the go command downloads
// and verifies. It must not import them, so that neither prelet nor its other tools depend on Kubernetes.
//
//	kubetables [-offline] [-check] TABLE [RELEASE]
//
// Without a release it reads those of the table again. With one, 1.38.0 or 1.38.0-rc.0, it reads only that, adds it to
// the table, and removes another release of that minor version; so an alpha release is replaced by the next one.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"
)

func main() {
	offline := flag.Bool("offline", false, "use only downloaded modules, and no network")
	check := flag.Bool("check", false, "fail if the table is not what the releases have, and write nothing")
	flag.Parse()
	if err := run(flag.Arg(0), flag.Arg(1), *offline, *check); err != nil {
		fmt.Fprintln(os.Stderr, "kubetables:", err)
		os.Exit(1)
	}
}

// run makes the table in a file again, or adds a release to it.
func run(name, release string, offline, check bool) error {
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
		t.addVersion(release, time.Now())
	} else {
		t.states = map[string]map[string][]string{}
	}
	if err := t.collect(read, offline); err != nil {
		return err
	}

	var made bytes.Buffer
	t.print(&made)
	switch isSame := bytes.Equal(old, made.Bytes()); {
	case isSame:
		return nil
	case check:
		return errors.New(name + " is stale: make kubetables")
	}

	return os.WriteFile(name, made.Bytes(), 0o644)
}

// collect reads releases of the table.
func (t *table) collect(releases []string, offline bool) error {
	for _, version := range releases {
		states, err := readRelease(version, offline)
		if err != nil {
			return fmt.Errorf("%s: %w", version, err)
		}
		for kind, names := range states {
			for name, state := range names {
				t.set(kind, name, slices.Index(t.versions, version), state)
			}
		}
	}

	return nil
}

// readRelease returns the states of a release by kind and name.
func readRelease(version string, offline bool) (map[string]map[string]string, error) {
	src, err := open(version, offline)
	if err != nil {
		return nil, err
	}
	fields, err := src.fields()
	if err != nil {
		return nil, fmt.Errorf("fields: %w", err)
	}
	flags, err := src.flags(fields)
	if err != nil {
		return nil, fmt.Errorf("flags: %w", err)
	}
	gates, needs, err := src.gates()
	if err != nil {
		return nil, fmt.Errorf("feature gates: %w", err)
	}
	declared, err := src.declared()
	if err != nil {
		return nil, fmt.Errorf("declared features: %w", err)
	}

	return map[string]map[string]string{
		"declared": declared,
		"field":    fields.states(),
		"flag":     flags,
		"gate":     gates,
		"needs":    needs,
	}, nil
}
