package printer

import (
	"bytes"
	"encoding/json"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/texts"
)

// EncodeJSON writes one document on one line.
func EncodeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// WriteDocument writes a value as JSON whose strings are redacted. Raw text is not searched, not even that of a screen:
// a secret such as "true" or "2026" would be found outside of strings. A key is redacted only for a secret that may not
// be an ordinary word, because most keys are names of the format.
func WriteDocument(w io.Writer, v any, r *secret.Redactor) error {
	var text bytes.Buffer
	if err := EncodeJSON(&text, v); err != nil {
		return err
	}
	redactKey := func(key string) string {
		if r.Holds(key) {
			return r.String(key)
		}
		return key
	}
	redacted := mapStrings(text.Bytes(), redactKey, r.String)

	return writeExact(w, texts.Escape(string(redacted)))
}

// WriteYAML writes a value as a document of YAML, with the fields, and redacted, as WriteDocument does.
func WriteYAML(w io.Writer, v any, r *secret.Redactor) error {
	var text bytes.Buffer
	if err := WriteDocument(&text, v, r); err != nil {
		return err
	}
	document, err := yaml.JSONToYAML(text.Bytes())
	if err != nil {
		return err
	}

	// JSON has a text in one line, with escapes; YAML has its lines and characters.
	shown := new(lineHead).disarm(texts.Escape(string(document)), `\u%04x`)

	return writeExact(w, "---\n"+shown)
}

// mapStrings returns JSON with changed strings. Text that is not JSON is returned unchanged.
func mapStrings(text []byte, changeKey, changeValue func(string) string) []byte {
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
		change := changeValue
		if bytes.HasPrefix(bytes.TrimLeft(text[end:], " \t\r\n"), []byte(":")) {
			change = changeKey
		}
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
