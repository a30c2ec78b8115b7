package detector

import (
	"strings"
	"testing"
)

// TestSummarizeOutput: a crash is summarized by its reason, whatever follows.
func TestSummarizeOutput(t *testing.T) {
	const stack = "\n\ngoroutine 1 gp=0xc0 m=0 [syscall]:\nruntime.cgocall(0x1)\n\t/x.go:7\n\nrax    0x0\nrflags 0x246\ncs     0x33\n"
	long := strings.Repeat("0x0123456789abcdef ", 100)

	for output, want := range map[string]string{
		"loading\nno library":                                 "loading | no library",
		"panic: no table" + stack:                             "panic: no table",
		"fatal error: no memory\n\nruntime stack:\nx" + stack: "fatal error: no memory",
		"SIGSEGV: segmentation violation\nPC=0x0 m=0\nsignal arrived during cgo execution" + stack: "SIGSEGV: segmentation violation | PC=0x0 m=0 | " +
			"signal arrived during cgo execution",
		"no device, registers " + long:     "no device, registers 0x01",
		"panic: bad table " + long + stack: "panic: bad table 0x01",
	} {
		if got := summarizeOutput(output); !strings.HasPrefix(got, want) || len(got) > 610 || strings.Contains(got, "goroutine") {
			t.Errorf("summary of %.80q: got %q, want %q", output, got, want)
		}
	}
}
