// Command kubetables writes internal/kubelet/known/tables.txt: what the kubelet of each minor version knows of flags,
// configuration fields and feature gates. It reads the source of Kubernetes' own modules, which the go command fetches
// and verifies, and compiles nothing of it. It is a module of its own and needs the standard library only, so that
// neither the program nor its other tools inherit Kubernetes.
//
//	kubetables [-offline] [-o FILE]
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
)

// releases are the versions that the tables are made of, one for each minor, the oldest first: the last patch release
// that can be had.
func releases() []string {
	return []string{
		"1.20.15", "1.21.14", "1.22.17", "1.23.17", "1.24.17", "1.25.16", "1.26.15", "1.27.16", "1.28.15",
		"1.29.15", "1.30.14", "1.31.14", "1.32.13", "1.33.13", "1.34.4", "1.35.4", "1.36.3", "1.37.1",
	}
}

// readOn is when the releases above were read; it changes with them.
const readOn = "2026-11-21"

func main() {
	out := flag.String("o", "", "write to `FILE`, in place of the standard output")
	offline := flag.Bool("offline", false, "use the modules that are there already, and no network")
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

// collect reads each release. What a release has is keyed by kind and name.
func collect(versions []string, offline bool) (*table, error) {
	t := newTable(versions)
	for i, v := range versions {
		src, err := open(v, offline)
		if err != nil {
			return nil, err
		}
		fields, err := src.fields()
		if err != nil {
			return nil, fmt.Errorf("%s: fields: %w", v, err)
		}
		flags, err := src.flags(fields)
		if err != nil {
			return nil, fmt.Errorf("%s: flags: %w", v, err)
		}
		gates, needs, err := src.gates()
		if err != nil {
			return nil, fmt.Errorf("%s: feature gates: %w", v, err)
		}
		for name, state := range flags {
			t.set("flag", name, i, state)
		}
		for name, state := range fields.states() {
			t.set("field", name, i, state)
		}
		for name, state := range gates {
			t.set("gate", name, i, state)
		}
		for name, state := range needs {
			t.set("needs", name, i, state)
		}
	}
	return t, nil
}
