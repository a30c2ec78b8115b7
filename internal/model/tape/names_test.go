package tape

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

// TestKinds compares Kinds with the constants of question.go.
func TestKinds(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "question.go", nil, 0)
	must(t, err)

	var declared []Kind
	ast.Inspect(file, func(n ast.Node) bool {
		spec, isValue := n.(*ast.ValueSpec)
		if !isValue {
			return true
		}
		if name, isName := spec.Type.(*ast.Ident); isName && name.Name == "Kind" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			must(t, err)
			declared = append(declared, Kind(text))
		}

		return true
	})

	got, want := slices.Sorted(slices.Values(Kinds())), slices.Sorted(slices.Values(declared))
	if !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("got kinds %v, want those that are declared: %v", got, want)
	}
}

// TestNames decodes each name that a recording may have, and encodes it again: a recording of an earlier version comes
// back as it was.
func TestNames(t *testing.T) {
	for _, kind := range Kinds() {
		var codes []fault.Code
		for _, text := range []string{
			"absent", "denied", "unreachable", "untrusted", "unusable", "unread", "credential", "no-answer",
		} {
			code, ok := codeOf(text, kind)
			if !ok {
				t.Errorf("%s: got no code for %q, want one: recordings have this name", kind, text)
			}
			if got := nameOf(code); got != text {
				t.Errorf("%s: %q becomes %s and is written %q, want the same name", kind, text, code, got)
			}
			if slices.Contains(codes, code) {
				t.Errorf("%s: %q has code %s of another name, want its own", kind, text, code)
			}
			codes = append(codes, code)
		}
	}

	if code, ok := codeOf("gone", KindFile); ok {
		t.Errorf("got code %q for a name that no recording has, want none", code)
	}
	if got := nameOf("of a newer prelet"); got != "unusable" {
		t.Errorf("a code without a name is written %q, want unusable", got)
	}
}

// TestRunSeesItsReplay asks a tape and the recording of it: a failure must be the same in both, whatever the adapter
// returns in addition to the recorded part.
func TestRunSeesItsReplay(t *testing.T) {
	source := SourceFunc(func(_ context.Context, q Question) Answer {
		return Answer{Fault: &fault.Fault{
			Code:    fault.FileUnusable,
			At:      fault.Place{File: "https://a"},
			Summary: "trust",
			Why:     "no CA in it",
			Next:    "Put one there",
			Err:     io.EOF,
		}}
	})
	tape := NewTape(source)
	for _, about := range topics() {
		tape.Ask(t.Context(), about.canonical(Question{about.kind(), "{}"}))
	}

	back, err := Decode(strings.NewReader(encode(t, &Recording{Entries: tape.Entries()})))
	must(t, err)

	for _, about := range topics() {
		q := about.canonical(Question{about.kind(), "{}"})
		run, replay := tape.Ask(t.Context(), q), back.Source().Ask(t.Context(), q)
		if *run.Fault != *replay.Fault {
			t.Errorf("%s: the run sees %+v, its replay %+v; want the same", q, *run.Fault, *replay.Fault)
		}
	}
}
