package bundle

import (
	"bytes"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/tape"
)

// TestEditedRecording: a mistake in the facts of a recording is refused at its line and column; a fact that resembles no
// known one may be of a newer prelet.
func TestEditedRecording(t *testing.T) {
	r := tape.Recording{Entries: []tape.Entry{{
		Question: tape.Hardware.Question(tape.HardwareReq{}),
		Answer:   tape.Hardware.Answer(tape.Facts{NICs: []tape.NIC{{}}}),
	}}}
	var b bytes.Buffer
	if err := r.Encode(&b); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct{ old, new, want string }{
		{"", "", ""},
		{`"speed_gbps"`, `"wattage_of_the_card"`, ""},
		{`"speed_gbps"`, `"speed_gpbs"`, `unknown name "speed_gpbs" in nics[0]. Did you mean "speed_gbps"?`},
		{`"speed_gbps": null`, `"speed_gbps": "fast"`, "nics[0].speed_gbps is a text. Write a number, without quotes"},
		{`"format": 1,`, `"format": 1`, "this is not JSON"},
		{`"kind": "facts"`, `"kind": "facts", "kind": "facts"`, `"kind" is given twice in answers[0]`},
		{`"answers"`, `"answer"`, `unknown name "answer" in the document. Did you mean "answers"?`},
	} {
		text := strings.Replace(b.String(), c.old, c.new, 1)
		_, err := decodeEdited([]byte(text))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s for %s: got error %q, want %q", c.new, c.old, got, c.want)
		}
		if got != "" && !strings.Contains(got, "line ") {
			t.Errorf("%s for %s: got error %q, want one with a line", c.new, c.old, got)
		}
	}
}
