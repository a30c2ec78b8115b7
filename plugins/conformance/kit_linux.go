package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/plugins/contract"
)

// titles lists the checks in the order of a report: ID and title.
var titles = [...][2]string{
	{"handshake", "Starts and prints its handshake line"},
	{"by-hand", "Ends when a person starts it"},
	{"description", "Its description is valid"},
	{"stable-description", "Its description never changes"},
	{"interpreter", "Declares its interpreter"},
	{"config", "Accepts a complete configuration"},
	{"config-refused", "Rejects an invalid configuration and names the attribute"},
	{"detect", "Answers on a machine without its device and on one with it"},
	{"deterministic", "Gives the same answer for the same machine"},
	{"zeros", "Reports false and 0 as values"},
	{"odd", "Survives files with unexpected content"},
	{"wants", "Answers without its wants"},
	{"stuck", "Answers other calls while one is blocked"},
	{"shutdown", "Ends on request, with everything that it started"},
	{"no-writes", "Writes nothing"},
	{"no-network", "Uses no network"},
	{"declared", "Uses nothing that it does not declare"},
}

// kit is one run of the checks.
type kit struct {
	ctx     context.Context
	options RunOptions
	program *os.File
	dir     string // all temporary files; removed at the end
	user    int    // uid of the detector; 0: the uid of the kit

	description contract.Description
	checks      map[string]Finding
	stderr      string // of the first process that printed something

	grants    contract.Needs // of the next process
	roots     []string       // of all machines that the detector is asked about
	isAsked   bool           // whether the detector was asked about a machine
	attempts  []attempt
	noWatch   string // why access cannot be watched; empty: it can
	processes int    // number of started processes
	zeros     int    // number of machines copied by checkZeros
}

func (k *kit) patient(limit time.Duration) time.Duration {
	return time.Duration(k.options.Patience) * limit
}

func run(ctx context.Context, program string, o RunOptions) (Findings, error) {
	report := Findings{Program: program}
	file, err := os.Open(program)
	if err != nil {
		return report, err
	}
	defer file.Close()

	dir, err := os.MkdirTemp("", "detector-")
	if err != nil {
		return report, err
	}
	defer os.RemoveAll(dir)
	// The detector's user must reach its own folder in it.
	if err := os.Chmod(dir, 0o711); err != nil {
		return report, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return report, err
	}

	k := &kit{
		noWatch: findTracer(),
		ctx:     ctx,
		options: o,
		program: file,
		dir:     dir,
		checks:  map[string]Finding{},
	}
	if os.Getuid() == 0 {
		// No account has one of these uids on Debian and Fedora. The limit of processes counts all that a user runs,
		// so each run uses another uid.
		const first, count = 65000, 500
		k.user = first + rand.IntN(count) //nolint:gosec // not a secret
	}

	k.runChecks()
	k.recordAttempts()

	report.Description = k.description
	report.Stderr = k.stderr
	for _, t := range titles {
		c, isDone := k.checks[t[0]]
		if !isDone {
			c = Finding{State: Skipped, Found: "an earlier check failed"}
		}
		c.ID = t[0]
		c.Title = t[1]
		report.Checks = append(report.Checks, c)
	}

	return report, ctx.Err()
}

// record records the result of a check: passed without findings, else bad.
func (k *kit) record(id string, bad Outcome, findings []string, fix string) {
	const limit = 12
	switch {
	case len(findings) == 0:
		k.checks[id] = Finding{State: Passed}
		return
	case len(findings) > limit:
		more := fmt.Sprintf("… and %d more", len(findings)-limit)
		findings = append(findings[:limit:limit], more)
	}
	k.checks[id] = Finding{
		State: bad,
		Found: strings.Join(findings, "\n"),
		Fix:   fix,
	}
}

// recordError records the result of a check with at most one finding, and reports whether it passed.
func (k *kit) recordError(id string, err error, fix string) bool {
	var findings []string
	if err != nil {
		findings = []string{err.Error()}
	}
	k.record(id, Failed, findings, fix)

	return err == nil
}

// attempt is an access that the kit refused, as a node would.
type attempt struct {
	check string  // which it belongs to
	state Outcome // Note for an access that libraries try and do without
	text  string
}

// recordAttempts records the results of the checks of refused access in all processes.
func (k *kit) recordAttempts() {
	fixes := map[string]string{
		"no-writes":  "The sandbox refuses it. Devices to open belong in needs.devices or wants.devices.",
		"no-network": "It was refused, as on a node, and not needed. Interfaces and links are in /sys/class/net.",
		"declared": "Describe it in needs (required) or wants (optional), so that a site can grant it. " +
			"No site can grant a system call that is refused to all detectors.",
	}
	for id, fix := range fixes {
		state := Note
		var findings []string
		for _, a := range k.attempts {
			if a.check != id {
				continue
			}
			if a.state == Failed {
				state = Failed
			}
			findings = append(findings, a.text)
		}

		switch {
		case k.noWatch != "":
			k.checks[id] = Finding{State: Skipped, Found: "system calls cannot be watched: " + k.noWatch}
		case !k.isAsked && len(findings) == 0:
			k.checks[id] = Finding{State: Skipped, Found: "it was never asked about a machine"}
		default:
			k.record(id, state, findings, fix)
		}
	}
}

// addAttempts keeps the first attempts of all processes, without duplicates.
func (k *kit) addAttempts(list []attempt) {
	const limit = 400
	for _, a := range list {
		if len(k.attempts) < limit && !slices.Contains(k.attempts, a) {
			k.attempts = append(k.attempts, a)
		}
	}
}

// shorten returns the beginning of a text, on one line.
func shorten(s string) string {
	return contract.OneLine(s[:min(len(s), 120)])
}

// toJSON returns a deterministic text for comparison.
func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "? " + err.Error()
	}

	return string(b)
}
