package tape

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
	"github.com/prelet/prelet/internal/testing/table"
)

func recorded(args ...string) string {
	return fmt.Sprintf(
		`{"format":1,"prelet":"0.1.0","time":"t","site":[{"name":"a.hcl","text":"x"}],"answers":[%s]}`,
		strings.Join(args, ","),
	)
}

const oneFile = `{"kind":"file","args":{"path":"/a"},"answer":{"value":{"text":"x"}}}`

// TestDecodeRefuses lists inputs that are not recordings, or that have no unique meaning.
func TestDecodeRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":              {"", "not a recording"},
		"something else":       {`{"kind":"Pod"}`, "it has no format"},
		"a newer one":          {`{"format":2}`, "a newer prelet"},
		"a negative format":    {`{"format":-1}`, "no format"},
		"cut off":              {recorded(oneFile)[:60], "ends early, after 60 bytes"},
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
		t.Errorf("a newer format: got error %v, want ErrNewer", err)
	}
}

func encode(t *testing.T, r *Recording) string {
	t.Helper()
	var b bytes.Buffer
	must(t, r.Encode(&b))
	return b.String()
}

// TestDecodeIsBounded reads a small file that would be gigabytes.
func TestDecodeIsBounded(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.CopyN(z, spaces{}, MaxRecording+4096); err != nil {
		t.Fatal(err)
	}
	must(t, z.Close())
	if _, err := Decode(&b); err == nil || !strings.Contains(err.Error(), "32 MiB") {
		t.Errorf("a bomb of %d bytes: got error %v, want one about 32 MiB", b.Len(), err)
	}
	deep := recorded(
		`{"kind":"file","args":{"path":` + strings.Repeat(
			"[",
			100_000,
		) + strings.Repeat(
			"]",
			100_000,
		) + `},"answer":{"fail":"absent"}}`,
	)
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
	if _, ans, err := Object.Ask(ctx, tape, ObjectReq{Namespace: "n"}); err == nil ||
		ans.Code() != fault.ClusterDenied {
		t.Fatalf("object: got %v, %v; want code cluster-denied", ans, err)
	}
	r := &Recording{Header: Header{Prelet: "p", Site: []SiteFile{{"a.hcl", "x"}}}, Entries: tape.Entries()}
	first := encode(t, r)
	compact := encode(t, &Recording{Header: r.Header, Entries: r.Entries, Compact: true})
	var short, long any
	must(t, errors.Join(json.Unmarshal([]byte(compact), &short), json.Unmarshal([]byte(first), &long)))
	if d := cmp.Diff(long, short); d != "" || strings.IndexByte(compact, '\n') != len(compact)-1 {
		t.Errorf("compact: want one line with the same values, got\n%s\n%s", d, compact)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := io.WriteString(z, first)
	must(t, errors.Join(err, z.Close()))
	for _, in := range []io.Reader{strings.NewReader(first), &zipped} {
		back, err := Decode(in)
		must(t, err)
		if second := encode(t, back); first != second {
			t.Errorf("written again: want\n%s\ngot\n%s", first, second)
		}
		a, _, err := File.Ask(ctx, back.Source(), FileReq{Path: "/a"})
		if err != nil || a.Text != "<x>\u2028\n" {
			t.Errorf("the replay: got %q, %v; want the recorded text", a.Text, err)
		}
		if _, ans, _ := File.Ask(ctx, back.Source(), FileReq{Path: "/c"}); ans.Code() != fault.Unread ||
			!strings.Contains(ans.Why(), "/c") {
			t.Errorf("a question that was never asked: got %v, want it unread", ans)
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
				t.Errorf("%s: got %q, %v; want a text with the path", p, a.Text, err)
			}
			_ = tape.Entries()
		}()
	}
	synctest.Wait()
	close(allAsked)
	all.Wait()
	if n := asked.Load(); n != 5 || len(tape.Entries()) != 5 {
		t.Errorf("5 questions: got %d reads and %d entries, want 5 of each", n, len(tape.Entries()))
	}
}

// TestTapeWaits ends a wait for another caller's question at the waiter's deadline, and stores no answer that never
// came. The first answer that is used stays, also if it is a fallback and the source's own answer comes later. A panic
// in the source does not block the other waiters.
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
	q := Object.Question(ObjectReq{Name: "a"})
	first := make(chan Answer, 1)
	go func() { first <- tape.Ask(context.Background(), q) }()
	<-begun
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if a := tape.Ask(ctx, q); a.Code() != fault.ClusterUnreachable {
		t.Errorf("a wait beyond the deadline: got %v, want cluster-unreachable", a)
	}
	if len(tape.Entries()) != 0 {
		t.Errorf("before an answer: got entries %v, want none", tape.Entries())
	}
	tape.SetFallback(func(Question, Answer) (Answer, bool) { return Object.Answer(ObjectAns{}), true })
	if a := tape.Ask(ctx, q); a.Fault != nil {
		t.Errorf("a wait beyond the deadline, with a fallback: got %v, want its answer", a)
	}
	close(end)
	if a := <-first; a.Fault != nil { // its own answer is a failure, which comes too late
		t.Errorf("the first caller: got %v, want the fallback that another caller has used", a)
	}
	if all := tape.Entries(); len(all) != 1 || all[0].Answer.Fault != nil {
		t.Errorf("got entries %v, want one with the fallback", all)
	}
	trust := Trust.Question(TrustReq{})
	func() {
		defer func() { _ = recover() }()
		tape.Ask(context.Background(), trust)
	}()
	if a := tape.Ask(context.Background(), trust); a.Code() != fault.ClusterUnusable {
		t.Errorf("after a panic: got %v, want cluster-unusable", a)
	}
	if all := tape.Entries(); len(all) != 1 {
		t.Errorf("after a panic: got entries %v, want the first one only", all)
	}
}

// TestFallback sees failures only, and what it gives is what the tape holds.
func TestFallback(t *testing.T) {
	tape := NewTape(SourceFunc(func(_ context.Context, q Question) Answer {
		if q.Kind == KindFile {
			return File.Answer(FileAns{Text: "good"})
		}
		return Failure(fault.ClusterUnreachable, "down", "")
	}))
	tape.SetFallback(func(q Question, a Answer) (Answer, bool) {
		if a.Fault == nil {
			t.Errorf("got the fallback asked for %s, want only failed questions", q)
		}
		return Answer{Value: json.RawMessage(`{}`), Stale: 3, Because: a.Why()}, q.Kind == KindTrust
	})
	ctx := context.Background()
	tape.Ask(ctx, File.Question(FileReq{Path: "/a"}))
	if a := tape.Ask(ctx, Trust.Question(TrustReq{})); a.Stale != 3 || a.Because != "down" {
		t.Errorf("with a fallback: got %v, want Stale 3 because down", a)
	}
	if a := tape.Ask(ctx, Object.Question(ObjectReq{})); a.Code() != fault.ClusterUnreachable {
		t.Errorf("without a fallback: got %v, want cluster-unreachable", a)
	}
	for _, e := range tape.Entries() {
		if e.Kind == KindTrust && e.Answer.Stale != 3 {
			t.Errorf("got entry %v, want Stale 3", e)
		}
	}
}

// FuzzDecode holds that whatever is read can be written and read again with the same bytes, and has each question once.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(recorded()))
	f.Add(
		[]byte(
			recorded(oneFile, `{"kind":"facts","args":{},"answer":{"fail":"unusable","detail":"d","withheld":["/a"]}}`),
		),
	)
	f.Add([]byte(`{"format":2}`))
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Add([]byte(recorded(oneFile, oneFile)))
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := Decode(bytes.NewReader(in))
		if err != nil {
			return
		}
		once := encode(t, r)
		again, err := Decode(strings.NewReader(once))
		if err != nil {
			t.Fatalf("read again: got error %v, want none\n%s", err, once)
		}
		if twice := encode(t, again); once != twice {
			t.Errorf("written again: want\n%s\ngot\n%s", once, twice)
		}
		for _, e := range r.Entries {
			if got := r.Source().Ask(context.Background(), e.Question); got.Code() != e.Answer.Code() {
				t.Errorf("%s: %v, want %v", e.Question, got, e.Answer)
			}
		}
	})
}

// TestReplayOfAQuestionThatIsAlike holds that a replay answers a question that differs from the recorded one only in
// what its answer does not depend on.
func TestReplayOfAQuestionThatIsAlike(t *testing.T) {
	planned := TargetReq{Path: "/etc/s", Secret: true, Want: "old"}
	other := TargetReq{Path: "/etc/t", Secret: true, Want: "old"}
	r := Recording{Entries: []Entry{
		{File.Question(FileReq{Path: "/etc/x"}), File.Answer(FileAns{Text: "x"})},
		{
			Object.Question(ObjectReq{Access: Access{RetryMillis: 5}, Name: "a"}),
			Object.Answer(ObjectAns{ResourceVersion: "7"}),
		},
		{Target.Question(planned), Target.Answer(TargetAns{Exists: true, Same: true})},
		{Target.Question(other), Target.Answer(TargetAns{Exists: true})},
		{Detector.Question(DetectorReq{Name: "nvidia"}), Answer{Value: []byte(`{"version":"7"}`)}},
	}}
	for name, c := range map[string]struct {
		q    Question
		want string // of the answer, or the name of its failure
	}{
		"another wait": {File.Question(FileReq{Path: "/etc/x", WaitMillis: 60_000}), `{"text":"x"}`},
		"a wait for a fabric": {Detector.Question(DetectorReq{Name: "nvidia", WaitMillis: 5000,
			WaitFor: map[string][]string{"fabric_state": {"completed"}}}), `{"version":"7"}`},
		"another file":                   {File.Question(FileReq{Path: "/etc/y"}), "unread"},
		"another retry, and optional":    {Object.Question(ObjectReq{Access: Access{RetryMillis: 9}, Name: "a", Optional: true}), `{"resource_version":"7","data":null}`},
		"another server":                 {Object.Question(ObjectReq{Access: Access{Servers: []string{"b"}}, Name: "a"}), "unread"},
		"another text than what was so":  {Target.Question(TargetReq{Path: "/etc/s", Secret: true, Want: "new"}), `{"exists":true}`},
		"another text than what was not": {Target.Question(TargetReq{Path: "/etc/t", Secret: true, Want: "new"}), `{"exists":true}`},
		"the text of a file in a secret": {Target.Question(TargetReq{Path: "/etc/s"}), "unread"},
	} {
		a := r.Source().Ask(t.Context(), c.q)
		if got := a.Name() + string(a.Value); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestExplainJSON: no error has the words of Go in it.
func TestExplainJSON(t *testing.T) {
	var document struct {
		A int `json:"a"`
	}
	for text, want := range map[string]string{
		`[]`:        "it is a JSON array, and an object is needed",
		`{"a":"x"}`: "its field a cannot be a JSON string",
		`{"b":1}`:   `unknown field "b"`,
		`{`:         "unexpected EOF",
	} {
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		if got := ExplainJSON(d.Decode(&document)); got == nil || got.Error() != want {
			t.Errorf("%s: got error %v, want %q", text, got, want)
		}
	}

	var list []int
	want := "a JSON object is in a place for something else"
	if got := ExplainJSON(json.Unmarshal([]byte(`{}`), &list)); got == nil || got.Error() != want {
		t.Errorf("an object for a list: got error %v, want %q", got, want)
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}

func TestEndOfString(t *testing.T) {
	for text, want := range table.YAML[map[string]int](t, `
'""x': 2
'"ab",': 4
'"\"",': 4
'"\\","': 4
'"\\\"",': 6
'"a\\\\"b"': 7
'"open': 5
'"open\"': 7
'"': 1
'"\u0022\"\n"': 12
`) {
		if got := EndOfString([]byte(text), 0); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}
