package rpc

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Handler answers the calls of one method. What it returns beside a *Status goes as of an unknown kind. Its context ends with the
// call's time, when the caller gives up, and with the connection.
type Handler func(ctx context.Context, request []byte) ([]byte, error)

// Server answers calls.
type Server struct {
	Methods map[string]Handler // by path: /package.Service/Method
	Most    int                // bytes of a request
	Last    string             // the method after whose answer Serve ends, if there is one

	mu      sync.Mutex
	stopped bool
	stop    map[int]func()
	number  int // of the last in stop
}

// maxStreams is how many calls one connection may have at once. One whose caller gave up counts until its handler has ended.
const maxStreams = 32

// Serve answers on every connection that accept returns, until it fails. The error is nil after Stop.
func (s *Server) Serve(l Listener) error {
	forget, ok := s.atStop(func() { _ = l.Close() })
	if !ok {
		return nil
	}
	defer forget()
	for {
		c, err := l.Accept()
		if err != nil {
			if s.isStopped() {
				return nil
			}
			return err
		}
		go s.connection(c)
	}
}

// Stop ends Serve, and what is being answered.
func (s *Server) Stop() {
	s.mu.Lock()
	s.stopped = true
	all := s.stop
	s.stop = nil
	s.mu.Unlock()
	for _, f := range all {
		f()
	}
}

func (s *Server) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// atStop remembers what Stop does, until it is forgotten. It is false when that is over.
func (s *Server) atStop(f func()) (forget func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, false
	}
	if s.stop == nil {
		s.stop = map[int]func(){}
	}
	s.number++
	n := s.number
	s.stop[n] = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.stop, n)
	}, true
}

// stream is one call.
type stream struct {
	id      uint32
	window  int64
	method  string
	timeout string
	refused error // it is wrong already; the rest of it is read and forgotten
	body    []byte
	asked   bool // all of it is there
	cancel  context.CancelFunc
}

// connection is a server's side. One goroutine reads; each call has another, which writes.
type connection struct {
	s    *Server
	conn Conn
	in   *reader
	ctx  context.Context

	writing sync.Mutex
	mu      sync.Mutex // of all below
	room    *sync.Cond // a window has grown, or the end has come
	window  int64
	initial int64
	streams map[uint32]*stream
	busy    int // streams, and handlers that still run for one that was dropped
	last    uint32
	over    bool
}

func (s *Server) connection(conn Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &connection{s: s, conn: conn, in: newReader(conn), ctx: ctx, window: firstWindow, initial: firstWindow, streams: map[uint32]*stream{}}
	c.room = sync.NewCond(&c.mu)
	if forget, ok := s.atStop(func() { _ = conn.Close() }); ok {
		_ = c.serve() // whoever called is gone, or speaks something else: nobody is left to tell
		forget()
	}
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.room.Broadcast()
	cancel()
	_ = conn.Close()
}

func (c *connection) serve() error {
	hello := make([]byte, len(preface))
	if _, err := io.ReadFull(c.in.in, hello); err != nil || string(hello) != preface {
		return errProtocol
	}
	most := prefix + c.s.Most + maxHeaders
	out := appendSettings(nil, [2]uint32{settingMany, maxStreams}, [2]uint32{settingWindow, uint32(most)}, [2]uint32{settingList, maxHeaders})
	if err := c.write(appendWindow(out, 0, most)); err != nil {
		return err
	}
	for {
		f, err := c.in.frame()
		if err != nil {
			return err
		}
		if err := c.take(f); err != nil {
			return err
		}
	}
}

func (c *connection) write(b []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.conn.Write(b)
	return err
}

func (c *connection) take(f frame) error {
	switch f.kind {
	case frameSettings:
		if f.has(flagAck) {
			return nil
		}
		if err := settings(f.body, c.setting); err != nil {
			return err
		}
		return c.write(appendFrame(nil, frameSettings, flagAck, 0, nil))
	case framePing:
		if f.has(flagAck) {
			return nil
		}
		return c.write(appendFrame(nil, framePing, flagAck, 0, f.body))
	case frameWindow:
		return c.grow(f.stream, window(f.body))
	case frameReset:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.drop(c.streams[f.stream])
	case frameHeaders:
		h, err := c.in.block(f)
		if err != nil {
			return err
		}
		return c.open(f, h)
	case frameData:
		return c.data(f)
	case frameMore:
		return fmt.Errorf("%w: headers go on that did not begin", errProtocol)
	case frameGoAway:
		return nil // what is being answered may end
	}
	return nil
}

// drop forgets a call. It wants the lock.
func (c *connection) drop(s *stream) {
	if s == nil {
		return
	}
	delete(c.streams, s.id)
	if !s.asked { // else its handler's end is what counts
		c.busy--
	}
	if s.cancel != nil {
		s.cancel()
	}
	c.room.Broadcast()
}

func (c *connection) setting(id uint16, v uint32) error {
	if id != settingWindow {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if v > maxWindow {
		return fmt.Errorf("%w: a window of %d", errProtocol, v)
	}
	for _, s := range c.streams {
		s.window += int64(v) - c.initial
	}
	c.initial = int64(v)
	c.room.Broadcast()
	return nil
}

func (c *connection) grow(id uint32, more int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := &c.window
	if id != 0 {
		s := c.streams[id]
		if s == nil {
			return nil // it was answered
		}
		at = &s.window
	}
	if *at += more; *at > maxWindow {
		return fmt.Errorf("%w: a window of %d", errProtocol, *at)
	}
	c.room.Broadcast()
	return nil
}

// open begins a call, or ends one with headers behind its message.
func (c *connection) open(f frame, h map[string]string) error {
	c.mu.Lock()
	s := c.streams[f.stream]
	if s != nil {
		c.mu.Unlock()
		if !f.has(flagEnd) || s.asked {
			return fmt.Errorf("%w: headers inside a question", errProtocol)
		}
		c.ask(s)
		return nil
	}
	if f.stream%2 == 0 || f.stream <= c.last {
		c.mu.Unlock()
		return fmt.Errorf("%w: stream %d", errProtocol, f.stream)
	}
	c.last = f.stream
	if c.busy >= maxStreams {
		c.mu.Unlock()
		return c.write(appendReset(nil, f.stream, codeRefused))
	}
	s = &stream{id: f.stream, window: c.initial, method: h[":path"], timeout: h["grpc-timeout"]}
	c.streams[s.id] = s
	c.busy++
	c.mu.Unlock()
	switch {
	case h[":method"] != "POST" || !strings.HasPrefix(h["content-type"], "application/grpc"):
		s.refused = Errorf(Internal, "%s %s of %q is no call of gRPC", h[":method"], s.method, h["content-type"])
	case c.s.Methods[s.method] == nil:
		s.refused = Errorf(Unimplemented, "there is no method %s", s.method)
	case h["grpc-encoding"] != "" && h["grpc-encoding"] != "identity":
		s.refused = Errorf(Unimplemented, "messages compressed by %s are not read", h["grpc-encoding"])
	}
	if f.has(flagEnd) {
		c.ask(s)
	}
	return nil
}

func (c *connection) data(f frame) error {
	if n := len(f.body); n > 0 { // the connection's window is as large as before; a call's is that of one message
		if err := c.write(appendWindow(nil, 0, n)); err != nil {
			return err
		}
	}
	b, err := f.content()
	if err != nil {
		return err
	}
	c.mu.Lock()
	s := c.streams[f.stream]
	known := f.stream <= c.last
	c.mu.Unlock()
	switch {
	case s == nil && known, s != nil && s.asked && s.refused != nil:
		return nil // it was answered, or is about to be
	case s == nil || s.asked:
		return fmt.Errorf("%w: data for stream %d", errProtocol, f.stream)
	}
	if s.refused == nil {
		s.body = append(s.body, b...)
		if _, _, s.refused = sizeOf(s.body, c.s.Most); s.refused == nil && len(s.body) > prefix+c.s.Most {
			s.refused = Errorf(ResourceExhausted, "more came than one message of %d bytes", c.s.Most)
		}
	}
	if f.has(flagEnd) {
		c.ask(s)
	} else if s.refused != nil {
		c.ask(s) // the rest is not waited for
	}
	return nil
}

// ask lets a call be answered.
func (c *connection) ask(s *stream) {
	s.asked = true
	var ctx context.Context
	var cancel context.CancelFunc
	if d, ok := duration(s.timeout); ok {
		ctx, cancel = context.WithTimeout(c.ctx, d)
	} else {
		ctx, cancel = context.WithCancel(c.ctx)
	}
	c.mu.Lock()
	s.cancel = cancel
	c.mu.Unlock()
	go func() {
		defer cancel()
		answer, err := c.answer(ctx, s)
		_ = c.reply(s, answer, err) // if this fails, the connection is over, and its reader knows
		c.mu.Lock()
		c.drop(s)
		c.busy--
		c.mu.Unlock()
		if s.method == c.s.Last && err == nil {
			c.s.Stop()
		}
	}()
}

func (c *connection) answer(ctx context.Context, s *stream) ([]byte, error) {
	if s.refused != nil {
		return nil, s.refused
	}
	request, err := whole(s.body, c.s.Most)
	if err != nil {
		return nil, err
	}
	return c.s.Methods[s.method](ctx, request)
}

// Listener is what Serve takes connections from.
type Listener interface {
	Accept() (Conn, error)
	Close() error
}
