// Command kubetables generates internal/kubelet/known/tables.txt: the kubelet's flags, configuration fields and
// feature gates of each minor version. It parses the source of Kubernetes' modules, which the go command downloads
// and verifies. It must not import them, so that neither prelet nor its other tools depend on Kubernetes.
//
//	kubetables [-offline] [-o FILE]
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
)

// releases returns the versions of the tables, the oldest first: the last available patch release of each minor
// version.
func releases() []string {
	return []string{
		"1.20.15",
		"1.21.14",
		"1.22.17",
		"1.23.17",
		"1.24.17",
		"1.25.16",
		"1.26.15",
		"1.27.16",
		"1.28.15",
		"1.29.15",
		"1.30.14",
		"1.31.14",
		"1.32.13",
		"1.33.13",
		"1.34.4",
		"1.35.4",
		"1.36.3",
		"1.37.1",
	}
}

// readOn is the date of the releases above; it changes with them.
const readOn = "2026-11-21"

func main() {
	out := flag.String("o", "", "write to `FILE` instead of the standard output")
	offline := flag.Bool("offline", false, "use only downloaded modules, and no network")
	flag.Parse()
	if err := run(*out, *offline); err != nil {
		fmt.Fprintln(os.Stderr, "kubetables:", err)
		os.Exit(1)
	}
}

func run(out string, offline bool) error {
	t, err := collect(releases(), offline)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	t.print(&b)
	if out == "" {
		_, err = os.Stdout.Write(b.Bytes())
		return err
	}
	return os.WriteFile(out, b.Bytes(), 0o644)
}

// collect reads each release.
func collect(versions []string, offline bool) (*table, error) {
	t := newTable(versions)
	for i, version := range versions {
		states, err := readRelease(version, offline)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", version, err)
		}
		for kind, names := range states {
			for name, state := range names {
				t.set(kind, name, i, state)
			}
		}
	}

	return t, nil
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
