package run

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/value"
)

// TestPublications lets each publication fail: the result stays, the others follow in their order, and the failure is a
// note of the run, or is printed.
func TestPublications(t *testing.T) {
	for failing, row := range publications() {
		kind := row.follows & -row.follows // one of its kinds
		var said, got, want []string
		dir := t.TempDir()
		rep, err := report.New(report.ReporterConfig{
			Dir:    dir,
			BootID: "b",
			Now:    time.Now,
			Redact: strings.Clone,
		})
		if err != nil {
			t.Fatal(err)
		}
		rep.Finish("", "")
		if err := rep.WriteStatus(); err != nil {
			t.Fatal(err)
		}
		result := commit.Ended{Code: fault.RolledBack, Summary: "it was rolled back", Held: "unhealthy"}
		r := &nodeRun{
			kind: kind,
			Run:  &commit.Run{Store: &generation.Store{}, Report: rep, Ended: result},
			env: &machine.Env{
				Say:      func(line string) { said = append(said, line) },
				Redactor: value.NewRedactor(),
			},
			host: &machine.Host{RunDir: dir, BootID: "b"},
		}

		all := publications()
		for i := range all {
			if all[i].follows&kind != 0 {
				want = append(want, all[i].name)
			}
			all[i].publish = func(*nodeRun, context.Context) error {
				got = append(got, all[i].name)
				if i == failing {
					return errors.New("disk full")
				}
				return errNotTried
			}
		}
		r.publishAll(t.Context(), all)

		if !slices.Equal(got, want) || r.Code != result.Code || r.Summary != result.Summary || r.Held != result.Held {
			t.Errorf("%s failed: got %q and %+v; want %q and %+v", row.name, got, r.Ended, want, result)
		}
		message := row.failure + ": disk full"
		status, err := report.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		isNote := slices.Contains(status.Notes, fault.Reason{Code: row.code, Summary: message})
		if isNote != (row.code != "") || slices.Contains(said, message) == isNote {
			t.Errorf("%s failed: got notes %v and %q printed; want %q as one of them, by its code %q",
				row.name, status.Notes, said, message, row.code)
		}
	}
}

// TestPublicationsOfOthers checks what follows a result that is not that of a run with its generations and its report.
func TestPublicationsOfOthers(t *testing.T) {
	for kind, want := range map[kinds][]string{
		ofUnopened: {"console", "journal", "status", "change", "metrics", "login", "description"},
		ofRoot:     {"machine", "programs", "generations"},
		ofCheck:    {"drift", "event of drift", "conditions with drift", "check"},
		ofLook:     {"owed verdict", "status", "change", "metrics", "login", "description", "last good", "lock", "event", "conditions", "next try"},
		ofNothing:  {"lock", "conditions", "next try"},
		ofTry:      {"conditions"},
		ofRelease:  {"status", "change", "metrics", "login"},
		ofOvertaken: {
			"machine", "programs", "recording", "results of conditions", "owed verdict", "last good",
			"generations", "run", "lock", "event", "conditions", "annotations", "next try",
		},
	} {
		r := &nodeRun{kind: kind, Run: &commit.Run{}}
		all := publications()
		var got []string
		for i := range all {
			all[i].publish = func(*nodeRun, context.Context) error {
				got = append(got, all[i].name)
				return errNotTried
			}
		}
		r.publishAll(t.Context(), all)
		if !slices.Equal(got, want) {
			t.Errorf("kind %d: got %q, want %q", kind, got, want)
		}
	}
}

func TestDescribeState(t *testing.T) {
	degraded := []fault.Reason{{Code: fault.Stale, Summary: "old"}}
	held := []fault.Reason{{Code: fault.Held, Summary: "pinned"}}
	for _, c := range []struct {
		status          report.Status
		reason, message string
	}{
		{report.Status{}, "", ""},
		{report.Status{State: report.Running}, "", ""},
		{report.Status{State: report.OK, Summary: "fine"}, "PreletGood", "fine"},
		{report.Status{State: report.OK, Verdict: "pending"}, "", ""},
		{report.Status{State: report.Degraded, Verdict: "unknown", Degraded: degraded}, "", ""},
		{report.Status{State: report.Degraded, Degraded: degraded}, "PreletDegraded", "stale: old"},
		{report.Status{State: report.Degraded, Held: &report.Held{Why: "pinned"}}, "PreletHeld", "pinned"},
		{report.Status{State: report.Degraded, Degraded: held, Summary: "by hand"}, "PreletHeld", "by hand"},
		{report.Status{State: report.Failed, Code: fault.KubeletHeld, Summary: "gpu"}, "PreletKubeletHeld", "gpu"},
		{report.Status{State: report.Failed, Verdict: "pending", Summary: "broken"}, "PreletDegraded", "broken"},
		{
			report.Status{State: report.Failed, Code: fault.RolledBack, Held: &report.Held{Why: "x"}, Summary: "back"},
			"PreletRolledBack", "back",
		},
	} {
		if reason, message := describeState(c.status); reason != c.reason || message != c.message {
			t.Errorf("%+v: got %q, %q; want %q, %q", c.status, reason, message, c.reason, c.message)
		}
	}
}
