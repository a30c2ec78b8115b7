package generation

import (
	"context"
	"strings"
	"testing"
)

// TestStateIsNotAFolder: a file in place of the state folder is named, with what to do.
func TestStateIsNotAFolder(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write("/var/lib/prelet", "", 0o644)
	_, err := Open(context.Background(), b.o)
	_, errOfReader := OpenReadOnly(b.o)
	for _, err := range []error{err, errOfReader} {
		if err == nil || !strings.Contains(err.Error(), b.o.Dir) || !strings.Contains(err.Error(), "in place of a folder") {
			t.Errorf("got %v, want an error with the path and what to move away", err)
		}
	}
}
