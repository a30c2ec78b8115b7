package boot

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestCommandsOfNotUp checks that a script runs each command of the page for a node that does not come up.
func TestCommandsOfNotUp(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operators/not-up.md")
	must(t, err)
	script, err := os.ReadFile("testdata/boots/not_up.txtar")
	must(t, err)

	commands := 0
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		for line := range strings.Lines(block[1]) {
			command, _, _ := strings.Cut(line, " #")
			command = strings.TrimSpace(command)
			want := fmt.Sprintf(`(command %[1]s|until has shell '%[1]s' .*)`, regexp.QuoteMeta(command))
			if args, isPrelet := strings.CutPrefix(command, "prelet "); isPrelet {
				want = `prelet \w+ ` + regexp.QuoteMeta(args)
			}
			commands++
			if !regexp.MustCompile("(?m)^" + want + "$").Match(script) {
				t.Errorf("%q of the page: got no line %q in the script, want one", command, want)
			}
		}
	}
	if commands < 15 {
		t.Errorf("commands of the page: got %d, want 15 or more", commands)
	}
}
