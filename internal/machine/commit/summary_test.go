package commit

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/machine/activation"
)

// TestSummarizeRollback: the state before prelet is not called a good generation.
func TestSummarizeRollback(t *testing.T) {
	t.Parallel()
	for isBefore, want := range map[bool]string{
		false: "generation 3 has the contents of a good one: crash loop",
		true:  "generation 3 is as before prelet: crash loop",
	} {
		out := activation.Outcome{
			Judgement: activation.Judgement{Why: "crash loop"}, From: 2, Generation: 3, AsBefore: isBefore,
		}
		if got := Summarize(out, true); !strings.HasSuffix(got, want) {
			t.Errorf("as before prelet %t: got %q, want the end %q", isBefore, got, want)
		}
	}
}
