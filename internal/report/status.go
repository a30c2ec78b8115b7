package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Names of the files in the run folder.
const (
	StatusFile  = "status.json"
	MetricsFile = "metrics.prom"
)

// statusLimit bounds what Load reads: /run/prelet is ours, but a status may come out of a bundle.
const statusLimit = 1 << 20

// Status is status.json.
type Status struct {
	FormatVersion int        `json:"format_version"`
	Version       string     `json:"prelet_version"`
	BootID        string     `json:"boot_id"`
	State         string     `json:"state"`            // Running, OK, Degraded, Failed
	Exit          int        `json:"exit"`             // exit status of the run; 0 while it runs
	Code          fault.Code `json:"code,omitempty"`   // of the failure; "" while it runs. See ErrorCode
	Summary       string     `json:"summary"`          // how it ended, one line
	Generation    int        `json:"generation"`       // in place; 0 for none
	Verdict       string     `json:"verdict"`          // pending, good, bad, unknown; empty when nothing was to be judged
	Why           string     `json:"why,omitempty"`    // of the verdict
	Held          *Held      `json:"held"`             // the site's plan is not applied
	Degraded      []Reason   `json:"degraded"`         // why it is not wholly what the site says
	Notes         []Reason   `json:"notes,omitempty"`  // what somebody should know, though nothing is wrong
	Stages        []Stage    `json:"stages"`           // in the order in which they began
	Started       time.Time  `json:"started,omitzero"` // UTC
	Finished      *time.Time `json:"finished"`         // UTC; null while it runs
}

// Held is a plan that is not applied until something changes or somebody releases it.
type Held struct {
	Plan string `json:"plan_hash"`
	Why  string `json:"why"`
}

// Reason is one item of "degraded". The code has a page: prelet explain code/NAME.
type Reason struct {
	Code    string `json:"code"`
	Summary string `json:"summary"`
}

// Stage is what one stage or step of apply did.
type Stage struct {
	Address string `json:"address"`
	State   string `json:"state"` // Running, OK, Skipped, Failed
	Millis  int64  `json:"ms"`
}

// InBoot is how the run of a boot ended: OK, Degraded or Failed. Running is one that has not ended, or that this boot
// has not had, or whose generation awaits its verdict.
func (s Status) InBoot(bootID string) string {
	switch {
	case s.BootID != bootID || s.State == Running:
		return Running
	case s.State == OK && s.Verdict == "pending":
		return Running
	case s.State == OK || s.State == Degraded:
		return s.State
	}
	return Failed
}

// ErrorCode returns the code of the failure that a run ended with; "" where it did not fail or has not ended. A failure
// without a code was written by a prelet that did not store it: it is Internal, since a status says no more about it.
func (s Status) ErrorCode() fault.Code {
	if s.Code == "" && s.Exit != 0 {
		return fault.Internal
	}
	return s.Code
}

// Load reads status.json of a run folder. The error wraps fs.ErrNotExist when there is none: prelet has not run.
func Load(dir string) (*Status, error) {
	path := filepath.Join(dir, StatusFile)
	text, err := nodefile.ReadFile(path, statusLimit)
	if err != nil {
		return nil, fmt.Errorf("status of the last run: %w", err)
	}
	s, err := decodeStatus(text)
	if err != nil {
		return nil, fmt.Errorf("status of the last run: %s: %w", path, err)
	}
	return s, nil
}

func decodeStatus(text []byte) (*Status, error) {
	var s Status
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	if s.FormatVersion < 1 || s.FormatVersion > FormatVersion {
		return nil, fmt.Errorf("format_version is %d; this prelet reads 1 to %d", s.FormatVersion, FormatVersion)
	}
	if !slices.Contains([]string{Running, OK, Degraded, Failed}, s.State) {
		return nil, fmt.Errorf("state is %q, which no run has", s.State)
	}
	return &s, nil
}

func (s *Status) encode() ([]byte, error) {
	out := s.clone()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(out); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return b.Bytes(), nil
}

// clone is a copy that shares nothing and whose lists are never null.
func (s *Status) clone() Status {
	out := *s
	out.Degraded = append([]Reason{}, s.Degraded...)
	out.Notes = slices.Clone(s.Notes)
	out.Stages = append([]Stage{}, s.Stages...)
	if s.Held != nil {
		held := *s.Held
		out.Held = &held
	}
	return out
}

// stage sets one stage's line: the last one of that address, because a step may come again (a second restart).
func (s *Status) stage(address, state string, ms int64) {
	for i := len(s.Stages) - 1; i >= 0; i-- {
		if s.Stages[i].Address == address {
			if state == Running && s.Stages[i].State != Running {
				break
			}
			s.Stages[i] = Stage{Address: address, State: state, Millis: ms}
			return
		}
	}
	s.Stages = append(s.Stages, Stage{Address: address, State: state, Millis: ms})
}

// writeFile replaces a file of the run folder whole, readable by all: what is in it was redacted.
func writeFile(dir, name string, content []byte) error {
	if err := replace.File(filepath.Join(dir, name), 0o644, content); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
