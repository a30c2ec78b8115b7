package detector

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/detector/wire"
)

// A prelet-detect that a detector has taken over answers with as many empty objects as fit: they are refused before
// they are made.
func TestFlood(t *testing.T) {
	for _, c := range []struct{ line, says string }{
		{`{"answer":{"devices":[` + strings.Repeat("{},", 1<<20) + `{}]}}`, "its answer cannot be read: a list " +
			"or object in it has more than 4096 members"},
		{`{"answer":{"devices":[` + strings.Repeat("{},", 100) + `{}]}}`, ""},
		{`{"answer":`, "cannot be read"},
	} {
		in, stdin, err := os.Pipe()
		stdout, out, err2 := os.Pipe()
		must(t, errors.Join(err, err2))
		go func() {
			_, _ = out.WriteString(c.line + "\n")
			_ = errors.Join(in.Close(), out.Close())
		}()
		reply, err := (&process{stdin: stdin, stdout: stdout}).ask(
			t.Context(),
			wire.Request{},
			time.Now().Add(time.Minute),
		)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("reply %.40s: got %v, want %q", c.line, err, c.says)
		}
		if c.says == "" && len(reply.Answer.Devices) != 101 {
			t.Errorf("got %d devices, want 101", len(reply.Answer.Devices))
		}
		_ = stdout.Close()
	}
}
