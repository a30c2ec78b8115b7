package detector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/stages"
)

// Row describes a detector without starting it.
type Row struct {
	Name     string `json:"name"`
	Declared string `json:"declared,omitempty"` // FILE:LINE in the site; empty: not declared
	Required bool   `json:"required"`
	Version  string `json:"version,omitempty"`

	Program   string `json:"program"`
	Installed bool   `json:"installed"`
	Lock      string `json:"lock,omitempty"` // the file
	Locked    bool   `json:"locked"`         // the lock has the hash of the program
	Why       string `json:"why,omitempty"`  // why it is not installed or not locked

	Matches     bool                  `json:"matches"` // this machine
	Devices     []string              `json:"devices,omitempty"`
	Missing     contract.Needs        `json:"missing"` // needs that the site does not grant
	Unused      contract.Needs        `json:"wanted"`  // wants that the site does not grant
	Description *contract.Description `json:"describe,omitempty"`
}

// Runs reports whether a boot would start the detector on this machine.
func (r Row) Runs() bool {
	isReady := r.Declared != "" && r.Installed && r.Locked
	return isReady && r.Matches && r.Missing.Empty()
}

// Survey returns all declared and installed detectors, sorted by name. It hashes programs and starts none.
func (h *Host) Survey(
	ctx context.Context, declared []stages.Detector, pci []tape.PCIDevice,
) []Row {
	names := h.Installed()
	for _, d := range declared {
		names = append(names, d.Name)
	}
	slices.Sort(names)

	var rows []Row
	for _, name := range slices.Compact(names) {
		var d stages.Detector
		hasName := func(d stages.Detector) bool { return d.Name == name }
		if i := slices.IndexFunc(declared, hasName); i >= 0 {
			d = declared[i]
		}
		rows = append(rows, h.surveyOne(ctx, name, d, pci))
	}

	return rows
}

// surveyOne describes one detector. The declaration is empty if the site does not declare it.
func (h *Host) surveyOne(
	ctx context.Context,
	name string,
	d stages.Detector,
	pci []tape.PCIDevice,
) Row {
	r := Row{
		Name:     name,
		Program:  h.Program(tape.LockEntry{Name: name}),
		Required: d.Required,
	}
	if d.Name != "" {
		r.Declared = fmt.Sprintf("%s:%d", d.Range.Filename, d.Range.Start.Line)
	}

	l, err := h.Lock(name)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, cmp.Or(d.Timeout, DefaultTimeout))
		defer cancel()
		r.Lock = l.File
		r.Program = h.Program(l.LockEntry)
		h.addDescription(ctx, &r, l.LockEntry, d.Allow, pci)
	}
	h.addProgram(&r, l, err)

	return r
}

// addDescription adds the locked description and whether the detector matches.
func (h *Host) addDescription(
	ctx context.Context,
	r *Row,
	l tape.LockEntry,
	allow tape.Grants,
	pci []tape.PCIDevice,
) {
	d, err := stages.Description(l)
	if err != nil {
		return
	}

	r.Description = &d
	r.Version = d.Version
	devices := stages.MatchingDevices(d.Match, pci)
	for _, p := range devices {
		r.Devices = append(r.Devices, p.Address)
	}
	skipped, err := h.skipReason(ctx, d.Match, devices)
	r.Matches = skipped == "" && err == nil
	if err != nil {
		r.Why = err.Error()
	}
	r.Missing = stages.Ungranted(d.Needs, allow)
	r.Unused = stages.Ungranted(d.Wants, allow)
}

// addProgram adds whether the program is installed and locked.
func (h *Host) addProgram(r *Row, l tape.LockAns, lockErr error) {
	if lockErr != nil && !errors.Is(lockErr, errNoLock) { // the lock may name another program
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
	case lockErr != nil:
		r.Why = "no lock"
	case hashProgram(f) != l.SHA256:
		r.Why = "not the locked program"
	default:
		r.Locked = true
	}
}
