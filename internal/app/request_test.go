package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

// TestServeAll: the unit ends with the code of the highest exit status, and each process gets the code of its own.
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
			for i := range c.codes {
				name := filepath.Join(h.RunDir, requestPrefix+string(rune('a'+i))+".json")
				if err := os.WriteFile(name, []byte(`{"args":["run"]}`), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			served := 0
			e := &Env{Serve: func([]string) Reply {
				served++
				return Reply{Code: c.codes[served-1]}
			}}

			got := e.serveAll(h)

			if got == nil || got.Code != c.want {
				t.Errorf("got %+v; want the code %q", got, c.want)
			}
			for i, want := range c.codes {
				text, err := os.ReadFile(filepath.Join(h.RunDir, replyPrefix+string(rune('a'+i))+".json"))
				if err != nil {
					t.Fatal(err)
				}
				if r, err := decodeReply(text); err != nil || r.Code != want {
					t.Errorf("reply %d: got %+v, %v; want the code %q", i, r, err, want)
				}
			}
		})
	}
}

// TestServeAllRefuses: what is neither a run nor a rollback is not done, and both sides learn why.
func TestServeAllRefuses(t *testing.T) {
	h := &Host{RunDir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(h.RunDir, requestPrefix+"a.json"), []byte(`{"args":["record"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var said []string
	e := &Env{Say: func(line string) { said = append(said, line) }}

	if got := e.serveAll(h); got == nil || got.Code != fault.Usage || len(said) != 1 {
		t.Errorf("got %+v and %q; want the code %q and one line", got, said, fault.Usage)
	}

	text, err := os.ReadFile(filepath.Join(h.RunDir, replyPrefix+"a.json"))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := decodeReply(text); fault.CodeOf(err) != fault.Usage {
		t.Errorf("got the reply %+v, %v; want the code %q", r, err, fault.Usage)
	}
}
