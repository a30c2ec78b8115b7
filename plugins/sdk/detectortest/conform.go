package detectortest

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/plugins/conformance"
	"github.com/prelet/prelet/plugins/protocol"
	"github.com/prelet/prelet/plugins/sdk"
)

// asDetector is the argument with which a test's program becomes the detector.
const asDetector = "detectortest-is-the-detector"

// Conform runs all checks of package conformance on a detector, as `prelet detectors check` does on its program. Roots
// are machines with devices, from Root or Roots. The test's own program becomes the detector: it starts itself with
// this test alone, which must call Conform before anything else that it would not do twice.
func Conform(t *testing.T, d sdk.Detector, config map[string]any, roots ...sdk.Root) conformance.Findings {
	t.Helper()
	becomeDetector(d)
	program, err := os.Executable()
	if err != nil {
		t.Fatalf("finding the test's program: %v", err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	name, _, _ := strings.Cut(t.Name(), "/")
	this := "-test.run=^" + name + "$"
	o := conformance.RunOptions{
		Config:   config,
		Args:     []string{this, asDetector},
		ShimArgs: []string{this},
		Patience: 10,
	}
	if raceDetector {
		o.Memory = 1 << 46 // the race detector needs much memory; tests without it have the limit
	}
	for _, r := range roots {
		o.Roots = append(o.Roots, r.Dir())
	}

	r, err := conformance.Run(ctx, program, o)
	if err != nil {
		t.Fatalf("conformance.Run: got %v, want no error", err)
	}
	if !r.OK() {
		var b strings.Builder
		r.Print(&b)
		t.Errorf("got failed checks, want none:\n%s", b.String())
	}

	return r
}

// becomeDetector serves the detector, and does not return, if Conform has started this process.
func becomeDetector(d sdk.Detector) {
	conformance.Shim()
	if !slices.Contains(os.Args, asDetector) {
		return
	}
	if os.Getenv(protocol.CookieKey) == "" {
		os.Args = os.Args[:1] // as a person starts it, without a command
	}
	sdk.Serve(d)
}
