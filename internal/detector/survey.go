package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/stages"
)

// Row is what can be said of one detector without running it.
type Row struct {
	Name     string `json:"name"`
	Declared string `json:"declared,omitempty"` // FILE:LINE of the site; "" if it does not
	Required bool   `json:"required"`
	Version  string `json:"version,omitempty"`

	Program   string `json:"program"`
	Installed bool   `json:"installed"`
	Lock      string `json:"lock,omitempty"` // the file
	Locked    bool   `json:"locked"`         // and it is the program that is there
	Why       string `json:"why,omitempty"`  // it is not installed, or not locked

	Matches bool                  `json:"matches"` // this machine
	Devices []string              `json:"devices,omitempty"`
	Missing contract.Needs        `json:"missing"` // what it needs and the site does not grant
	Unused  contract.Needs        `json:"wanted"`  // what it could use and the site does not grant
	Says    *contract.Description `json:"describe,omitempty"`
}

// Runs says whether a boot would start it on this machine.
func (r Row) Runs() bool {
	return r.Declared != "" && r.Installed && r.Locked && r.Matches && r.Missing.Empty()
}

// Survey looks at what the site declares and what is installed, by name. It hashes programs and starts none.
func (h *Host) Survey(ctx context.Context, declared []stages.Detector, pci []world.PCIDevice) []Row {
	names := h.Installed()
	for _, d := range declared {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	var out []Row
	for _, n := range slices.Compact(names) {
		r := Row{Name: n, Program: h.Program(world.Lock{Name: n})}
		var allow world.Grants
		var timeout time.Duration
		if i := slices.IndexFunc(declared, func(d stages.Detector) bool { return d.Name == n }); i >= 0 {
			d := declared[i]
			r.Declared, r.Required, allow = fmt.Sprintf("%s:%d", d.Range.Filename, d.Range.Start.Line), d.Required, d.Allow
			timeout = d.Timeout
		}
		l, err := h.Lock(n)
		if err == nil {
			looking, cancel := context.WithTimeout(ctx, lookTime(timeout))
			h.locked(looking, &r, l, allow, pci)
			cancel()
		}
		h.installed(&r, l, err)
		out = append(out, r)
	}
	return out
}

func (h *Host) locked(ctx context.Context, r *Row, l world.LockAns, allow world.Grants, pci []world.PCIDevice) {
	r.Lock, r.Program = l.File, h.Program(l.Lock)
	d, err := stages.Description(l.Lock)
	if err != nil {
		return
	}
	r.Says, r.Version = &d, d.Version
	devices := stages.MatchingDevices(d.Match, pci)
	for _, p := range devices {
		r.Devices = append(r.Devices, p.Address)
	}
	idle, err := h.nothingToDo(ctx, d.Match, devices)
	if r.Matches = idle == "" && err == nil; err != nil {
		r.Why = err.Error()
	}
	r.Missing, r.Unused = stages.Ungranted(d.Needs, allow), stages.Ungranted(d.Wants, allow)
}

func (h *Host) installed(r *Row, l world.LockAns, lockErr error) {
	if lockErr != nil && !errors.Is(lockErr, errNoLock) { // it may name another program
		r.Why = lockErr.Error()
		return
	}
	f, err := openProgram(r.Program)
	switch {
	case fault.CodeOf(err) == fault.Absent, errors.Is(err, fs.ErrNotExist):
		r.Why = "not installed"
		return
	case err != nil:
		r.Why = err.Error()
		return
	}
	defer f.Close()
	r.Installed = true
	switch {
	case errors.Is(lockErr, errNoLock):
		r.Why = "no lock"
	case hash(f) != l.SHA256:
		r.Why = "another program than was locked"
	default:
		r.Locked = true
	}
}
