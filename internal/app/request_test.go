package app

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

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

// TestAbandonedReplies removes the replies to processes that have ended, and no others. A young reply may be for a
// process of another PID namespace, whose number is not visible here.
func TestAbandonedReplies(t *testing.T) {
	gone := exec.Command("/proc/self/exe", "-test.run=^$")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}

	h := &Host{RunDir: t.TempDir()}
	write := func(name, text string, age time.Duration) {
		at := filepath.Join(h.RunDir, name)
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}

		if err := os.Chtimes(at, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}

	write("reply-apart.json", fmt.Sprintf(`{"pid":%d}`, gone.Process.Pid), 0)
	write("reply-gone.json", fmt.Sprintf(`{"pid":%d}`, gone.Process.Pid), 2*time.Minute)
	write("reply-waits.json", fmt.Sprintf(`{"pid":%d}`, os.Getpid()), time.Hour)
	write("reply-young.json", `{}`, time.Minute) // of an older prelet
	write("reply-old.json", `{}`, time.Hour)
	write("reply-broken.json", `{`, time.Hour)
	write("request-asked.json", fmt.Sprintf(`{"args":["run"],"pid":%d}`, gone.Process.Pid), 0)

	served := 0
	e := &Env{Serve: func([]string) Reply { served++; return Reply{} }}
	e.serveAll(h)

	left, err := filepath.Glob(filepath.Join(h.RunDir, "*"))
	for i := range left {
		left[i] = filepath.Base(left[i])
	}

	want := []string{"reply-apart.json", "reply-asked.json", "reply-waits.json", "reply-young.json"}
	if err != nil || !slices.Equal(left, want) || served != 1 {
		t.Errorf("got %q, %d served, %v; want %q, and the request served", left, served, err, want)
	}
}

// TestServeAllRefuses: what is neither a run nor a rollback is not done, and both sides learn why.
func TestServeAllRefuses(t *testing.T) {
	h := &Host{RunDir: t.TempDir()}
	if err := os.WriteFile(
		filepath.Join(h.RunDir, requestPrefix+"a.json"),
		[]byte(`{"args":["record"]}`),
		0o600,
	); err != nil {
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
