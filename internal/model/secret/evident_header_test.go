package secret

import (
	"slices"
	"strings"
	"testing"
)

// TestFindHeaders finds the headers in documents inside of a text, which are between « and », and nothing else.
func TestFindHeaders(t *testing.T) {
	for _, marked := range []string{
		"staticPodURLHeader:\n  X-A: [\"«canary»\", '«canary 2»', «canary3»]\n  X-B:\n  - «canary»\n  - \"«ca»\"\ntags: [a]\n",
		"  x = <<-E\n    staticPodURLHeader: {X-A: [«canary»]}\n    tags: [a]\n    E\n",
		`{"staticPodURLHeader": {"X-A": ["«canary»", "«b»"], "X-B": ["«c»"]}, "tags": ["a", "b"]}`,
		"{\n  \"staticPodURLHeader\": {\n    \"X-A\": [\n      \"«canary»\"\n    ]\n  },\n  \"tags\": [\"a\"]\n}\n",
		`content = "{\"staticPodURLHeader\": {\"X-A\": [\"«canary»\"]}}"`,
		`content = "staticPodURLHeader:\n  X-A: [\"«canary»\"]\n"`,
		"staticPodURLHeader:\r\n  X-A:\r\n  - «canary»\r\ntags: [a]\r\n",
		"staticPodURLHeader:\n  X-A: [\"Bearer ${credential(\"x\")}\", ${var.b}, \"${local.c}\"]\n",
		"{\"staticPodURLHeader\": {\"X-A\": [${jsonencode(var.x)}]}}",
		`staticPodURLHeader = { X-A = [var.x] }`,
		"# staticPodURLHeader: see the manual\ntags: [a]\n",
		"the field staticPodURLHeader is secret: [a]",
	} {
		text := strings.NewReplacer("«", "", "»", "").Replace(marked)
		got := text
		for _, at := range slices.Backward(findHeaders(text)) {
			got = got[:at[0]] + "«" + got[at[0]:at[1]] + "»" + got[at[1]:]
		}
		if got != marked {
			t.Errorf("got %q\nwant %q", got, marked)
		}
	}
}
