package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMutantsOf makes each kind of mutant once.
func TestMutantsOf(t *testing.T) {
	t.Parallel()
	const source = `package a

func f(a, b int) bool {
	for a < b {
		if a == 3 && b > 1 {
			continue
		}
		a++
		b -= 1
		println(a)
	}
	return true
}
`
	found, err := mutantsOf("a.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range found {
		changed := source[:m.Begin] + m.Text + source[m.End:]
		if changed == source {
			t.Errorf("%s: got the same text, want another one", m)
		}
		got = append(got, m.What)
	}
	want := []string{
		"<= for <", "a condition is turned round", "|| for &&", "!= for ==", "4 for 3", ">= for >", "2 for 1",
		"break for continue", "left out: a++", "left out: b -= 1", "2 for 1", "left out: println(a)", "false for true",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("mutants: got %q, want %q", got, want)
	}
}

// TestKeep keeps the mutants of a file, with results or as they are printed, and refuses one that is not there.
func TestKeep(t *testing.T) {
	t.Parallel()
	all := []mutant{{Package: "p", File: "/a.go", Line: 1, What: "x"}, {Package: "p", File: "/a.go", Line: 2, What: "x"}}
	for text, want := range map[string]int{
		"p a.go:2 (byte 0): x\n": 1,
		"killed\tp a.go:1 (byte 0): x\nsurvived\tp a.go:2 (byte 0): x\n": 2,
		"p a.go:3 (byte 0): x\n": -1,
	} {
		file := filepath.Join(t.TempDir(), "only")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		kept, err := keep(all, file)
		if (err != nil) != (want < 0) || err == nil && len(kept) != want {
			t.Errorf("%q: got %v, %v; want %d, an error for -1", text, kept, err, want)
		}
	}
	if kept, err := keep(all, ""); err != nil || len(kept) != len(all) {
		t.Errorf("without a file: got %v, %v; want all", kept, err)
	}
}
