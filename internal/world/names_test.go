package world

import (
	"bytes"
	"context"
	"io"
	"slices"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

// kinds are all kinds of questions.
var kinds = []Kind{
	KindFile,
	KindCredential,
	KindVariable,
	KindTrust,
	KindObject,
	KindHardware,
	KindLock,
	KindDetector,
	KindKubelet,
	KindAccepts,
	KindExists,
	KindServing,
	KindOriginal,
	KindTarget,
	KindManaged,
	KindValidation,
}

// TestNames decodes each name that a recording may have, and encodes it again: a recording of an earlier version comes
// back as it was.
func TestNames(t *testing.T) {
	for _, kind := range kinds {
		var codes []fault.Code
		for _, text := range []string{"absent", "denied", "unreachable", "untrusted", "unusable", "unread", "credential"} {
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
	for _, kind := range kinds {
		tape.Ask(t.Context(), Question{kind, "{}"})
	}

	var b bytes.Buffer
	if err := (&Recording{Entries: tape.Entries()}).Encode(&b); err != nil {
		t.Fatal(err)
	}
	back, err := Decode(&b)
	if err != nil {
		t.Fatal(err)
	}

	for _, kind := range kinds {
		q := Question{kind, "{}"}
		run, replay := tape.Ask(t.Context(), q), back.Source().Ask(t.Context(), q)
		if *run.Fault != *replay.Fault {
			t.Errorf("%s: the run sees %+v, its replay %+v; want the same", kind, *run.Fault, *replay.Fault)
		}
	}
}
