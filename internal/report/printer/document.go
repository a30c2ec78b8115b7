package present

import (
	"bytes"
	"encoding/json"
	"io"
)

// EncodeJSON writes one document on one line.
func EncodeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// MapStrings returns JSON with change applied to each of its strings, keys included. What is no JSON stays as it is.
func MapStrings(text []byte, change func(string) string) []byte {
	var out bytes.Buffer
	for {
		begin := bytes.IndexByte(text, '"')
		if begin < 0 {
			break
		}
		end := begin + 1
		for end < len(text) && text[end] != '"' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end+1, len(text))
		out.Write(text[:begin])
		out.Write(mapString(text[begin:end], change))
		text = text[end:]
	}
	out.Write(text)
	return out.Bytes()
}

func mapString(text []byte, change func(string) string) []byte {
	var s string
	if json.Unmarshal(text, &s) != nil {
		return text
	}
	changed := change(s)
	if changed == s {
		return text
	}
	var b bytes.Buffer
	if EncodeJSON(&b, changed) != nil {
		return text
	}
	return bytes.TrimSpace(b.Bytes())
}
