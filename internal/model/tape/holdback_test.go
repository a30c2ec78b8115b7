package tape

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
)

// TestHoldBack keeps a secret out of each part of a recording, and leaves the rest.
func TestHoldBack(t *testing.T) {
	const secret = "CANARY \"k2\" <&>"
	r := &Recording{
		Header: Header{Format: Format, Site: []SiteFile{{Name: "a.hcl", Text: "x = " + secret + " # a"}}},
		Entries: []Entry{
			{File.Question(FileReq{Path: "/etc/a"}), File.Answer(FileAns{Text: "password=" + secret})},
			{File.Question(FileReq{Path: "/etc/" + secret}), File.Answer(FileAns{Text: "plain"})},
			{Object.Question(ObjectReq{Name: "o"}), Object.Answer(ObjectAns{Data: map[string]string{secret: "x"}})},
			{File.Question(FileReq{Path: "/etc/b"}), Failure(fault.FileUnusable, "not "+secret, "try "+secret)},
			{Target.Question(TargetReq{Path: "/etc/d"}), Target.Answer(TargetAns{Exists: true, Text: "A=HIDE", SHA256: "x"})},
			{File.Question(FileReq{Path: "/etc/c"}), File.Answer(FileAns{Text: "plain"})},
		},
	}
	was := r.Header.Site[0].Text
	header := r.Header.Site
	r.HoldBack(func(s string) bool { return strings.Contains(s, secret) },
		func(s string) string { return strings.ReplaceAll(s, secret, "(sensitive)") },
		func(s string) string { return strings.ReplaceAll(s, "HIDE", "hidden") })
	if header[0].Text != was {
		t.Error("the site that is in use was changed; want a copy")
	}

	text := encode(t, r)
	if strings.Contains(text, "CANARY") {
		t.Errorf("want no secret in the recording, got\n%s", text)
	}
	again, err := Decode(strings.NewReader(text))
	if err != nil || len(again.Entries) != 5 {
		t.Fatalf("got %+v, %v; want five questions", again, err)
	}
	for path, want := range map[string]string{"/etc/a": "held back", "/etc/b": "not (sensitive)", "/etc/c": ""} {
		a, ok := again.Find(File.Question(FileReq{Path: path}))
		if !ok || !strings.Contains(a.Why(), want) || (want == "") != (a.Fault == nil) {
			t.Errorf("%s: got %+v, want %q", path, a, want)
		}
	}
	got, _, err := Target.Ask(t.Context(), again.Source(), TargetReq{Path: "/etc/d"})
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte("A=hidden"))); err != nil || got.Text != "A=hidden" || got.SHA256 != sum {
		t.Errorf("a file: got %+v, %v; want the hidden text, with its hash", got, err)
	}
	if got := again.Header.Site[0].Text; got != "x = (sensitive) # a" {
		t.Errorf("site: got %q, want the secret replaced", got)
	}
}
