package machine

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestFitConsole holds how a line for the console looks: D-Bus refuses what is not UTF-8, and a terminal must not obey.
func TestFitConsole(t *testing.T) {
	const want = `100 % of "a" \x1b[2J \xff (prelet status)`
	if got := FitConsole("100 % of\n\"a\" \x1b[2J \xff"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := FitConsole(strings.Repeat("é\x1b", 100)); utf8.RuneCountInString(got) != consoleLimit {
		t.Errorf("got %d characters, want %d", utf8.RuneCountInString(got), consoleLimit)
	}
}
