// Package check has the form of a check of a node or of an image: a row of a list, with the input that it needs. A
// command runs the checks whose input it has. A check is defined in the package that has the knowledge. The commands
// doctor and seal report all results of a list; a run ends at the first problem, before it changes anything.
package check

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/prelet/prelet/internal/fault"
)

// Level is the severity of a finding.
type Level string

// The states.
const (
	OK      Level = "ok"
	Warning Level = "warning" // a boot succeeds, but probably not as intended
	Problem Level = "problem" // a boot fails
	Unread  Level = "unread"  // this user may not read it, or it is not known now
	Skipped Level = "skipped" // only a running machine can be checked for it
)

// Finding is one result of a check, which may have several.
type Finding struct {
	Check   string     `json:"check"` // the name of the check
	State   Level      `json:"state"`
	Summary string     `json:"summary"`
	Why     string     `json:"why,omitempty"` // the reason, or why it matters
	Do      string     `json:"do,omitempty"`  // the next step
	Code    fault.Code `json:"code,omitempty"`
	Place   string     `json:"place,omitempty"` // FILE:LINE:COLUMN of the site
}

// Needs is a set of inputs. A check needs one of its set.
type Needs uint8

// The needs of checks.
const (
	Running   Needs = 1 << iota // a machine that runs
	Files                       // the root folder of a machine that does not run, or of an image
	Leftovers                   // what an image must not contain
	Root                        // root on a machine that runs
	Commit                      // a run that is about to change files of such a machine
)

// Row is one row of a list of checks.
type Row struct {
	Name  string // of its results, most of them; messages of the site belong to several checks
	Needs Needs
	Run   func(*Recorder)
}

// List is a list of checks, in the order of their results.
type List []Row

// Add appends a check.
func (l *List) Add(name string, needs Needs, run func(*Recorder)) {
	*l = append(*l, Row{name, needs, run})
}

// Names returns the names of the checks whose input the caller has.
func (l List) Names(has Needs) (names []string) {
	for _, c := range l {
		if c.Needs&has != 0 && !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}

	return names
}

// First runs all checks until one fails, and returns its error.
func (l List) First() error {
	for _, c := range l {
		r := Recorder{Check: c.Name}
		if c.Run(&r); r.failed != nil {
			return r.failed
		}
	}

	return nil
}

// Run runs the checks whose input the caller has, and returns the results, the worst of each name first. Names that
// only a running machine can be checked for are reported last, as skipped.
func (l List) Run(has Needs) []Finding {
	var r Recorder
	for _, c := range l {
		if c.Needs&has != 0 {
			r.Check = c.Name
			c.Run(&r)
		}
	}

	names, checked := l.Names(^Needs(0)), l.Names(has)
	worst := []Level{Problem, Warning, Unread, OK}
	slices.SortStableFunc(r.found, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(slices.Index(names, a.Check), slices.Index(names, b.Check)),
			cmp.Compare(slices.Index(worst, a.State), slices.Index(worst, b.State)),
		)
	})
	for _, name := range l.Names(Running) {
		if !slices.Contains(checked, name) {
			r.Add(Finding{Check: name, State: Skipped, Summary: "only a running machine can be checked for it"})
		}
	}

	return r.found
}

// Fit reports whether a boot would succeed, as far as is known.
func Fit(results []Finding) bool {
	return !slices.ContainsFunc(results, func(f Finding) bool {
		return f.State == Problem
	})
}

// Recorder collects the findings of the checks of a list.
type Recorder struct {
	Check string // the name of the check that runs

	found  []Finding
	failed error // the first error
}

// Add adds a result, once. Without a name it is one of the current check.
func (r *Recorder) Add(f Finding) {
	f.Check = cmp.Or(f.Check, r.Check)
	if !slices.Contains(r.found, f) {
		r.found = append(r.found, f)
	}
}

// Report adds a result of the current check, with its reason and the next step.
func (r *Recorder) Report(state Level, summary, why, do string) {
	r.Add(Finding{State: state, Summary: summary, Why: why, Do: do})
}

// Problem adds what stops a run.
func (r *Recorder) Problem(summary, why, do string) {
	r.Report(Problem, summary, why, do)
}

// Warn adds what does not stop a run.
func (r *Recorder) Warn(summary, why, do string) {
	r.Report(Warning, summary, why, do)
}

// Unread adds what could not be checked.
func (r *Recorder) Unread(summary, why, do string) {
	r.Report(Unread, summary, why, do)
}

// Fine adds a summary if all results of the current check so far are OK.
func (r *Recorder) Fine(summary string) {
	if r.IsFine() {
		r.Report(OK, summary, "", "")
	}
}

// Fail adds an error with which a run ends before it changes anything. err may be nil.
func (r *Recorder) Fail(err error) {
	if err == nil {
		return
	}

	f := &fault.Fault{Code: fault.Internal, Err: err}
	_ = errors.As(err, &f)
	why := fmt.Sprintf("a run ends with %d before it writes anything", f.Code.Exit())
	r.Problem(cmp.Or(f.Summary, fmt.Sprint(f.Err)), why, f.Next)
	r.failed = cmp.Or(r.failed, err)
}

// IsFine reports whether all results of the current check so far are OK.
func (r *Recorder) IsFine() bool {
	return !slices.ContainsFunc(r.found, func(f Finding) bool {
		return f.Check == r.Check && f.State != OK
	})
}
