package cluster

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

var (
	errSlow     = errors.New("the answer trickles in below the least rate")
	errTooLarge = errors.New("the answer is larger than 1 MiB")
	errStale    = errors.New("the connection had been closed")
	errGzip     = errors.New("the answer is compressed, which was not asked for")
	errNoToken  = errors.New("refused to send a credential to a server that was not verified")
)

// lineKey is what makes two lines interchangeable.
type lineKey struct {
	server string
	proxy  string
	anchor string // the CA bundle that the chain was verified against; empty in quarantine
	client string // the client certificate's source, or empty
}

// line is one TLS connection to one server. It is used by one caller at a time.
type line struct {
	key      lineKey
	server   *url.URL
	conn     *tls.Conn
	paced    *pacedReader
	reader   *bufio.Reader
	opts     *Options
	old      bool // it carried a request before, or was put aside: it may have been closed since
	reusable bool
}

// open connects and shakes hands. A server that was away, or that is slow to shake hands, is not asked at once: that is an errBack or an
// errBusy, and the line is reserved. With a key without an anchor, config must be the one of a quarantine.
func (c *Client) open(ctx context.Context, server *url.URL, key lineKey, config *tls.Config, within time.Duration) (*line, error) {
	if l := c.claim(key); l != nil {
		return l, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, errDialTimeout(within))
	defer cancel()
	began := time.Now()
	raw, err := c.dial(ctx, server, key.proxy)
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) { // a silence can be this node's network
			c.lost(server, began, err)
		}
		return nil, err
	}
	config = config.Clone()
	config.MinVersion = tls.VersionTLS12
	config.Time = c.opts.Now
	config.NextProtos = []string{"http/1.1"} // a few small requests: HTTP/2 only costs
	if config.ServerName == "" {
		config.ServerName = server.Hostname()
	}
	conn := tls.Client(raw, config)
	shaking := time.Now()
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		err = orCause(ctx, err)
		c.lost(server, began, err)
		return nil, err
	}
	away := c.met(server)
	p := &pacedReader{conn: conn, window: c.opts.RateWindow, least: c.opts.RateBytes}
	l := &line{key: key, server: server, conn: conn, paced: p, reader: bufio.NewReaderSize(p, 8<<10), opts: &c.opts, reusable: true}
	switch took := time.Since(shaking); {
	case away > 0:
		c.reserve(l)
		return nil, errBack(away)
	case took > c.opts.SlowHandshake:
		c.reserve(l)
		return nil, errBusy(took)
	}
	return l, nil
}

// reopen opens a line in the place of one that had died while it was kept. There is nothing to wait for that was not waited for already.
func (c *Client) reopen(ctx context.Context, server *url.URL, key lineKey, config *tls.Config, within time.Duration) (*line, error) {
	c.mayHaveStarted(server, false)
	l, err := c.open(ctx, server, key, config, within)
	var back errBack
	var busy errBusy
	if errors.As(err, &back) || errors.As(err, &busy) {
		l, err = c.open(ctx, server, key, config, within) // which is the one that was reserved
	}
	if err == nil {
		l.old = false // or one that dies at once would be opened for ever
	}
	return l, err
}

type errDialTimeout time.Duration

func (e errDialTimeout) Error() string { return "no connection within " + time.Duration(e).String() }

// orCause prefers our own reason for a deadline over the network's word for it. A connection has the same deadline as
// its context, and may notice it a moment earlier.
func orCause(ctx context.Context, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (l *line) close() { _ = l.conn.Close() } // what a closing peer says no longer matters

// reply is a whole answer.
type reply struct {
	status  int
	header  http.Header
	body    []byte
	secrets []string // what we sent, and what must not be printed if the server echoes it

	starting bool // a refusal of a server that says that it is not ready
	doubtful bool // a refusal of one that does not say whether it is
}

func (r *reply) withhold() {
	r.body = []byte(withhold(string(r.body), r.secrets))
	r.header.Set("Location", withhold(r.header.Get("Location"), r.secrets))
}

// roundTrip sends one request and reads the whole answer. After an error the line is of no further use. A line that
// was kept idle answers errStale if the server had given it up before it read the request.
func (l *line) roundTrip(ctx context.Context, req *http.Request) (*reply, error) {
	l.reusable = false
	if l.key.anchor == "" && req.Header.Get("Authorization") != "" {
		return nil, errNoToken
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.opts.RequestTimeout, errRequestTimeout(l.opts.RequestTimeout))
	defer cancel()
	end, _ := ctx.Deadline()
	l.paced.begin(ctx, end)
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = l.conn.SetWriteDeadline(end)

	stale := l.old
	l.old = true
	r, err := l.exchange(req)
	if err != nil {
		if stale && l.paced.seen == 0 && ctx.Err() == nil {
			return nil, errStale
		}
		return nil, orCause(ctx, err)
	}
	return r, nil
}

type errRequestTimeout time.Duration

func (e errRequestTimeout) Error() string {
	return "no whole answer within " + time.Duration(e).String()
}

func (l *line) exchange(req *http.Request) (*reply, error) {
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Accept-Encoding", "identity")
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", l.opts.UserAgent)
	}
	if err := req.Write(l.conn); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(l.reader, req)
	for n := 0; err == nil && resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols && n < 5; n++ {
		resp, err = http.ReadResponse(l.reader, req) // 100 Continue, 103 Early Hints
	}
	if err != nil {
		return nil, l.paced.explain(err)
	}
	defer resp.Body.Close()
	if e := resp.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, errGzip
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return nil, l.paced.explain(err)
	}
	if len(body) > maxBody {
		return nil, errTooLarge
	}
	l.reusable = !resp.Close && l.reader.Buffered() == 0
	return &reply{status: resp.StatusCode, header: resp.Header, body: body}, nil
}

// pacedReader bounds one answer in bytes, in time and, once it has begun, in rate.
type pacedReader struct {
	conn   net.Conn
	window time.Duration
	least  int

	ctx    context.Context
	end    time.Time
	seen   int // bytes of this answer
	since  time.Time
	inside int // bytes since then
	first  []byte
	failed error // of the last read
}

func (p *pacedReader) begin(ctx context.Context, end time.Time) {
	p.ctx, p.end, p.seen, p.inside, p.first, p.failed = ctx, end, 0, 0, p.first[:0], nil
}

// explain gives the reason why an answer could not be parsed: net/http reports a head that breaks off as a malformed
// one, or the end of what it was given.
func (p *pacedReader) explain(err error) error {
	const http1 = "HTTP/1."
	switch {
	case p.failed == nil:
		return err
	case !errors.Is(p.failed, io.EOF):
		return p.failed
	case errors.Is(err, io.EOF), strings.HasPrefix(http1, string(p.first)), strings.HasPrefix(string(p.first), http1):
		return io.ErrUnexpectedEOF
	}
	return err
}

func (p *pacedReader) Read(b []byte) (n int, err error) {
	if p.failed != nil { // a reader of lines takes what came before an error and reads on
		return 0, p.failed
	}
	defer func() { p.failed = err }()
	for {
		until := p.end
		if p.seen > 0 {
			if next := p.since.Add(p.window); next.Before(until) {
				until = next
			}
		}
		_ = p.conn.SetReadDeadline(until)
		if p.ctx.Err() != nil { // after the deadline was set, so that a cancellation in between is not lost
			return 0, context.Cause(p.ctx)
		}
		n, err = p.conn.Read(b)
		if n > 0 {
			p.first = append(p.first, b[:min(n, 8-min(len(p.first), 8))]...)
			if p.seen == 0 {
				p.since = time.Now()
			}
			p.seen += n
			p.inside += n
			if p.seen > maxBody+maxHead {
				return 0, errTooLarge
			}
		}
		if p.seen > 0 && time.Since(p.since) >= p.window {
			if p.inside < p.least && !errors.Is(err, io.EOF) {
				return 0, errSlow
			}
			p.since, p.inside = time.Now(), 0
		}
		var ne net.Error
		if n == 0 && errors.As(err, &ne) && ne.Timeout() && time.Now().Before(p.end) && p.ctx.Err() == nil {
			continue // only a window has ended
		}
		return n, err
	}
}
