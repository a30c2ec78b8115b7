package main

import (
	"bytes"
	"strings"
	"testing"
)

// The flag that people try first does what the command does, its own flags included.
func TestVersionFlag(t *testing.T) {
	t.Parallel()
	for _, rest := range [][]string{nil, {"-o", "json"}} {
		var command, flag, errors bytes.Buffer
		if code := run(append([]string{"version"}, rest...), &command, &errors); code != 0 {
			t.Fatalf("version: exit %d: %s", code, &errors)
		}
		if code := run(
			append([]string{"--version"}, rest...),
			&flag,
			&errors,
		); code != 0 || flag.String() != command.String() ||
			!strings.Contains(flag.String(), version) {
			t.Errorf("--version %q: exit %d, prints %q, not %q; %s", rest, code, &flag, &command, &errors)
		}
	}
}
