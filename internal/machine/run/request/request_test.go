package request

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

// offer offers a request with a file for its output.
func offer(t *testing.T, dir, name string, output *os.File, args ...string) *Offer {
	t.Helper()
	o, err := makeNamed(dir, prefix+name, args, output, output)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)

	return o
}

// TestServeAll: the unit ends with the code of the highest exit status, and each process gets the code of its own. A
// file to which nothing listens is of a process that was killed.
func TestServeAll(t *testing.T) {
	for name, c := range map[string]struct {
		codes []fault.Code // of what was asked for, in order
		want  fault.Code
	}{
		"none failed":    {[]fault.Code{"", ""}, ""},
		"the first":      {[]fault.Code{fault.Locked, fault.LabelInvalid}, fault.Locked},
		"the last":       {[]fault.Code{"", fault.LabelInvalid, fault.RolledBack}, fault.RolledBack},
		"the same twice": {[]fault.Code{fault.LabelInvalid, fault.TaintInvalid}, fault.LabelInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			dead := filepath.Join(dir, prefix+"dead")
			if err := os.WriteFile(dead, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			var offers []*Offer
			for i := range c.codes {
				offers = append(offers, offer(t, dir, string(rune('a'+i)), os.Stdout, "run"))
			}
			served := 0
			run := func([]string, *os.File, *os.File) fault.Code {
				served++
				return c.codes[served-1]
			}

			if got, isServed := ServeAll(dir, run, nil); got != c.want || !isServed {
				t.Errorf("got %q, served %t; want %q and true", got, isServed, c.want)
			}
			for i, want := range c.codes {
				if got := <-offers[i].Ended; got != (Reply{Code: want}) {
					t.Errorf("process %d: got %#v; want the code %q", i, got, want)
				}
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("files after that: got %v, %v; want none", left, err)
			}
			if got, isServed := ServeAll(dir, run, nil); isServed {
				t.Errorf("without a request: got %q; want none served", got)
			}
		})
	}
}

// TestServeOutput: the command writes to the descriptors of the process that asked.
func TestServeOutput(t *testing.T) {
	dir := t.TempDir()
	out, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	o := offer(t, dir, "a", out, "rollback", "1")

	_, _ = ServeAll(dir, func(args []string, stdout, stderr *os.File) fault.Code {
		_, _ = stdout.WriteString("out " + args[1] + "\n")
		_, _ = stderr.WriteString("err\n")
		return ""
	}, nil)
	got := <-o.Ended

	text, _ := os.ReadFile(out.Name())
	if got != (Reply{}) || string(text) != "out 1\nerr\n" {
		t.Errorf("got %q, %v; want both lines and success", text, got)
	}
}

// TestServeAllRefuses: what is neither a run nor a rollback is not done, and both sides learn why.
func TestServeAllRefuses(t *testing.T) {
	dir := t.TempDir()
	o := offer(t, dir, "a", os.Stdout, "record")
	var said []string

	code, isServed := ServeAll(dir, nil, func(line string) { said = append(said, line) })
	if code != fault.Usage || !isServed || len(said) != 1 {
		t.Errorf("got %q, served %t, and %q; want the code %q and one line", code, isServed, said, fault.Usage)
	}
	if got := <-o.Ended; got != (Reply{Code: fault.Usage}) {
		t.Errorf("the process that asked: got %v; want the code %q", got, fault.Usage)
	}
}
