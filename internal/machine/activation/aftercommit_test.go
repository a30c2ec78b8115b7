package activation

import (
	"errors"
	"fmt"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/testing/sample"
)

// TestErrorsAfterCommit fails each read of the store after the commit in turn. No error may promise that nothing was
// changed, and the outcome has the committed generation. A sample of the combinations is tried.
func TestErrorsAfterCommit(t *testing.T) {
	chosen := sample.New(t)

	type world struct {
		config string
		boot   bool
	}

	for _, method := range []string{"Relock", "Journal", "Current", "Blob"} {
		for _, code := range []fault.Code{fault.CannotWrite, fault.Locked, ""} {
			for _, w := range []world{{"two", false}, {"two healthz=bad", false}, {"two", true}} {
				if !chosen.Has(4, method, code, w) {
					continue
				}
				if failed := failEachRead(t, method, code, w.config, w.boot); failed == 0 &&
					!(w.boot && method == "Relock") {
					t.Errorf("%s, %+v: no call after the commit; want at least one call", method, w)
				}
			}
		}
	}
}

// failEachRead fails the first, the second, … call of a method after the commit, and returns how many there are.
func failEachRead(t *testing.T, method string, code fault.Code, config string, boot bool) (failed int) {
	for k := 1; ; k++ {
		where := fmt.Sprintf("call %d of %s with code %q, %q, boot %t", k, method, code, config, boot)
		n := newNode(t)
		n.bootWith("one")

		if boot {
			n.reboot()
		}

		calls, committed := 0, false
		n.onCommit = func() { committed = true }
		n.storeFails = func(called string) error {
			if called == method && committed {
				if calls++; calls == k {
					return storeError(code)
				}
			}

			return nil
		}

		out, err := n.runSite(t.Context(), config)
		if calls < k {
			return failed
		}

		failed++

		if fault.CodeOf(err) != fault.Interrupted {
			continue // read to find out more, and not needed; runSite checks the code
		}

		if out.Generation < 2 {
			t.Errorf("%s: the outcome has generation %d; want 2 or the one after the rollback", where, out.Generation)
		}
	}
}

func storeError(code fault.Code) error {
	if code == "" {
		return errors.New("input/output error")
	}

	return generation.NewFault(code, "read", "/var/lib/prelet", errors.New("input/output error"), "")
}
