package app

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

// offer offers a request with a file for its output, and returns a function that waits for its end.
func offer(t *testing.T, name string, output *os.File, args ...string) (wait func() error) {
	t.Helper()
	socket, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: name, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	e := &Env{Stdout: output, Stderr: output}
	go func() { ended <- e.handOver(socket, args, make(chan struct{})) }()

	return func() error { return <-ended }
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
			h := &Host{RunDir: t.TempDir()}
			dead := filepath.Join(h.RunDir, requestPrefix+"dead")
			if err := os.WriteFile(dead, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			var waits []func() error
			for i := range c.codes {
				waits = append(waits, offer(t, filepath.Join(h.RunDir, requestPrefix+string(rune('a'+i))), os.Stdout, "run"))
			}
			served := 0
			e := &Env{Serve: func([]string, *os.File, *os.File) fault.Code {
				served++
				return c.codes[served-1]
			}}

			if got, want := e.serveAll(h), (Ended{c.want}); got != want {
				t.Errorf("got %#v; want %#v", got, want)
			}
			for i, want := range c.codes {
				if got := waits[i](); got != (Ended{want}) {
					t.Errorf("process %d: got %#v; want the code %q", i, got, want)
				}
			}
			if left, err := os.ReadDir(h.RunDir); err != nil || len(left) != 0 {
				t.Errorf("files after that: got %v, %v; want none", left, err)
			}
			if got := e.serveAll(h); got != nil {
				t.Errorf("without a request: got %v; want nil", got)
			}
		})
	}
}

// TestServeOutput: the command writes to the descriptors of the process that asked.
func TestServeOutput(t *testing.T) {
	h := &Host{RunDir: t.TempDir()}
	out, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	wait := offer(t, filepath.Join(h.RunDir, requestPrefix), out, "rollback", "1")

	e := &Env{Serve: func(args []string, stdout, stderr *os.File) fault.Code {
		_, _ = stdout.WriteString("out " + args[1] + "\n")
		_, _ = stderr.WriteString("err\n")
		return ""
	}}
	_ = e.serveAll(h)
	err = wait()

	text, _ := os.ReadFile(out.Name())
	if err != (Ended{}) || string(text) != "out 1\nerr\n" {
		t.Errorf("got %q, %v; want both lines and success", text, err)
	}
}

// TestServeAllRefuses: what is neither a run nor a rollback is not done, and both sides learn why.
func TestServeAllRefuses(t *testing.T) {
	h := &Host{RunDir: t.TempDir()}
	wait := offer(t, filepath.Join(h.RunDir, requestPrefix+"a"), os.Stdout, "record")
	var said []string
	e := &Env{Say: func(line string) { said = append(said, line) }}

	if got := e.serveAll(h); got != (Ended{fault.Usage}) || len(said) != 1 {
		t.Errorf("got %v and %q; want the code %q and one line", got, said, fault.Usage)
	}
	if got := wait(); got != (Ended{fault.Usage}) {
		t.Errorf("the process that asked: got %v; want the code %q", got, fault.Usage)
	}
}
