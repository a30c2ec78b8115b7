package explain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/lab/explain"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// TestChainsEnd asks of every item of every example: its chain ends in a byte range of the site whose text is there,
// and in a named answer of the tape, or in a literal or a default.
func TestChainsEnd(t *testing.T) {
	for _, e := range examples() {
		t.Run(e.name(), func(t *testing.T) {
			p := e.plan(t)
			asked := map[string]bool{}
			for _, a := range p.Tape.Entries() {
				asked[string(a.Kind)+" "+a.Args] = true
			}
			if len(explain.Items(p)) < 5 {
				t.Fatalf("want at least 5 items in the plan; got the messages %v", p.Diagnostics)
			}
			for _, i := range explain.Items(p) {
				x, known := explain.Explain(p, i)
				if !known {
					t.Errorf("%s: got an unknown item, want every listed one known", i)
					continue
				}
				ranged, ended := false, false
				for _, s := range x.Chain {
					if s.Range.Filename != "" {
						src := p.Site.Sources[s.Range.Filename]
						if s.Range.Start.Byte >= s.Range.End.Byte || s.Range.End.Byte > len(src) {
							t.Errorf("%s: step %q got the range %v, want one of its file", i, s.Text, s.Range)
						}
						ranged = true
					}
					if s.Answer != nil {
						ended = true
						if s.Answer.Kind != tape.KindTarget &&
							!asked[string(s.Answer.Kind)+" "+string(s.Answer.Args)] {
							t.Errorf("%s: step %q got the request %s %s, want one of the tape",
								i, s.Text, s.Answer.Kind, s.Answer.Args)
						}
						if s.Answer.Pointer != "" && s.Answer.Fail == "" && s.Value != "(not there)" {
							if _, ok := pointed(answer(t, p, s.Answer), s.Answer.Pointer); !ok {
								t.Errorf("%s: step %q got the pointer %s of %s, want a value there",
									i, s.Text, s.Answer.Pointer, s.Answer.Kind)
							}
						}
					}
					ended = ended || s.Text == "written here" || s.Kind == origin.Variable ||
						s.Value == "" && s.Range.Filename != ""
				}
				if !ranged || !ended {
					t.Errorf("%s: got a range: %t, an answer or a literal: %t; want both\n%s",
						i, ranged, ended, text(t, x))
				}
			}
		})
	}
}

// TestAlteredAnswers alters the answers that a chain names, one by one, and evaluates the site over the recording
// that is so changed: an item that rests on facts or variables must change with at least one of them, or with all of
// them together (two network cards, of which one would do).
func TestAlteredAnswers(t *testing.T) {
	altered := map[string]int{}
	for _, e := range examples() {
		t.Run(e.name(), func(t *testing.T) {
			p := e.plan(t)
			for _, i := range explain.Items(p) {
				if i.Kind == explain.File {
					continue
				}
				x, _ := explain.Explain(p, i)
				before, _ := json.Marshal(x.Whole)
				tried, moved := 0, false
				try := func(entries []tape.Entry) {
					tried++
					y, _ := explain.Explain(replay(p, entries), i)
					after, _ := json.Marshal(y.Whole)
					moved = moved || !bytes.Equal(before, after)
				}
				all := map[int][]tape.Entry{}
				for _, s := range x.Chain {
					if s.Answer == nil || s.Answer.Fail != "" || s.Answer.Pointer == "" ||
						s.Answer.Kind != tape.KindHardware && s.Answer.Kind != tape.KindVariable {
						continue
					}
					for n, change := range []func(any) any{more, other, nothing, nvidia} {
						if one, ok := alter(t, p.Tape.Entries(), s.Answer, change); ok && !moved {
							try(one)
						}
						so := all[n]
						if so == nil {
							so = p.Tape.Entries()
						}
						if more, ok := alter(t, so, s.Answer, change); ok {
							all[n] = more
						}
					}
				}
				for _, entries := range all {
					if !moved {
						try(entries)
					}
				}
				if tried > 0 && !moved {
					t.Errorf("%s: want a change by one of the answers in its chain, got none\n%s", i, text(t, x))
				}
				if moved {
					altered[i.Kind]++
				}
			}
		})
	}
	for _, kind := range []string{explain.Label, explain.Taint, explain.Flag, explain.Config} {
		if altered[kind] == 0 {
			t.Errorf("got no %s that changed, want at least one", kind)
		}
	}
	t.Logf("altered: %v", altered)
}

// TestFileAnswersAlter does the same with a file of the node: the label's text in it is changed.
func TestFileAnswersAlter(t *testing.T) {
	at := slices.IndexFunc(examples(), func(e example) bool { return e.site == "legacy-vm" })
	p := examples()[at].plan(t)
	x := explained(t, p, "label/node.netease.com/pool")
	n := slices.IndexFunc(
		x.Chain,
		func(s explain.Link) bool { return s.Answer != nil && s.Answer.Kind == tape.KindFile },
	)
	if n < 0 {
		t.Fatalf("got\n%s\nwant a file in the chain", text(t, x))
	}
	entries, ok := alter(t, p.Tape.Entries(), x.Chain[n].Answer, func(v any) any {
		return strings.ReplaceAll(v.(string), "pool=online", "pool=batch")
	})
	if !ok {
		t.Fatalf("got the answer %v, want one of the recording", x.Chain[n].Answer)
	}
	y := explained(t, replay(p, entries), "label/node.netease.com/pool")
	if y.Whole != "batch" {
		t.Errorf("with another file: got the label %v, want batch", y.Whole)
	}
}

// more changes a value a little: each digit by one, a number by more than any rounding, all elements of a list taken
// away.
func more(v any) any {
	switch v := v.(type) {
	case string:
		return strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return '0' + (r-'0'+1)%10
			}
			return r
		}, v)
	case json.Number:
		f, _ := v.Float64()
		return json.Number(strconv.FormatFloat(f*2+1, 'f', -1, 64))
	case []any:
		return []any{}
	}
	return v
}

// other gives a text that is another one, and a list of half as many.
func other(v any) any {
	switch v := v.(type) {
	case string:
		return v + "q"
	case json.Number:
		return json.Number("1")
	case []any:
		return v[:len(v)/2]
	}
	return v
}

// nvidia makes every device of a list one of that vendor.
func nvidia(v any) any {
	l, ok := v.([]any)
	if !ok {
		return v
	}
	var out []any
	for _, e := range l {
		if m, ok := e.(map[string]any); ok {
			m = maps.Clone(m)
			m["vendor"] = "nvidia"
			e = m
		}
		out = append(out, e)
	}
	return out
}

// nothing makes a fact unknown.
func nothing(v any) any {
	if _, ok := v.([]any); ok {
		return v
	}
	return nil
}

func answer(t *testing.T, p *evaluate.Plan, a *explain.TapePlace) any {
	t.Helper()
	for _, e := range p.Tape.Entries() {
		if e.Kind == a.Kind && (e.Args == string(a.Args)) {
			return decoded(t, e.Answer.Value)
		}
	}
	return nil
}

func decoded(t *testing.T, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	must(t, d.Decode(&v))
	return v
}

// pointed is what a JSON pointer leads to.
func pointed(v any, pointer string) (any, bool) {
	for _, k := range tape.SplitPointer(pointer) {
		switch x := v.(type) {
		case map[string]any:
			next, ok := x[k]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			n, err := strconv.Atoi(k)
			if err != nil || n >= len(x) {
				return nil, false
			}
			v = x[n]
		default:
			return nil, false
		}
	}
	return v, true
}

// alter returns entries with one place of one answer changed; ok is false where the change changes nothing.
func alter(t *testing.T, entries []tape.Entry, a *explain.TapePlace, change func(any) any) ([]tape.Entry, bool) {
	t.Helper()
	entries = slices.Clone(entries)
	for n, e := range entries {
		if e.Kind != a.Kind || e.Args != string(a.Args) {
			continue
		}
		doc := decoded(t, e.Answer.Value)
		path := tape.SplitPointer(a.Pointer)
		last := path[len(path)-1]
		parent, ok := pointed(doc, tape.Pointer(path[:len(path)-1]...))
		old, found := pointed(doc, a.Pointer)
		if !ok || !found {
			return nil, false
		}
		now := change(old)
		if fmt.Sprint(now) == fmt.Sprint(old) {
			return nil, false
		}
		switch m := parent.(type) {
		case map[string]any:
			m[last] = now
		case []any:
			i, _ := strconv.Atoi(last)
			m[i] = now
		}
		b, err := json.Marshal(doc)
		must(t, err)
		entries[n].Answer.Value = b
		return entries, true
	}
	return nil, false
}

// TestNoSecret explains everything of a site with secrets, as text and as JSON.
func TestNoSecret(t *testing.T) {
	for _, e := range examples() {
		p := e.plan(t)
		sensitive := false
		for _, i := range explain.Items(p) {
			x, _ := explain.Explain(p, i)
			var b bytes.Buffer
			must(t, printer.EncodeJSON(&b, printer.ExplainDocument(x, "", p.Diagnostics)))
			all := b.String() + text(t, x)
			if strings.Contains(all, canary) || strings.ContainsAny(all, "\ue000\ue001") {
				t.Errorf("%s %s: want no secret and no placeholder, got\n%s", e.name(), i, all)
			}
			sensitive = sensitive || strings.Contains(all, "(sensitive)")
		}
		if e.site == "cloud" && !sensitive {
			t.Error("a site with a password: got no (sensitive), want one")
		}
	}
}
