// Package conformance is what every detector must pass, in whatever language it is written, and without its device: it
// starts the program as prelet does, asks it, and says for each finding what to mend.
//
// It starts the detector, and writes into a folder for temporary files that it removes. Where the kernel has seccomp's
// user notifications, it sees what the detector tries beyond what it declares (files, sockets, programs) and refuses
// that as the sandbox of a node would; nothing that it starts outlives Run. As root it starts
// the detector as a user that has nothing and runs nothing else.
//
// A program that calls Run calls Shim first, at the beginning of main: Run starts the program once more to become the
// detector, because limits and the watch must be in place before the detector's first instruction.
package conformance

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/plugins/contract"
)

// Options are what Run needs to know beyond the program.
type Options struct {
	Config  map[string]any // for detectors with required attributes
	Roots   []string       // folders that stand for "/", with devices that the detector knows
	Args    []string       // of the program, where it needs some
	Timeout time.Duration  // for one Detect; 0: 10 s, as a site without `timeout`
	Memory  uint64         // bytes; 0: 128 MiB, as a site without `memory`
}

// State is how a check ended.
type State string

// The states.
const (
	Passed  State = "passed"
	Failed  State = "failed"
	Note    State = "note"    // passed, and yet somebody should look
	Skipped State = "skipped" // could not be checked here; Found says why
)

// Check is one thing that was checked.
type Check struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	State State  `json:"state"`
	Found string `json:"found,omitempty"` // what was found
	Mend  string `json:"mend,omitempty"`  // what to do about it
}

// Report is all that was found.
type Report struct {
	Program     string               `json:"program"`
	Description contract.Description `json:"description"`
	Checks      []Check              `json:"checks"` // always the same, in the same order; what could not be reached is skipped
	Stderr      string               `json:"stderr,omitempty"`
}

// OK tells whether no check failed.
func (r Report) OK() bool { return r.Count(Failed) == 0 }

// Count returns how many checks ended so.
func (r Report) Count(s State) int {
	n := 0
	for _, c := range r.Checks {
		if c.State == s {
			n++
		}
	}
	return n
}

// Run checks a program. The error is of this machine, not of the detector: a folder that cannot be made.
func Run(ctx context.Context, program string, o Options) (Report, error) {
	o.Roots = slices.Clone(o.Roots)
	for i, dir := range o.Roots {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return Report{Program: program}, err
		}
		o.Roots[i] = abs
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Memory == 0 {
		o.Memory = 128 << 20
	}
	k := &kit{ctx: ctx, options: o, report: Report{Program: program}}
	if err := k.open(program); err != nil {
		return k.report, err
	}
	defer k.close()
	k.run()
	k.report.Stderr = k.stderr
	return k.report, ctx.Err()
}

// kit is one run of the checks.
type kit struct {
	ctx     context.Context
	options Options
	report  Report
	dir     string // of all temporary files; removed in the end
	program *os.File
	user    int       // who the detector is; 0: who runs the kit
	claim   io.Closer // of the user
	wants   bool      // whether what the description wants is granted to what starts next
	sockets bool      // whether what starts next may make sockets, so that one sees where they go
	reached bool      // whether it was asked about a machine
	tried   attempts
	watch   string   // why there is no watch; empty: there is one
	stderr  string   // of the last process that ended badly, or of the first
	n       int      // of processes
	roots   []string // of all machines that are asked about
}

func (k *kit) open(program string) (err error) {
	if k.dir, err = os.MkdirTemp("", "detector-"); err != nil {
		return err
	}
	if err := os.Chmod(k.dir, 0o711); err != nil { // the detector is another user, and must get to its own folder
		return err
	}
	if k.dir, err = filepath.EvalSymlinks(k.dir); err != nil {
		return err
	}
	if k.program, err = os.Open(program); err == nil && os.Getuid() == 0 {
		k.user, k.claim, err = ownUser()
	}
	if err != nil {
		k.close()
	}
	return err
}

func (k *kit) close() {
	if k.program != nil {
		_ = k.program.Close() // it was only read
	}
	if k.claim != nil {
		_ = k.claim.Close() // it ends with this process, if not now
	}
	_ = os.RemoveAll(k.dir) // who reads the report cannot do anything about it
}

// check adds a check that ended.
func (k *kit) check(id, title string, s State, found, mend string) {
	k.report.Checks = append(k.report.Checks, Check{id, title, s, found, mend})
}

// judge adds a check that passed unless there is something to tell.
func (k *kit) judge(id, title string, bad State, findings []string, mend string) {
	if len(findings) == 0 {
		k.check(id, title, Passed, "", "")
		return
	}
	const most = 12
	if len(findings) > most {
		findings = append(findings[:most:most], fmt.Sprintf("… and %d more", len(findings)-most))
	}
	k.check(id, title, bad, strings.Join(findings, "\n"), mend)
}
