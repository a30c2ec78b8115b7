package bundle

import (
	"bytes"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/table"
)

// TestEditedRecording: a mistake in the facts of a recording is refused at its line and column; a fact that resembles no
// known one may be of a newer prelet.
func TestEditedRecording(t *testing.T) {
	r := tape.Recording{Entries: []tape.Entry{{
		Question: tape.Hardware.Question(tape.HardwareReq{}),
		Answer:   tape.Hardware.Answer(tape.Facts{NICs: []tape.NIC{{}}}),
	}}}
	var b bytes.Buffer
	must(t, r.Encode(&b))

	for _, c := range table.YAML[[]struct{ Old, New, Want string }](t, `
- {}
- {old: '"speed_gbps"', new: '"wattage_of_the_card"'}
- {old: '"speed_gbps"', new: '"speed_gpbs"', want: 'unknown name "speed_gpbs" in nics[0]. Did you mean "speed_gbps"?'}
- old: '"speed_gbps": null'
  new: '"speed_gbps": "fast"'
  want: nics[0].speed_gbps is a text. Write a number, without quotes
- {old: '"format": 1,', new: '"format": 1', want: this is not JSON}
- {old: '"kind": "facts"', new: '"kind": "facts", "kind": "facts"', want: '"kind" is given twice in answers[0]'}
- {old: '"answers"', new: '"answer"', want: 'unknown name "answer" in the document. Did you mean "answers"?'}
`) {
		text := strings.Replace(b.String(), c.Old, c.New, 1)
		_, err := decodeEdited([]byte(text))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if (got == "") != (c.Want == "") || !strings.Contains(got, c.Want) {
			t.Errorf("%s for %s: got error %q, want %q", c.New, c.Old, got, c.Want)
		}
		if got != "" && !strings.Contains(got, "line ") {
			t.Errorf("%s for %s: got error %q, want one with a line", c.New, c.Old, got)
		}
	}
}
