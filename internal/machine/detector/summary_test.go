package detector

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/plugins/contract"
)

// TestSummarizeOutput: a crash is summarized by its reason, whatever follows.
func TestSummarizeOutput(t *testing.T) {
	const stack = "\n\ngoroutine 1 gp=0xc0 m=0 [syscall]:\nruntime.cgocall(0x1)\n\t/x.go:7\n\nrax    0x0\nrflags 0x246\ncs     0x33\n"
	long := strings.Repeat("0x0123456789abcdef ", 100)

	for output, want := range table.YAML[map[string]string](t, `
"loading\nno library": loading | no library
'panic: no table{stack}': 'panic: no table'
"fatal error: no memory\n\nruntime stack:\nx{stack}": 'fatal error: no memory'
"SIGSEGV: segmentation violation\nPC=0x0 m=0\nsignal arrived during cgo execution{stack}":
  'SIGSEGV: segmentation violation | PC=0x0 m=0 | signal arrived during cgo execution'
no device, registers {long}: no device, registers 0x01
'panic: bad table {long}{stack}': 'panic: bad table 0x01'
`, "stack", stack, "long", long) {
		if got := summarizeOutput(output); !strings.HasPrefix(got, want) || len(got) > 610 || strings.Contains(got, "goroutine") {
			t.Errorf("summary of %.80q: got %q, want %q", output, got, want)
		}
	}
}

// TestCutSecrets lets a detector print a secret over and over, so that each cut of its output is in the middle of one:
// no part of it is left.
func TestCutSecrets(t *testing.T) {
	const canary = "canary.0canary1secret23"
	redactor := secret.NewRedactor()
	redactor.Add([]byte(canary))
	for before := range len(canary) {
		begin, end := strings.Repeat("x", before), strings.Repeat("x", len(canary)-before)
		for name, output := range map[string]string{
			"one line":        begin + strings.Repeat(canary, 2*contract.MaxStderr/len(canary)) + end,
			"lines":           begin + strings.Repeat(canary+canary+"\n", contract.MaxStderr/len(canary)) + end,
			"after blanks":    begin + strings.Repeat(" ", contract.MaxStderr/2-len(canary)) + canary + "\n",
			"before an error": begin + strings.Repeat(canary, 2*contract.MaxStderr/len(canary)) + end + "\nfailed\n",
		} {
			var c capture
			_, _ = c.Write([]byte(output))
			got := redactor.String(summarizeOutput(c.text()))
			for at := range len(canary) - 5 {
				if part := canary[at : at+6]; strings.Contains(got, part) {
					t.Errorf("%s after %d bytes: got %q in %.80q, want no part of the secret", name, before, part, got)
					break
				}
			}
		}
	}
}
