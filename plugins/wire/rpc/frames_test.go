package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"
)

// script is another side that says what it says, whatever it is told.
type script struct {
	in     *bytes.Reader
	out    bytes.Buffer
	mu     sync.Mutex
	closed bool
}

// Read implements Conn.
func (s *script) Read(p []byte) (int, error) { return s.in.Read(p) }

// Write implements Conn.
func (s *script) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, os.ErrClosed
	}
	return s.out.Write(p)
}

// Close implements Conn.
func (s *script) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// SetDeadline implements Conn.
func (s *script) SetDeadline(time.Time) error { return nil }

func joined(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// TestStrangeAnswers: what a server may do is borne, and what it may not do ends the call with a reason.
func TestStrangeAnswers(t *testing.T) {
	const most = 100
	hello := appendSettings(nil)
	head := appendHeaders(nil, 0, 1, ":status", "200", "content-type", "application/grpc")
	data := func(flags byte, b []byte) []byte { return appendFrame(nil, frameData, flags, 1, b) }
	end := appendHeaders(nil, flagEnd, 1, "grpc-status", "0")
	good := joined(data(0, framed([]byte("x"))), end)
	packed := func(fields ...string) []byte {
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		for i := 0; i < len(fields); i += 2 {
			if err := e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
				t.Fatal(err)
			}
		}
		return b.Bytes()
	}
	split := packed(":status", "200", "content-type", "application/grpc+proto")
	for name, test := range map[string]struct {
		said []byte
		code Code
		want string // of the error; "" for an answer
	}{
		"plain":          {said: joined(hello, head, good)},
		"early":          {said: joined(hello, appendHeaders(nil, 0, 1, ":status", "103"), head, good)},
		"in pieces":      {said: joined(hello, head, data(0, framed([]byte("x"))[:2]), data(0, nil), data(0, framed([]byte("x"))[2:]), end)},
		"padded":         {said: joined(hello, head, data(flagPadded, joined([]byte{3}, framed([]byte("x")), []byte("abc"))), end)},
		"more headers":   {said: joined(hello, appendFrame(nil, frameHeaders, 0, 1, split[:3]), appendFrame(nil, frameMore, flagAll, 1, split[3:]), good)},
		"priority":       {said: joined(hello, appendFrame(nil, frameHeaders, flagAll|flagPriority, 1, joined(make([]byte, 5), split)), good)},
		"unknown frame":  {said: joined(hello, appendFrame(nil, 99, 255, 7, []byte("abc")), head, good)},
		"a ping":         {said: joined(hello, appendFrame(nil, framePing, 0, 0, make([]byte, 8)), head, good)},
		"going later":    {said: joined(hello, appendFrame(nil, frameGoAway, 0, 0, []byte{0, 0, 0, 1, 0, 0, 0, 0}), head, good)},
		"nothing":        {code: Unavailable, want: "closed the connection"},
		"HTTP/1":         {said: []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), code: Internal, want: "not HTTP/2"},
		"half a frame":   {said: joined(hello, head[:12]), code: Unavailable, want: "closed the connection"},
		"large frame":    {said: []byte{0, 64, 1, 0, 0, 0, 0, 0, 1}, code: Internal, want: "a frame of 16385 bytes"},
		"no length":      {said: joined(hello, head, data(flagPadded, nil)), code: Internal, want: "padding"},
		"all padding":    {said: joined(hello, head, data(flagPadded, []byte{200, 1})), code: Internal, want: "padding"},
		"no headers":     {said: joined(hello, good), code: Internal, want: "without headers"},
		"not found":      {said: joined(hello, appendHeaders(nil, flagEnd, 1, ":status", "404")), code: Unimplemented, want: `"404"`},
		"a page":         {said: joined(hello, appendHeaders(nil, 0, 1, ":status", "200", "content-type", "text/html")), code: Unknown, want: "text/html"},
		"no status":      {said: joined(hello, head, data(flagEnd, framed(nil))), code: Internal, want: "without a status"},
		"odd status":     {said: joined(hello, head, appendHeaders(nil, flagEnd, 1, "grpc-status", "ok")), code: Internal, want: "without a status"},
		"no answer":      {said: joined(hello, head, end), code: Internal, want: "no message"},
		"two answers":    {said: joined(hello, head, data(0, framed([]byte("x"))), good), code: Internal, want: "one message of 1"},
		"too large":      {said: joined(hello, head, data(0, framed(make([]byte, 101)))), code: ResourceExhausted, want: "larger than max"},
		"compressed":     {said: joined(hello, head, data(0, []byte{1, 0, 0, 0, 0})), code: Unimplemented, want: "compressed"},
		"headers twice":  {said: joined(hello, head, head), code: Internal, want: "headers inside"},
		"a push":         {said: joined(hello, appendFrame(nil, framePush, flagAll, 1, make([]byte, 4))), code: Internal, want: "kind 5"},
		"loose headers":  {said: joined(hello, appendFrame(nil, frameMore, flagAll, 1, nil)), code: Internal, want: "did not begin"},
		"endless":        {said: joined(hello, appendFrame(nil, frameHeaders, 0, 1, nil), bytes.Repeat(appendFrame(nil, frameMore, 0, 1, make([]byte, maxFrame)), 5)), code: Internal, want: "do not end"},
		"many pieces":    {said: joined(hello, appendFrame(nil, frameHeaders, 0, 1, split), bytes.Repeat(appendFrame(nil, frameMore, 0, 1, nil), maxPieces-2), appendFrame(nil, frameMore, flagAll, 1, nil), good)},
		"empty pieces":   {said: joined(hello, appendFrame(nil, frameHeaders, 0, 1, split), bytes.Repeat(appendFrame(nil, frameMore, 0, 1, nil), maxPieces-1), appendFrame(nil, frameMore, flagAll, 1, nil), good), code: Internal, want: "do not end"},
		"bomb":           {said: joined(hello, appendFrame(nil, frameHeaders, flagAll, 1, joined(packed("x", strings.Repeat("y", 3000)), bytes.Repeat([]byte{0xbe}, 1000)))), code: Internal, want: "more than 64 KiB"},
		"bad packing":    {said: joined(hello, appendFrame(nil, frameHeaders, flagAll, 1, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})), code: Internal, want: "not HTTP/2"},
		"short settings": {said: appendFrame(nil, frameSettings, 0, 0, make([]byte, 5)), code: Internal, want: "kind 4"},
		"large window":   {said: appendSettings(nil, [2]uint32{settingWindow, 1 << 31}), code: Internal, want: "a window of"},
		"wide window":    {said: joined(hello, appendWindow(nil, 0, maxWindow)), code: Internal, want: "a window of"},
		"going":          {said: joined(hello, appendFrame(nil, frameGoAway, 0, 0, append(make([]byte, 8), "full"...))), code: Unavailable, want: `goes away: "full"`},
		"refused":        {said: joined(hello, appendReset(nil, 1, codeRefused)), code: Unavailable, want: "error 7"},
		"cancelled":      {said: joined(hello, appendReset(nil, 1, codeCancel)), code: Canceled, want: "error 8"},
		"reset":          {said: joined(hello, appendReset(nil, 1, 2)), code: Internal, want: "error 2"},
		"flood":          {said: joined(hello, head, bytes.Repeat(data(0, nil), 10), bytes.Repeat(appendFrame(nil, frameData, 0, 3, make([]byte, maxFrame)), 5)), code: ResourceExhausted, want: "more came"},
	} {
		answer, err := Call(t.Context(), &script{in: bytes.NewReader(test.said)}, "/a/b", []byte("q"), most)
		s := StatusOf(err)
		switch {
		case test.want == "" && (err != nil || string(answer) != "x"):
			t.Errorf("%s: %q %v", name, answer, err)
		case test.want != "" && (s.Code != test.code || !strings.Contains(s.Message, test.want)):
			t.Errorf("%s: want %s %q, got %v", name, test.code, test.want, err)
		}
	}
}

// TestSmallWindows: a request goes in the pieces that the other side has room for, and not before.
func TestSmallWindows(t *testing.T) {
	s := &script{in: bytes.NewReader(joined(appendSettings(nil, [2]uint32{settingWindow, 10}), appendWindow(nil, 1, 3), appendSettings(nil, [2]uint32{settingWindow, 12})))}
	c := call{conn: s, in: newReader(s), most: 10, window: firstWindow, stream: 0, initial: 0, rest: make([]byte, 20)}
	for _, left := range []int{10, 7, 5} {
		f, err := c.in.frame()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.take(f); err != nil || len(c.rest) != left {
			t.Errorf("%v, %d bytes are left, want %d", err, len(c.rest), left)
		}
	}
}

// TestStrangeQuestions: a server ends the connection of who does not speak HTTP/2, and answers who does not speak gRPC.
func TestStrangeQuestions(t *testing.T) {
	ask := func(flags byte, stream uint32, more ...string) []byte {
		return appendHeaders(nil, flags, stream, append([]string{":method", "POST", ":path", "/a/b", "content-type", "application/grpc"}, more...)...)
	}
	data := func(stream uint32) []byte { return appendFrame(nil, frameData, flagEnd, stream, framed([]byte("q"))) }
	const protocol = "not HTTP/2"
	for name, test := range map[string]struct {
		said []byte
		want string // in the answer; or how the connection ends
	}{
		"plain":           {joined(ask(0, 1), data(1)), "answered q"},
		"after settings":  {joined(appendSettings(nil, [2]uint32{settingWindow, 1 << 20}), ask(0, 1), data(1)), "answered q"},
		"no POST":         {appendHeaders(nil, flagEnd, 1, ":method", "GET", ":path", "/a/b"), "no call of gRPC"},
		"no such method":  {appendHeaders(nil, flagEnd, 1, ":method", "POST", ":path", "/a/c", "content-type", "application/grpc"), "no method /a/c"},
		"no message":      {ask(flagEnd, 1), "no message"},
		"compressed":      {joined(ask(0, 1, "grpc-encoding", "gzip"), data(1)), "by gzip"},
		"even":            {ask(flagEnd, 2), protocol},
		"backwards":       {joined(ask(flagEnd, 3), ask(flagEnd, 1)), protocol},
		"data first":      {data(1), protocol},
		"data afterwards": {joined(ask(0, 1), appendFrame(nil, frameData, flagEnd, 1, framed([]byte("slow"))), data(1)), protocol},
		"headers inside":  {joined(ask(0, 1), ask(0, 1)), protocol},
		"too many":        {bytes.Join(many(maxStreams+1, func(i int) []byte { return ask(0, uint32(2*i+1)) }), nil), "\x00\x00\x00\x07"},
	} {
		s := &script{in: bytes.NewReader(append([]byte(preface), test.said...))}
		server := Server{Most: 100, Methods: map[string]Handler{"/a/b": func(ctx context.Context, b []byte) ([]byte, error) {
			if string(b) == "slow" {
				<-ctx.Done()
			}
			return append([]byte("answered "), b...), nil
		}}}
		err := served(t.Context(), &server, s).serve()
		if test.want == protocol {
			if !errors.Is(err, errProtocol) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
		said := func() string {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.out.String()
		}
		for end := time.Now().Add(10 * time.Second); !strings.Contains(said(), test.want) && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if !strings.Contains(said(), test.want) {
			t.Errorf("%s: %q", name, said())
		}
	}
}

// served is a connection of a server.
func served(ctx context.Context, server *Server, s *script) *connection {
	c := &connection{s: server, conn: s, in: newReader(s), ctx: ctx, window: firstWindow, initial: firstWindow, streams: map[uint32]*stream{}}
	c.room = sync.NewCond(&c.mu)
	return c
}

// eventually waits for what other goroutines are about to do.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for late := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// TestRapidReset: who asks and gives up at once, again and again, has no more handlers than who waits for each.
func TestRapidReset(t *testing.T) {
	const calls = 2000
	ask := func(i int) []byte {
		id := uint32(2*i + 1)
		return joined(appendHeaders(nil, 0, id, ":method", "POST", ":path", "/a/b", "content-type", "application/grpc"), appendFrame(nil, frameData, flagEnd, id, framed(nil)), appendReset(nil, id, codeCancel))
	}
	release := make(chan bool)
	var running atomic.Int32
	server := Server{Most: 100, Methods: map[string]Handler{"/a/b": func(context.Context, []byte) ([]byte, error) {
		running.Add(1)
		defer running.Add(-1)
		<-release // it does not hear that nobody waits
		return nil, nil
	}}}
	s := &script{in: bytes.NewReader(joined([]byte(preface), bytes.Join(many(calls, ask), nil)))}
	c := served(t.Context(), &server, s)
	if err := c.serve(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	eventually(t, "the handlers run", func() bool { return running.Load() == maxStreams })
	s.mu.Lock()
	out := s.out.Bytes()
	refused := 0
	for i := range calls {
		if bytes.Contains(out, appendReset(nil, uint32(2*i+1), codeRefused)) {
			refused++
		}
	}
	s.mu.Unlock()
	if refused != calls-maxStreams {
		t.Errorf("%d of %d calls are refused, with room for %d", refused, calls, maxStreams)
	}
	close(release)
	eventually(t, "there is room again", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.busy == 0 })
	if running.Load() != 0 {
		t.Errorf("%d handlers run", running.Load())
	}
}

// TestGivenUp: a call that ends before all of it was there takes no room afterwards.
func TestGivenUp(t *testing.T) {
	ask := func(i int) []byte {
		id := uint32(2*i + 1)
		return joined(appendHeaders(nil, 0, id, ":method", "POST", ":path", "/a/b", "content-type", "application/grpc"), appendReset(nil, id, codeCancel))
	}
	s := &script{in: bytes.NewReader(joined([]byte(preface), bytes.Join(many(10*maxStreams, ask), nil)))}
	c := served(t.Context(), &Server{Most: 100}, s)
	if err := c.serve(); !errors.Is(err, io.EOF) || c.busy != 0 || bytes.Contains(s.out.Bytes(), []byte{0, 0, 0, codeRefused}) {
		t.Errorf("%v, %d calls are left, said %q", err, c.busy, s.out.Bytes())
	}
}

// TestForgotten: a server keeps nothing of connections that are over.
func TestForgotten(t *testing.T) {
	server := Server{Most: 100}
	for range 10 {
		server.connection(&script{in: bytes.NewReader([]byte(preface))})
	}
	if len(server.stop) > 0 {
		t.Errorf("%d are left", len(server.stop))
	}
}

// listening is a context that counts who waits for its end.
type listening struct {
	context.Context
	now atomic.Int32
}

// Value hides what is below, so that contexts use AfterFunc.
func (l *listening) Value(any) any { return nil }

// AfterFunc is what package context calls for each context that is made of this one.
func (l *listening) AfterFunc(f func()) func() bool {
	l.now.Add(1)
	stop := context.AfterFunc(l.Context, f)
	return func() bool {
		first := stop()
		if first {
			l.now.Add(-1)
		}
		return first
	}
}

// TestNoContextIsLeft: when a call with a time is answered, nothing waits for its connection's end any more.
func TestNoContextIsLeft(t *testing.T) {
	for _, more := range [][]string{nil, {"grpc-timeout", "1H"}} {
		ask := appendHeaders(nil, 0, 1, append([]string{":method", "POST", ":path", "/a/b", "content-type", "application/grpc"}, more...)...)
		s := &script{in: bytes.NewReader(joined([]byte(preface), ask, appendFrame(nil, frameData, flagEnd, 1, framed(nil))))}
		l := &listening{Context: t.Context()}
		var during atomic.Int32
		c := served(l, &Server{Most: 100, Methods: map[string]Handler{"/a/b": func(context.Context, []byte) ([]byte, error) { during.Store(l.now.Load()); return nil, nil }}}, s)
		if err := c.serve(); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		eventually(t, "its context is forgotten", func() bool { return during.Load() == 1 && l.now.Load() == 0 })
	}
}

func many(n int, f func(int) []byte) (out [][]byte) {
	for i := range n {
		out = append(out, f(i))
	}
	return out
}

func TestTimes(t *testing.T) {
	for d, want := range map[time.Duration]string{-1: "1m", 0: "1m", 1: "1m", time.Millisecond: "1m", time.Millisecond + 1: "2m", time.Minute: "60000m", 1e6 * time.Hour: "99999999S", 40 * time.Hour: "144000S"} {
		got := timeout(d)
		back, ok := duration(got)
		if got != want || !ok || d < 1e8*time.Second && back < d {
			t.Errorf("%v is %q, want %q, and back %v %v", d, got, want, back, ok)
		}
	}
	for s, want := range map[string]time.Duration{"1H": time.Hour, "2M": 2 * time.Minute, "3S": 3 * time.Second, "4u": 4 * time.Microsecond, "5n": 5, "99999999H": 1<<63 - 1 - (1<<63-1)%time.Hour,
		"": -1, "m": -1, "1": -1, "1x": -1, "-1m": -1, "123456789m": -1, "1.5S": -1} {
		if got, ok := duration(s); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q is %v %v, want %v", s, got, ok, want)
		}
	}
}

// FuzzPercent: what is written is a header, and reads back as it was.
func FuzzPercent(f *testing.F) {
	f.Add("100 % größer\n")
	f.Add("%zz%4")
	f.Fuzz(func(t *testing.T, s string) {
		p := percent(s)
		if strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r > '~' }) || unpercent(p) != s {
			t.Errorf("%q became %q and %q", s, p, unpercent(p))
		}
		unpercent(s)
	})
}

// FuzzCall: whatever a server says, a call ends, with an answer that is not too large.
func FuzzCall(f *testing.F) {
	f.Add(joined(appendSettings(nil), appendHeaders(nil, 0, 1, ":status", "200", "content-type", "application/grpc"), appendFrame(nil, frameData, 0, 1, framed([]byte("x"))), appendHeaders(nil, flagEnd, 1, "grpc-status", "0")))
	f.Add(joined(appendSettings(nil, [2]uint32{settingWindow, 1}), appendWindow(nil, 0, 1), appendReset(nil, 1, 8)))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &script{in: bytes.NewReader(b)}
		answer, err := Call(t.Context(), s, "/a/b", make([]byte, 100), 100)
		if len(answer) > 100 || err == nil && len(b) < 9 || !s.closed {
			t.Errorf("%d bytes, %v", len(answer), err)
		}
		if s.out.Len() > 1000+20*len(b) {
			t.Errorf("%d bytes made it say %d", len(b), s.out.Len())
		}
	})
}

// FuzzServe: whatever a client says, a server survives it.
func FuzzServe(f *testing.F) {
	f.Add(joined(appendSettings(nil), appendHeaders(nil, 0, 1, ":method", "POST", ":path", "/a/b", "content-type", "application/grpc"), appendFrame(nil, frameData, flagEnd, 1, framed([]byte("q")))))
	f.Add(joined(appendSettings(nil, [2]uint32{settingWindow, 1}), appendWindow(nil, 1, 5), appendReset(nil, 1, 8)))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &script{in: bytes.NewReader(append([]byte(preface), b...))}
		server := Server{Most: 100, Methods: map[string]Handler{"/a/b": func(_ context.Context, b []byte) ([]byte, error) { return b, nil }}}
		server.connection(s)
		if s.mu.Lock(); !s.closed {
			t.Error("the connection is open")
		}
		s.mu.Unlock()
	})
}
