package world

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/fault"
)

func recorded(args ...string) string {
	return fmt.Sprintf(`{"format":1,"prelet":"0.1.0","time":"t","site":[{"name":"a.hcl","text":"x"}],"answers":[%s]}`, strings.Join(args, ","))
}

const oneFile = `{"kind":"file","args":{"path":"/a"},"answer":{"value":{"text":"x"}}}`

// TestDecodeRefuses lists what is no recording, or none that has one meaning.
func TestDecodeRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":              {"", "no recording"},
		"something else":       {`{"kind":"Pod"}`, "it has no format"},
		"a newer one":          {`{"format":2}`, "a newer prelet"},
		"a negative format":    {`{"format":-1}`, "no format"},
		"cut off":              {recorded(oneFile)[:60], "no recording"},
		"more behind it":       {recorded(oneFile) + recorded(), "after top-level value"},
		"one question twice":   {recorded(oneFile, oneFile), "twice"},
		"twice, other spaces":  {recorded(oneFile, strings.Replace(oneFile, `{"path":`, `{ "path" : `, 1)), "twice"},
		"no arguments":         {recorded(`{"kind":"file","answer":{}}`), "arguments"},
		"no kind":              {recorded(`{"args":{},"answer":{}}`), "kind"},
		"neither nor":          {recorded(`{"kind":"file","args":{},"answer":{}}`), "neither a value nor a failure"},
		"both":                 {recorded(`{"kind":"file","args":{},"answer":{"value":{},"fail":"absent"}}`), "both"},
		"an unknown failure":   {recorded(`{"kind":"file","args":{},"answer":{"fail":"tired"}}`), "tired"},
		"a key twice, escaped": {strings.Replace(recorded(), `"format":1`, `"format":1,"\u0066ormat":1`, 1), "twice"},
		"a key twice":          {strings.Replace(recorded(), `"format":1`, `"format":1,"format":1`, 1), "twice"},
		"a key of another day": {strings.Replace(recorded(), `"format":1`, `"format":1,"shape":1`, 1), "shape"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode(strings.NewReader(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if _, err := Decode(strings.NewReader(`{"format":2}`)); !errors.Is(err, ErrNewer) {
		t.Errorf("a newer format gives %v", err)
	}
}

// TestDecodeIsBounded reads a small file that would be gigabytes.
func TestDecodeIsBounded(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.CopyN(z, spaces{}, maxRecording+4096); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(&b); err == nil || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("a bomb of %d bytes gives %v", b.Len(), err)
	}
	deep := recorded(`{"kind":"file","args":{"path":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `},"answer":{"fail":"absent"}}`)
	if _, err := Decode(strings.NewReader(deep)); err == nil {
		t.Error("a hundred thousand levels are read")
	}
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestRoundTrip writes what was read and reads it again: the same questions, answers and bytes, plain and gzipped.
func TestRoundTrip(t *testing.T) {
	tape := NewTape(SourceFunc(func(_ context.Context, q Question) Answer {
		if q.Kind == KindObject {
			return Failure(fault.ClusterDenied, "<403> & more", "h")
		}
		return File.Answer(FileAns{Text: "<x>\u2028\n"})
	}))
	ctx := context.Background()
	for _, p := range []string{"/b", "/a"} {
		if _, _, err := File.Ask(ctx, tape, FileReq{Path: p}); err != nil {
			t.Fatal(err)
		}
	}
	if _, ans, err := Object.Ask(ctx, tape, ObjectReq{Namespace: "n"}); err == nil || ans.Code() != fault.ClusterDenied {
		t.Fatalf("got %v, %v", ans, err)
	}
	r := &Recording{Header: Header{Prelet: "p", Site: []SiteFile{{"a.hcl", "x"}}}, Entries: tape.Entries()}
	var first bytes.Buffer
	if err := r.Encode(&first); err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := (&Recording{Header: r.Header, Entries: r.Entries, Compact: true}).Encode(&compact); err != nil {
		t.Fatal(err)
	}
	var short, long any
	if err := errors.Join(json.Unmarshal(compact.Bytes(), &short), json.Unmarshal(first.Bytes(), &long)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(long, short); d != "" || bytes.IndexByte(compact.Bytes(), '\n') != compact.Len()-1 {
		t.Errorf("in one line it is another one:\n%s\n%s", d, &compact)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(first.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, in := range []io.Reader{bytes.NewReader(first.Bytes()), &zipped} {
		back, err := Decode(in)
		if err != nil {
			t.Fatal(err)
		}
		var second bytes.Buffer
		if err := back.Encode(&second); err != nil {
			t.Fatal(err)
		}
		if first.String() != second.String() {
			t.Errorf("written again it differs:\n%s\n%s", &first, &second)
		}
		a, _, err := File.Ask(ctx, back.Source(), FileReq{Path: "/a"})
		if err != nil || a.Text != "<x>\u2028\n" {
			t.Errorf("the replay says %q, %v", a.Text, err)
		}
		if _, ans, _ := File.Ask(ctx, back.Source(), FileReq{Path: "/c"}); ans.Code() != fault.Unread || !strings.Contains(ans.Why(), "/c") {
			t.Errorf("a question that was never asked gives %v", ans)
		}
	}
}

// TestTapeAsksOnce has many goroutines ask few questions, which are answered once all have asked.
func TestTapeAsksOnce(t *testing.T) { synctest.Test(t, testTapeAsksOnce) }

func testTapeAsksOnce(t *testing.T) {
	var asked atomic.Int64
	allAsked := make(chan struct{})
	tape := NewTape(SourceFunc(func(_ context.Context, q Question) Answer {
		asked.Add(1)
		<-allAsked
		return File.Answer(FileAns{Text: q.Args})
	}))
	var all sync.WaitGroup
	for i := range 200 {
		all.Add(1)
		go func() {
			defer all.Done()
			p := fmt.Sprintf("/%d", i%5)
			a, _, err := File.Ask(context.Background(), tape, FileReq{Path: p})
			if err != nil || !strings.Contains(a.Text, p) {
				t.Errorf("%s: %q, %v", p, a.Text, err)
			}
			_ = tape.Entries()
		}()
	}
	synctest.Wait()
	close(allAsked)
	all.Wait()
	if n := asked.Load(); n != 5 || len(tape.Entries()) != 5 {
		t.Errorf("5 questions were asked %d times, the tape has %d", n, len(tape.Entries()))
	}
}

// TestTapeWaits ends a wait for somebody else's question with the waiter's deadline, and keeps no answer that never
// came; one whose source panicked is no deadlock for those that wait.
func TestTapeWaits(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	tape := NewTape(SourceFunc(func(_ context.Context, q Question) Answer {
		if q.Kind == KindTrust {
			panic("x")
		}
		close(begun)
		<-end
		return Failure(fault.Absent, "", "")
	}))
	defer close(end)
	q := File.Question(FileReq{Path: "/a"})
	go tape.Ask(context.Background(), q)
	<-begun
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if a := tape.Ask(ctx, q); a.Code() != fault.ClusterUnreachable {
		t.Errorf("a wait beyond the deadline gives %v", a)
	}
	if len(tape.Entries()) != 0 {
		t.Errorf("the tape holds %v", tape.Entries())
	}
	trust := Trust.Question(TrustReq{})
	func() {
		defer func() { _ = recover() }()
		tape.Ask(context.Background(), trust)
	}()
	if a := tape.Ask(context.Background(), trust); a.Code() != fault.ClusterUnusable {
		t.Errorf("after a panic: %v", a)
	}
	for _, e := range tape.Entries() {
		t.Errorf("what broke is on the tape: %v", e)
	}
}

// TestFallBack sees failures only, and what it gives is what the tape holds.
func TestFallBack(t *testing.T) {
	tape := NewTape(SourceFunc(func(_ context.Context, q Question) Answer {
		if q.Kind == KindFile {
			return File.Answer(FileAns{Text: "good"})
		}
		return Failure(fault.ClusterUnreachable, "down", "")
	}))
	tape.FallBack(func(q Question, a Answer) (Answer, bool) {
		if a.Fault == nil {
			t.Errorf("asked for %s, which did not fail", q)
		}
		return Answer{Value: json.RawMessage(`{}`), Stale: 3, Because: a.Why()}, q.Kind == KindTrust
	})
	ctx := context.Background()
	tape.Ask(ctx, File.Question(FileReq{Path: "/a"}))
	if a := tape.Ask(ctx, Trust.Question(TrustReq{})); a.Stale != 3 || a.Because != "down" {
		t.Errorf("got %v", a)
	}
	if a := tape.Ask(ctx, Object.Question(ObjectReq{})); a.Code() != fault.ClusterUnreachable {
		t.Errorf("got %v", a)
	}
	for _, e := range tape.Entries() {
		if e.Kind == KindTrust && e.Answer.Stale != 3 {
			t.Errorf("the tape holds %v", e)
		}
	}
}

// TestWithhold takes what identifies a machine out of its facts, names it, and does nothing the second time.
func TestWithhold(t *testing.T) {
	id, mac := "canary-id", "canary-mac"
	f := Facts{MachineID: &id, Product: Product{Serial: &id, UUID: &id}, Interfaces: map[string]Interface{"a/b~": {MAC: &mac}, "lo": {}}}
	r := &Recording{Entries: []Entry{{FactsOf.Question(FactsReq{}), FactsOf.Answer(f)}, {FactsOf.Question(FactsReq{WaitMillis: 1}), Failure(fault.HardwareFailed, "", "")}}}
	for range 2 {
		if err := r.Withhold(); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := r.Encode(&b); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "canary") {
			t.Errorf("it is still there: %s", &b)
		}
		want := []string{"/interfaces/a~1b~0/mac", "/machine_id", "/product/serial", "/product/uuid"}
		if got := r.Entries[0].Answer.Withheld; strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("withheld %v, want %v", got, want)
		}
	}
}

// FuzzDecode holds that whatever is read can be written and read again with the same bytes, and has each question once.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(recorded()))
	f.Add([]byte(recorded(oneFile, `{"kind":"facts","args":{},"answer":{"fail":"unusable","detail":"d","withheld":["/a"]}}`)))
	f.Add([]byte(`{"format":2}`))
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Add([]byte(recorded(oneFile, oneFile)))
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := Decode(bytes.NewReader(in))
		if err != nil {
			return
		}
		var a, b bytes.Buffer
		if err := r.Encode(&a); err != nil {
			t.Fatal(err)
		}
		again, err := Decode(bytes.NewReader(a.Bytes()))
		if err != nil {
			t.Fatalf("what was written is refused: %s\n%s", err, &a)
		}
		if err := again.Encode(&b); err != nil {
			t.Fatal(err)
		}
		if a.String() != b.String() {
			t.Errorf("%s\n%s", &a, &b)
		}
		for _, e := range r.Entries {
			if got := r.Source().Ask(context.Background(), e.Question); got.Code() != e.Answer.Code() {
				t.Errorf("%s: %v, want %v", e.Question, got, e.Answer)
			}
		}
	})
}

// TestReplayOfAQuestionThatIsAlike holds that a replay answers a question that differs from the recorded one only in what
// its answer does not depend on.
func TestReplayOfAQuestionThatIsAlike(t *testing.T) {
	planned := TargetReq{Path: "/etc/s", Secret: true, Want: "old"}
	other := TargetReq{Path: "/etc/t", Secret: true, Want: "old"}
	r := Recording{Entries: []Entry{
		{File.Question(FileReq{Path: "/etc/x"}), File.Answer(FileAns{Text: "x"})},
		{Object.Question(ObjectReq{Access: Access{RetryMillis: 5}, Name: "a"}), Object.Answer(ObjectAns{ResourceVersion: "7"})},
		{Target.Question(planned), Target.Answer(TargetAns{Exists: true, Same: true})},
		{Target.Question(other), Target.Answer(TargetAns{Exists: true})},
	}}
	for name, c := range map[string]struct {
		q    Question
		want string // of the answer, or the name of its failure
	}{
		"another wait":                   {File.Question(FileReq{Path: "/etc/x", WaitMillis: 60_000}), `{"text":"x"}`},
		"another file":                   {File.Question(FileReq{Path: "/etc/y"}), "unread"},
		"another retry, and optional":    {Object.Question(ObjectReq{Access: Access{RetryMillis: 9}, Name: "a", Optional: true}), `{"resource_version":"7","data":null}`},
		"another server":                 {Object.Question(ObjectReq{Access: Access{Servers: []string{"b"}}, Name: "a"}), "unread"},
		"another text than what was so":  {Target.Question(TargetReq{Path: "/etc/s", Secret: true, Want: "new"}), `{"exists":true}`},
		"another text, which may be it":  {Target.Question(TargetReq{Path: "/etc/t", Secret: true, Want: "new"}), "unread"},
		"the text of a file in a secret": {Target.Question(TargetReq{Path: "/etc/s"}), "unread"},
	} {
		a := r.Source().Ask(t.Context(), c.q)
		if got := a.Name() + string(a.Value); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
