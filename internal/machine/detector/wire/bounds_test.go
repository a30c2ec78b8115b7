package wire

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/prelet/prelet/plugins/contract"
)

// full is an answer that has as much as the contract allows, in each of its lists.
func full() Reply {
	text := func(n int) string { return strings.Repeat("x", n) }
	entries := map[string]string{}
	for n := range contract.MaxEntries {
		entries["k"+text(n)[:n%8]+string(rune('a'+n%26))+string(rune('a'+n/26))] = `"quoted", {braces} [and brackets] \`
	}
	var values []any
	for range contract.MaxValues {
		values = append(values, 1.5)
	}
	var deep any = "x"
	for range contract.MaxDepth {
		deep = []any{deep}
	}
	a := &contract.Answer{
		Attributes: entries,
		Facts:      []contract.Fact{{Name: "a", Value: values}, {Name: "b", Value: deep}},
	}
	for range contract.MaxDevices {
		a.Devices = append(a.Devices, contract.Device{Attributes: map[string]string{"a": "b", "c": "d"}})
	}
	for range contract.MaxLabels {
		a.Labels = append(a.Labels, contract.Label{Key: "k", Value: "v"})
	}
	return Reply{Answer: a}
}

func TestBounded(t *testing.T) {
	b, err := json.Marshal(full())
	if err != nil {
		t.Fatal(err)
	}
	if err := ReplyBounds.Check(b); err != nil {
		t.Errorf("largest valid reply: got %v, want no error", err)
	}
	many := func(element string) string {
		return strings.Repeat(element+",", (MaxReply-64)/(len(element)+1)) + element
	}
	groups := func(element string) string {
		return many("[" + strings.Repeat(element+",", contract.MaxValues/2) + element + "]")
	}
	for name, c := range map[string]struct{ reply, says string }{
		"devices":       {`{"answer":{"devices":[` + many("{}") + `]}}`, "more than 4096 members"},
		"labels":        {`{"answer":{"labels":[` + many("{}") + `]}}`, "more than 4096 members"},
		"attributes":    {`{"answer":{"attributes":{` + many(`"":""`) + `}}}`, "more than 4096 members"},
		"a fact":        {`{"answer":{"facts":[{"value":[` + many("0") + `]}]}}`, "more than 4096 members"},
		"facts inside":  {`{"answer":{"facts":[{"value":[` + groups("[]") + `]}]}}`, "elements"},
		"described":     {`{"describe":{"facts":[` + many("{}") + `]}}`, "more than 4096 members"},
		"findings":      {`{"findings":[` + many(`""`) + `]}`, "more than 4096 members"},
		"deep":          {`{"answer":{"facts":[{"value":` + strings.Repeat("[", 1<<20), "nested more than"},
		"a quoted list": {`{"text":"` + strings.Repeat(`[{\",`, 100000) + `"}`, ""},
		"closed early":  {"]]]]}}}}{}", ""},
		"cut off":       {`{"text":"\`, ""},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := ReplyBounds.Check([]byte(c.reply))
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 3*MaxReply { // the text itself, once more as bytes
			t.Errorf("%s: got %d allocated bytes, want none", name, got)
		}
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
