package detectortest

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/plugins/conformance"
	"github.com/prelet/prelet/plugins/protocol"
	"github.com/prelet/prelet/plugins/sdk"
)

// asDetector is the argument with which a test's program becomes the detector.
const asDetector = "detectortest-is-the-detector"

// Main is the TestMain of a package that uses Conform: the test's own program becomes the detector, so that no other
// program must be built. It does not return.
//
//	func TestMain(m *testing.M) { detectortest.Main(m, detector{}) }
func Main(m *testing.M, d sdk.Detector) {
	conformance.Shim()
	if len(os.Args) == 2 && os.Args[1] == asDetector {
		if os.Getenv(protocol.CookieKey) == "" {
			os.Args = os.Args[:1] // as a person starts it, without a command
		}
		sdk.Serve(d)
	}
	os.Exit(m.Run())
}

// Conform runs all checks of package conformance on the detector of Main, as `prelet detectors check` does on its
// program. Roots are machines with devices, from Root or Roots.
func Conform(t *testing.T, config map[string]any, roots ...sdk.Root) conformance.Report {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatalf("finding the test's program: %v", err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	o := conformance.Options{Config: config, Args: []string{asDetector}}
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
