package commit

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/origin"
)

// Each error of writing, recovering and activating has its own code, and its message contains the object, the reason
// and the next step.
func TestExplain(t *testing.T) {
	stuck := generation.NewFault(fault.NeedsPerson, "read", "/etc/a", errors.New("it is neither of both"), "prelet run")
	for _, c := range []struct {
		err  error
		code fault.Code
		say  []string
	}{
		{
			fmt.Errorf("recovering: %w", stuck), fault.NeedsPerson,
			[]string{
				"Cannot go on with /etc/a", "Why: recovering: read: it is neither of both.",
				"The gate stays shut where the files may be those of two generations.",
				"Next: prelet run.",
			},
		},
		{generation.NewFault(fault.CannotWrite, "fsync", "/etc/a", unix.EIO, "look at dmesg"), fault.CannotWrite,
			[]string{"Cannot write /etc/a", "Why: fsync: input/output error.", "Nothing was changed.", "Next: look at dmesg."}},
		{
			generation.NewFault(fault.NoAnswer, "open", "/state", errors.New("no answer"), "unmount it"), fault.NoAnswer,
			[]string{"Cannot read /state", "Why: open: no answer.", "Nothing was changed.", "Next: unmount it."},
		},
		{
			generation.NewFault(fault.Interrupted, "rename", "/etc/a", unix.EIO, ""), fault.Interrupted,
			[]string{"/etc/a", "The journal is kept"},
		},
		{&fault.Fault{Code: fault.Systemd, Summary: "kubelet.service is masked", Next: "systemctl unmask " +
			"kubelet.service"}, fault.Systemd,
			[]string{"kubelet.service is masked", "Next: systemctl unmask kubelet.service."}},
		{
			generation.NewFault(fault.Locked, "lock", "/state", fmt.Errorf("%w: waited 10ms", generation.ErrLocked), ""),
			fault.Locked, []string{"/state: waited 10ms.", "Next: ", "fuser -v /state"},
		},
		{
			&fault.Fault{
				Code: fault.Interrupted, Summary: "rolling back", Err: errors.New("stopped"), Next: "the next run",
			},
			fault.Interrupted, []string{"rolling back", "Why: stopped."},
		},
	} {
		ds := Explain(c.err)
		if len(ds) != 1 || origin.CodeOf(ds[0]) != c.code {
			t.Errorf("%v: got %v; want one diagnostic with code %s", c.err, ds, c.code)
			continue
		}

		text := ds[0].Summary + "\n" + ds[0].Detail
		for _, want := range c.say {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}

	if ds := Explain(errors.New("something else")); ds != nil {
		t.Errorf("error without a code: got %v; want nil", ds)
	}

	ds := Explain(errors.Join(stuck, fmt.Errorf("and: %w", &fault.Fault{Code: fault.Systemd, Summary: "no bus"})))
	if len(ds) != 2 {
		t.Errorf("of two errors %d are reported", len(ds))
	}
}
