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

// asDetector is the argument with which a test's program is the detector.
const asDetector = "detectortest-is-the-detector"

// Main is a package's TestMain, where Conform is used: the test's own program becomes the detector, so that nothing needs
// to be built. It does not return.
//
//	func TestMain(m *testing.M) { detectortest.Main(m, detector{}) }
func Main(m *testing.M, d sdk.Detector) {
	conformance.Shim()
	if len(os.Args) == 2 && os.Args[1] == asDetector {
		if os.Getenv(protocol.CookieKey) == "" {
			os.Args = os.Args[:1] // by hand, without a command
		}
		sdk.Serve(d)
	}
	os.Exit(m.Run())
}

// Conform runs all checks of package conformance on the detector that Main was given, as `prelet detectors check` does on
// its program. Roots are machines with devices, of Root or Roots. The watch over files and
// sockets is where the kernel has it.
func Conform(t *testing.T, config map[string]any, roots ...sdk.Root) conformance.Report {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := conformance.Options{Config: config, Args: []string{asDetector}}
	if raceDetector {
		o.Memory = 1 << 46 // its shadow memory is many times what a detector gets; the other run has the limit
	}
	for _, r := range roots {
		o.Roots = append(o.Roots, r.Dir())
	}
	r, err := conformance.Run(ctx, program, o)
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() {
		var b strings.Builder
		r.Print(&b)
		t.Error(b.String())
	}
	return r
}
