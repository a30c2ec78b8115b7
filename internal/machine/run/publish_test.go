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
	"github.com/prelet/prelet/internal/model/secret"
)

// TestPublications lets each publication fail: the result stays, the others follow in their order, and the failure is a
// note of the run, or is printed.
func TestPublications(t *testing.T) {
	for _, follows := range listKinds() {
		for failing := range follows(&nodeRun{Run: &commit.Run{}}) {
			checkFailing(t, follows, failing)
		}
	}
}

// listKinds returns the lists of publications of a nodeRun, by name.
func listKinds() map[string]func(*nodeRun) []publication {
	return map[string]func(*nodeRun) []publication{
		"run":       (*nodeRun).ofRun,
		"overtaken": (*nodeRun).ofOvertaken,
		"unopened":  (*nodeRun).ofUnopened,
		"look":      (*nodeRun).ofLook,
		"nothing":   (*nodeRun).ofNothing,
		"release":   (*nodeRun).ofRelease,
		"root":      (*nodeRun).ofRoot,
	}
}

// checkFailing publishes a list, and lets one of its publications fail.
func checkFailing(t *testing.T, follows func(*nodeRun) []publication, failing int) {
	t.Helper()

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
	result := commit.Result{Code: fault.RolledBack, Summary: "it was rolled back", Held: "unhealthy"}
	r := &nodeRun{
		Run: &commit.Run{Store: &generation.Store{}, Report: rep, Result: result},
		env: &machine.Env{
			Say:      func(line string) { said = append(said, line) },
			Redactor: secret.NewRedactor(),
		},
		host: &machine.Host{RunDir: dir, BootID: "b"},
	}

	all := follows(r)
	row := all[failing]
	for i := range all {
		want = append(want, all[i].name)
		all[i].publish = func(context.Context) error {
			got = append(got, all[i].name)
			if i == failing {
				return errors.New("disk full")
			}
			return errNotTried
		}
	}
	r.publish(t.Context(), all)

	if !slices.Equal(got, want) || r.Code != result.Code || r.Summary != result.Summary || r.Held != result.Held {
		t.Errorf("%s failed: got %q and %+v; want %q and %+v", row.name, got, r.Result, want, result)
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

// TestPublicationsOfChecks lets each publication of a check between boots fail: it is printed, and the others follow.
func TestPublicationsOfChecks(t *testing.T) {
	want := []string{"drift", "event of drift", "conditions with drift", "waits", "check", "apply"}
	for failing := range want {
		var said, got []string
		c := &driftCheck{env: &machine.Env{Say: func(line string) { said = append(said, line) }}}
		all := c.publications()
		for i := range all {
			all[i].publish = func(context.Context) error {
				got = append(got, all[i].name)
				if i == failing {
					return errors.New("disk full")
				}
				return nil
			}
		}
		c.publishAll(t.Context(), all)

		message := []string{all[failing].failure + ": disk full"}
		if !slices.Equal(got, want) || !slices.Equal(said, message) {
			t.Errorf("%s failed: got %q, and %q printed; want %q, and %q", want[failing], got, said, want, message)
		}
	}
}

// TestPublicationsOfKinds checks the order of what follows each kind of result.
func TestPublicationsOfKinds(t *testing.T) {
	kinds := listKinds()
	for kind, want := range map[string][]string{
		"run": {
			"machine", "programs", "recording", "results of conditions", "owed verdict", "console", "journal", "status",
			"change", "metrics", "login", "description", "last good", "generations", "run", "lock", "event",
			"conditions", "annotations", "next try",
		},
		"unopened": {"console", "journal", "status", "change", "metrics", "login", "description"},
		"root":     {"machine", "programs", "generations"},
		"look":     {"owed verdict", "status", "change", "metrics", "login", "description", "last good", "lock", "event", "conditions", "next try"},
		"nothing":  {"lock", "conditions", "next try"},
		"release":  {"status", "change", "metrics", "login"},
		"overtaken": {
			"machine", "programs", "recording", "results of conditions", "owed verdict", "last good",
			"generations", "run", "lock", "event", "conditions", "annotations", "next try",
		},
	} {
		var got []string
		for _, p := range kinds[kind](&nodeRun{Run: &commit.Run{}}) {
			got = append(got, p.name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", kind, got, want)
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
