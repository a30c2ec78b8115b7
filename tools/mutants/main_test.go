package main

import (
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
