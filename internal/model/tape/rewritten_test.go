package tape

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
)

// TestDecodeRewritten holds that a recording means the same when another program has written its JSON: indented, with
// sorted keys, with or without escaped characters.
func TestDecodeRewritten(t *testing.T) {
	secret := Target.Question(TargetReq{Path: "/etc/s", Secret: true, Want: "a: \ue000cred:x\ue001 <b> \U0001f600\n"})
	same := Recording{Entries: []Entry{{secret, Target.Answer(TargetAns{Exists: true, Same: true})}}}
	texts := map[string][]byte{"a secret": []byte(encode(t, &same))}
	must(t, filepath.WalkDir("../../../testdata", func(name string, e fs.DirEntry, err error) error {
		if isRecording := strings.Contains(e.Name(), ".prelet"); !isRecording || err != nil {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		r, err := Decode(f)
		if err != nil {
			return err
		}
		texts[name] = []byte(encode(t, r))

		return nil
	}))
	if len(texts) < 30 {
		t.Fatalf("got %d recordings, want those of testdata", len(texts))
	}

	for name, text := range texts {
		want := decodeValues(t, text)
		for form, rewrite := range map[string]func(*testing.T, []byte) []byte{
			"indented":        indent,
			"escaped":         func(_ *testing.T, text []byte) []byte { return escape(text) },
			"sorted":          sortKeys,
			"sorted, escaped": func(t *testing.T, text []byte) []byte { return escape(sortKeys(t, text)) },
		} {
			if d := cmp.Diff(want, decodeValues(t, rewrite(t, text))); d != "" {
				t.Errorf("%s, %s: the entries differ (-want +got)\n%s", name, form, d)
			}
		}
	}
}

// decodeValues returns the answers of a recording by question.
func decodeValues(t *testing.T, text []byte) map[Question]any {
	t.Helper()
	r, err := Decode(bytes.NewReader(text))
	must(t, err)
	out := map[Question]any{}
	for _, e := range r.Entries {
		var v any
		if e.Answer.Fault == nil {
			must(t, json.Unmarshal(e.Answer.Value, &v))
		}
		out[e.Question] = []any{v, e.Answer.Fault, e.Answer.Stale, e.Answer.Because, e.Answer.Withheld}
	}

	return out
}

func indent(t *testing.T, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	must(t, json.Indent(&out, text, "\t", "    "))

	return out.Bytes()
}

func sortKeys(t *testing.T, text []byte) []byte {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	must(t, d.Decode(&v))
	out, err := json.Marshal(v)
	must(t, err)

	return out
}

// escape writes each character that is not ASCII as \uXXXX, and no other.
func escape(text []byte) []byte {
	var out bytes.Buffer
	plain := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(text))
	for _, r := range plain {
		if r < 0x80 {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			const digits = "0123456789abcdef"
			out.WriteString(`\u`)
			for shift := 12; shift >= 0; shift -= 4 {
				out.WriteByte(digits[unit>>shift&0xf])
			}
		}
	}

	return out.Bytes()
}
