package world

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// onceByTokens is once as one would write it with the decoder's tokens.
func onceByTokens(text []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var read func() bool
	read = func() bool {
		tok, err := dec.Token()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		good := true
		switch tok {
		case json.Delim('{'):
			seen := map[string]bool{}
			for dec.More() {
				key, err := dec.Token()
				if err != nil {
					return false
				}
				name := fmt.Sprint(key)
				good = good && !seen[name]
				seen[name] = true
				good = read() && good
			}
			_, _ = dec.Token()
		case json.Delim('['):
			for dec.More() {
				good = read() && good
			}
			_, _ = dec.Token()
		}
		return good
	}
	return read()
}

func FuzzOnce(f *testing.F) {
	many := func(last string) string {
		var b strings.Builder
		for i := range 40 {
			fmt.Fprintf(&b, "%q:%d,", fmt.Sprint("k", i), i)
		}
		return "{" + b.String() + `"` + last + `":0}`
	}
	for _, s := range []string{
		`{}`, `[]`, `1`, `"a"`, `{"a":1,"a":2}`, `{"a":1,"b":{"a":1}}`, `{"a":{"b":1,"b":1}}`, `[{"a":1},{"a":1}]`, `{"a":["a","a"],"b":"a"}`,
		`{"a":1,"\u0061":2}`, `{"a\"":1,"a":2}`, `{"\\":1,"\\\\":2}`, `{"a":"}","b":"\\","c":"{\"a\":1,\"a\":1}"}`, `{ "a" : [ ] , "a" : { } }`,
		"{\"\xff\":1,\"\xfe\":2}", `{"":1,"":2}`, `{"é":1,"\u00e9":1}`, many("k41"), many("k3"), many("k39"), many("\\u006b3"),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			return
		}
		if got, want := once(text) == nil, onceByTokens(text); got != want {
			t.Errorf("%q: no key stands twice is %t, by tokens %t", text, got, want)
		}
	})
}
