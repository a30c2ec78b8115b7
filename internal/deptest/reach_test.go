package deptest

import (
	"fmt"
	"go/scanner"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/osfile"
)

// reachFile says how much of this module a boot imports.
const reachFile = "testdata/boot.txt"

// TestReachOfBoot compares the packages of this repository that internal/machine/run imports with reachFile: all of
// `prelet run` and `prelet verify` but for flags and the text of a result. The commit that lets them grow changes a
// line. Tokens are without comments, in thousands, rounded up.
func TestReachOfBoot(t *testing.T) {
	g, err := Load(t.Context(), root(t), "./internal/machine/run")
	must(t, err)

	packages, tokens := 0, 0
	for path, p := range g {
		if !strings.HasPrefix(path, module) {
			continue
		}
		packages++
		for _, name := range p.GoFiles {
			text := osfile.Read(t, filepath.Join(p.Dir, name))
			tokens += countTokens(name, text)
		}
	}

	const unit = 1000
	got := fmt.Sprintf("packages %d\nthousand tokens %d\n", packages, (tokens+unit-1)/unit)
	want := osfile.Read(t, reachFile)
	if got != string(want) {
		t.Errorf("a boot imports:\n%swant, as in internal/deptest/%s:\n%s"+
			"If it has to grow, change that file, and say in the commit what the growth is for.", got, reachFile, want)
	}
}

// countTokens returns the number of tokens of a Go file, without comments and semicolons at the end of a line.
func countTokens(name string, text []byte) int {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile(name, -1, len(text)), text, nil, 0)

	for n := 0; ; {
		_, tok, literal := s.Scan()
		switch {
		case tok == token.EOF:
			return n
		case tok != token.SEMICOLON || literal != "\n":
			n++
		}
	}
}
