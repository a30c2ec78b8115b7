package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Names of the files in the run folder.
const (
	StatusFile  = "status.json"
	MetricsFile = "metrics.prom"
)

// StatusLimit is the largest status that is read, in bytes. A status may come from a bundle of another machine.
const StatusLimit = 1 << 20

// Verdict is whether the kubelet runs well on the generation in place.
type Verdict string

// The verdicts. Only good and bad end a verification.
const (
	Unchanged Verdict = ""        // there was nothing to judge
	Pending   Verdict = "pending" // not judged yet: prelet-verify or the next run does
	Good      Verdict = "good"
	Bad       Verdict = "bad"
	Unknown   Verdict = "unknown" // could not be determined: neither good nor counted as a try
)

// Status is status.json.
type Status struct {
	FormatVersion int            `json:"format_version"`
	Version       string         `json:"prelet_version"`
	BootID        string         `json:"boot_id"`
	State         string         `json:"state"`            // Running, OK, Degraded, Failed
	Exit          int            `json:"exit"`             // exit status of the run; 0 while it runs
	Code          fault.Code     `json:"code,omitempty"`   // of the failure; "" while it runs. See ErrorCode
	Summary       string         `json:"summary"`          // how it ended, one line
	Generation    int            `json:"generation"`       // in place; 0 for none
	Verdict       Verdict        `json:"verdict"`          // of the generation in place
	Why           string         `json:"why,omitempty"`    // of the verdict
	Unit          string         `json:"unit,omitempty"`   // whose journal has the messages; "" if a run printed them
	Held          *Held          `json:"held"`             // the site's plan is not applied
	Degraded      []fault.Reason `json:"degraded"`         // why not everything is as the site says
	Notes         []fault.Reason `json:"notes,omitempty"`  // information although nothing is wrong
	Stages        []Stage        `json:"stages"`           // in the order in which they began
	Started       time.Time      `json:"started,omitzero"` // UTC
	Finished      *time.Time     `json:"finished"`         // UTC; null while it runs
	// Healthy is when a check of the kubelet as it runs, after this run, found nothing, UTC; null if none did.
	Healthy *time.Time `json:"healthy,omitempty"`
	Spans   []Span     `json:"spans,omitempty"` // what took time, in the order in which it ended

	Check *Drift `json:"check,omitempty"` // between boots, after this run; null if there was none

	Delivery *Delivery `json:"delivery,omitempty"` // null on a node that pulls no site

	FailedRuns int       `json:"failed_runs,omitempty"` // of this boot
	Succeeded  time.Time `json:"succeeded,omitzero"`    // end of the last successful run of this boot, UTC
	// KubeletHeldUntil is when a hold of the site, which is true, ends at the latest, UTC.
	KubeletHeldUntil time.Time `json:"kubelet_held_until,omitzero"`

	Last *Status `json:"last_run,omitempty"` // during a run: the last finished one, without spans
}

// Drift lists the changes that a run would make, as a check between boots has found.
type Drift struct {
	At      time.Time  `json:"at"`             // UTC
	Changes []string   `json:"changes"`        // paths
	Code    fault.Code `json:"code,omitempty"` // why the site has no plan; "" if it has one
	Summary string     `json:"summary"`        // one line
	Needs   string     `json:"needs"`          // of the plan: nothing, units, kubelet or drain; "" without a plan
	Waits   *Wait      `json:"waits"`          // null if no pulled site waits, and while one is being applied
	Event   string     `json:"event"`          // the summary of the Node's last event; "" if nothing would change
}

// Wait is why a pulled site is not applied between boots.
type Wait struct {
	Reason string `json:"reason"` // disabled, no-plan, held, verdict, run, reboot or drain
	Why    string `json:"why"`
}

// Held is a plan that is not applied until it changes or is released.
type Held struct {
	Plan string `json:"plan_hash"`
	Why  string `json:"why"`
}

// Stage is the result of one stage or one step of the commit.
type Stage struct {
	Address string `json:"address"`
	State   string `json:"state"` // Running, OK, Skipped, Failed
	Millis  int64  `json:"ms"`
}

// InBoot returns the result of the run of a boot: OK, Degraded or Failed. It returns Running if the run has not
// ended, if this boot has had none, or if its generation awaits the verdict.
func (s Status) InBoot(bootID string) string {
	isPending := s.State == OK && s.Verdict == Pending
	switch {
	case s.BootID != bootID, s.State == Running, isPending:
		return Running
	case s.State == OK, s.State == Degraded:
		return s.State
	}

	return Failed
}

// successState returns the state of a run that has not failed.
func (s *Status) successState() string {
	if len(s.Degraded) > 0 || s.Held != nil {
		return Degraded
	}

	return OK
}

// ErrorCode returns the code of the failure of a run; "" if it did not fail or has not ended. An earlier prelet did not
// store the code; then it is Internal.
func (s Status) ErrorCode() fault.Code {
	if s.Code == "" && s.Exit != 0 {
		return fault.Internal
	}
	return s.Code
}

// Result returns the last finished run of this boot; the zero value before the first has finished.
func (s Status) Result() Status {
	switch {
	case s.Finished != nil:
		return s
	case s.Last != nil:
		return *s.Last
	}

	return Status{}
}

// ErrNewer is the error for the status of a newer prelet.
var ErrNewer = errors.New("a newer prelet wrote it")

// Load reads status.json of a run folder of this machine. The error wraps fs.ErrNotExist if prelet has not run.
func Load(dir string) (*Status, error) { return LoadBelow("", dir) }

// LoadBelow is Load for a run folder below a root.
func LoadBelow(root nodefile.Root, dir string) (*Status, error) {
	path := filepath.Join(dir, StatusFile)
	text, err := root.ReadFile(path, StatusLimit)
	if err != nil {
		return nil, fmt.Errorf("status of the last run: %w", err)
	}
	s, err := Decode(text)
	if err != nil {
		return nil, fmt.Errorf("status of the last run: %s: %w", path, err)
	}
	return s, nil
}

// Decode reads the text of a status.json. It fails for one of a newer prelet (ErrNewer), and for one with more spans
// than a run reports.
func Decode(text []byte) (*Status, error) {
	var s Status
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	if s.FormatVersion > FormatVersion {
		return nil, fmt.Errorf("%w: format_version is %d; this prelet reads 1 to %d",
			ErrNewer, s.FormatVersion, FormatVersion)
	}
	if s.FormatVersion < 1 {
		return nil, fmt.Errorf("format_version is %d; this prelet reads 1 to %d", s.FormatVersion, FormatVersion)
	}
	states := []string{Running, OK, Degraded, Failed}
	if !slices.Contains(states, s.State) {
		return nil, fmt.Errorf("invalid state %q: valid states: %s", s.State, strings.Join(states, ", "))
	}
	if len(s.Spans) > maxLinks {
		return nil, fmt.Errorf("it has %d spans; a run reports at most %d", len(s.Spans), maxLinks)
	}
	return &s, nil
}

func (s *Status) encode() ([]byte, error) {
	out := s.Clone()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(out); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return b.Bytes(), nil
}

// Clone returns a deep copy whose lists are never null in JSON.
func (s *Status) Clone() Status {
	out := *s
	out.Degraded = append([]fault.Reason{}, s.Degraded...)
	out.Notes = slices.Clone(s.Notes)
	out.Stages = append([]Stage{}, s.Stages...)
	out.Spans = slices.Clone(s.Spans)
	if s.Held != nil {
		held := *s.Held
		out.Held = &held
	}
	if s.Delivery != nil {
		delivery := *s.Delivery
		out.Delivery = &delivery
	}
	if s.Last != nil {
		last := s.Last.Clone()
		out.Last = &last
	}
	return out
}

// takeOver sets what survives the start of a run: the results of the runs of this boot, the pulled site, which a
// rollback does not evaluate, and that another machine runs under this node's name, which one look at the Node does not
// refute. A report that continues the earlier one keeps everything.
func (s *Status) takeOver(before Status, again bool) {
	s.FailedRuns = before.FailedRuns
	s.Succeeded = before.Succeeded
	if rival := before.Rival(); rival != "" {
		s.Degraded = []fault.Reason{{Code: fault.OtherMachine, Summary: rival}}
	}
	if again {
		*s = before
	}

	s.Last = nil
	if last := before.Result(); last.State != "" {
		last.Spans = nil
		s.Last = &last
		s.Delivery = last.Clone().Delivery
	}
}

// Rival describes the other machine that runs under this node's name; "" if none was seen.
func (s *Status) Rival() string {
	for _, r := range s.Degraded {
		if r.Code == fault.OtherMachine {
			return strings.TrimPrefix(r.Summary, verified)
		}
	}

	return ""
}

// countResult counts a run that has finished. A failure that an earlier process of the same run has reported counts
// once, and a run whose generation awaits its verdict is not yet a success.
func (s *Status) countResult(again bool) {
	hasFailed := s.State == Failed
	isKnown := again && s.Last != nil && s.Last.State == Failed
	if hasFailed && !isKnown {
		s.FailedRuns++
	}
	if !hasFailed && s.Verdict != Pending {
		s.Succeeded = *s.Finished
	}
	s.Last = nil
}

// setStage sets a stage's line. A stage that ended may begin again (a second restart), and gets another line then.
func (s *Status) setStage(address, state string, millis int64) {
	line := Stage{
		Address: address,
		State:   state,
		Millis:  millis,
	}
	for i, known := range slices.Backward(s.Stages) {
		if known.Address != address {
			continue
		}
		if state == Running && known.State != Running {
			break
		}
		s.Stages[i] = line
		return
	}
	s.Stages = append(s.Stages, line)
}

// lockTimeout limits the wait for a lock of another process: no report holds up a run.
const (
	lockFile    = "status.lock"
	lockTimeout = time.Second
	lockPause   = 5 * time.Millisecond
)

// lock keeps other processes from writing status.json until unlock is called. Only root can open its file.
func lock(dir string) (unlock func()) {
	const mode = os.O_RDWR | os.O_CREATE | unix.O_NOFOLLOW | unix.O_NONBLOCK
	file, err := os.OpenFile(filepath.Join(dir, lockFile), mode, 0o600)
	if err != nil {
		return func() {}
	}
	for end := time.Now().Add(lockTimeout); time.Now().Before(end); time.Sleep(lockPause) {
		if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			break
		}
	}

	return func() { _ = file.Close() }
}

// writeFile replaces a file of the run folder. Every user may read it, because it is redacted.
func writeFile(dir, name string, content []byte) error {
	err := atomicfile.File(filepath.Join(dir, name), 0o644, content)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
