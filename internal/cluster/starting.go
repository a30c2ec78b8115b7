package cluster

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

// refusalGrace is how long refusals are not taken at their word of a server that has just started, or may have.
const refusalGrace = 15 * time.Second

// health is what was noticed of a server. Nobody was asked for it.
type health struct {
	gone     time.Time // since when it does not answer; zero: it did, when it was asked last
	fresh    time.Time // when it was noticed that it may have just started
	starting bool      // it said so itself
}

func (c *Client) healthOf(server *url.URL, look func(*health)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.healths[server.Host]
	if h == nil {
		h = &health{}
		c.healths[server.Host] = h
	}
	look(h)
}

// errBack is a server that shakes hands again, after so long. One that starts does so for some seconds before it knows anybody. The line
// to it is reserved.
type errBack time.Duration

func (errBack) Error() string { return "it was away and is back, and has a moment to start" }

// errBusy is a server that took so long to shake hands. The line to it is reserved.
type errBusy time.Duration

func (errBusy) Error() string { return "it is busy: it shook hands slowly" }

// lost notes that a server refused a connection, ended it, or did not shake hands, in an attempt that began then. What else fails says
// nothing of how it is.
func (c *Client) lost(server *url.URL, began time.Time, err error) {
	var slow errDialTimeout
	for _, sign := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, sign) || errors.As(err, &slow) {
			c.healthOf(server, func(h *health) {
				if h.gone.IsZero() {
					h.gone = began
				}
			})
			return
		}
	}
}

// met notes that a server shook hands, and says for how long it had not answered.
func (c *Client) met(server *url.URL) (away time.Duration) {
	c.healthOf(server, func(h *health) {
		if !h.gone.IsZero() {
			away = time.Since(h.gone)
			*h = health{fresh: time.Now()}
		}
	})
	return away
}

// mayHaveStarted notes what a refusal can come from.
func (c *Client) mayHaveStarted(server *url.URL, saysSo bool) {
	c.healthOf(server, func(h *health) { h.fresh, h.starting = time.Now(), saysSo })
}

// settle looks twice at a refusal: for some seconds after its start an API server answers everybody with 401 or 403, because it
// does not know its tokens, roles and bindings yet. Its /readyz says so, with 500 until all is loaded. Before the roles are, and
// for good where anonymous users may not ask, /readyz is refused as well; then only time tells. send
// sends the request that is meant, over l.
//
// A server that was away, or said that it is starting, is not asked about its refusals for refusalGrace: the next try tells, and each
// that waits for a server that starts should ask it as little as can be.
//
// The word of a server that is not verified yet costs nothing here: it can make us wait, as silence could.
func (c *Client) settle(ctx context.Context, l *line, server *url.URL, send func() (*reply, error)) (*reply, error) {
	r, err := send()
	if err != nil || !refusal(r) {
		return r, err
	}
	c.healthOf(server, func(h *health) {
		if !h.fresh.IsZero() && time.Since(h.fresh) < refusalGrace {
			r.starting, r.doubtful = h.starting, !h.starting
		}
	})
	if r.starting || r.doubtful || !l.reusable {
		return r, nil
	}
	u := *server
	u.Path = "/readyz"
	ready, err := l.roundTrip(ctx, getRequest(ctx, &u))
	if err != nil {
		return nil, err
	}
	switch {
	case ready.status >= http.StatusInternalServerError || ready.status == http.StatusTooManyRequests:
		r.starting = true
		c.mayHaveStarted(server, true)
	case refusal(ready):
		r.doubtful = true
		c.mayHaveStarted(server, false)
	case l.reusable:
		return send() // it may have become ready in between
	}
	return r, nil
}

func refusal(r *reply) bool {
	return r.status == http.StatusUnauthorized || r.status == http.StatusForbidden
}
