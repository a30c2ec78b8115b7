package detectortest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prelet/prelet/plugins/sdk"
)

// counter is a detector that reports how often it was asked.
func counter() sdk.Detector {
	calls := sdk.Fact[int]{Name: "calls"}
	others := sdk.Fact[[]int]{Name: "others"}
	count := 0

	return sdk.Detector{
		Name:    "counter",
		Version: "1",
		Facts:   []sdk.Declaration{calls, others},
		Match:   sdk.Match{Always: true},
		Detect: func(m *sdk.Machine) error {
			count++
			m.AddFacts(calls.Is(count, "its memory"), others.Is(make([]int, 100), "its memory"))
			return nil
		},
	}
}

// failing is a test that ends with a message.
type failing struct{ testing.TB }

func (failing) Helper() {}

func (failing) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// TestTwoAnswers checks the message about a detector that changes its answer: what differs, not two whole answers, and
// why no answer was written.
func TestTwoAnswers(t *testing.T) {
	defer func() {
		got := fmt.Sprint(recover())
		for _, want := range []string{"two different answers", "No answer is written", `"value": 1`, `"value": 2`} {
			if !strings.Contains(got, want) {
				t.Errorf("got the message\n%s\nwant %q in it", got, want)
			}
		}
		if lines := strings.Count(got, "\n"); lines > 30 {
			t.Errorf("got %d lines, want only those around the difference", lines)
		}
	}()
	Detect(failing{t}, counter(), Root(t, ""), nil)
}
