package detector

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

// TestInterpreters checks which interpreters the #! line of a program names, those of env included.
func TestInterpreters(t *testing.T) {
	for line, want := range table.YAML[map[string][]string](t, `
'#!/bin/sh': [/bin/sh]
'#!/usr/bin/env sh': [/usr/bin/env, /usr/bin/sh]
'#!/usr/bin/env -S sh -u': [/usr/bin/env, /usr/bin/sh]
'#!/usr/bin/env -Ssh -u': [/usr/bin/env, /usr/bin/sh]
'#!/usr/bin/env -S -i A=b sh': [/usr/bin/env, /usr/bin/sh]
'#!/usr/bin/env --split-string=sh ': [/usr/bin/env, /usr/bin/sh]
'#!/usr/bin/env -S /opt/x/python': [/usr/bin/env, /opt/x/python]
'#!/usr/bin/env nosuch': [/usr/bin/env]
'#!/usr/bin/env': [/usr/bin/env]
"\x7fELF": []
`) {
		program := filepath.Join(t.TempDir(), "p")
		must(t, os.WriteFile(program, []byte(line+"\n"), 0o755))
		if got, err := Interpreters(program); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %q, %v; want %q", line, got, err, want)
		}
	}
}
