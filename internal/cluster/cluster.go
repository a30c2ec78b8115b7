// Package cluster reads a cluster's identity and its objects from outside, before the node belongs to it.
//
// Two questions are answered here. FetchTrust: which CA is this cluster's, and by what do we know? FetchConfigMap:
// what does this ConfigMap hold? The package may use the network, and the client certificate files or the exec
// plugin that a kubeconfig names. It never writes, to disk or to the cluster.
//
// Identity comes before credentials. A connection is a line: it starts in quarantine, and only a line whose
// certificate chain was verified against an anchored CA can carry an Authorization header; the code that sends
// refuses the header on any other. That is why the connections are held here and not by an http.Transport: the chain
// of the very connection that delivered cluster-info is verified once the CA in it is anchored, and the same
// connection then serves the second fetch and the token's request. One handshake does for the whole boot.
//
// What comes back is input from a stranger: bounded in size, time and rate, uncompressed, never redirected, decoded
// strictly. Proxy variables of the environment count for nothing.
//
// Clock, randomness, waiting and dialling are injected by Options. Errors are *Error.
package cluster

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Limits that no option moves.
const (
	maxBody       = 1 << 20         // bytes of an answer's body
	maxHead       = 64 << 10        // bytes of an answer's head
	defaultBudget = 5 * time.Minute // when the caller's context has no deadline
)

// Endpoint says where a cluster answers.
type Endpoint struct {
	// Servers are API servers as ParseServer takes them, in order of preference.
	Servers []string
	// ProxyURL is an http or https proxy that is asked to CONNECT; empty means none, whatever the environment says.
	ProxyURL string
}

// Options inject what is not the cluster's. The zero value is ready for a real node.
type Options struct {
	// Now is the wall clock that certificates are judged by. Default time.Now.
	Now func() time.Time
	// Rand gives a number in [0,1) for jitter. Default math/rand/v2.
	Rand func() float64
	// Sleep waits, or returns the context's error. Default a timer.
	Sleep func(ctx context.Context, d time.Duration) error
	// Dial opens a TCP connection. Default net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// DialTimeout bounds connect, proxy and handshake together; the servers of a list share what is left of the
	// deadline, so that a dead first one leaves time for the next. Default 10 s.
	DialTimeout time.Duration
	// SlowHandshake is from when on a handshake says that the server has too much to do. Default 500 ms.
	SlowHandshake time.Duration
	// RequestTimeout bounds one request and its whole answer. Default 15 s.
	RequestTimeout time.Duration
	// RateWindow and RateBytes are the least rate of an answer that has begun: so many bytes in each such window.
	// Default 1 KiB in 5 s.
	RateWindow time.Duration
	RateBytes  int
	// BackoffMin doubles up to BackoffMax from round to round, with jitter. Default 500 ms and 5 s.
	BackoffMin, BackoffMax time.Duration

	// OnRetry is told before each further attempt, by whichever goroutine makes it.
	OnRetry func(Retry)
	// WaitClock returns nil as soon as the clock is known to be set, an error if it will not be. It is asked at most
	// once a call, when a certificate's dates do not fit the clock. Nil: dates in the future are tried again until
	// the deadline, dates in the past are final.
	WaitClock func(ctx context.Context) error
	// UserAgent is sent with each request. Default "prelet".
	UserAgent string
}

// Retry is an attempt that failed, and that another follows.
type Retry struct {
	Attempt int    // how many there were
	Server  string // the one that failed; of several that did, the one whose wait is over first
	Why     string
	Asked   time.Duration // what the server asked us to wait (Retry-After), as far as it is heeded; 0: nothing
	Wait    time.Duration // before the next; 0 where another server is asked at once
	Least   time.Duration // what Wait is at least; from there to Most it is chance
	Most    time.Duration
	Until   time.Time // when attempts end
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	setDuration(&o.DialTimeout, 10*time.Second)
	setDuration(&o.SlowHandshake, 500*time.Millisecond)
	setDuration(&o.RequestTimeout, 15*time.Second)
	setDuration(&o.RateWindow, 5*time.Second)
	setDuration(&o.BackoffMin, 500*time.Millisecond)
	setDuration(&o.BackoffMax, 5*time.Second)
	if o.RateBytes <= 0 {
		o.RateBytes = 1 << 10
	}
	if o.UserAgent == "" {
		o.UserAgent = "prelet"
	}
	return o
}

func setDuration(d *time.Duration, def time.Duration) {
	if *d <= 0 {
		*d = def
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Client keeps verified lines open between calls, so that a trust exchange and the reads after it share one
// connection. It is safe for concurrent use. Close it when the reads are done.
type Client struct {
	opts Options

	mu       sync.Mutex
	idle     map[lineKey]*line
	reserved map[lineKey]*line  // open, and not used yet
	healths  map[string]*health // by host and port
	worked   string             // the server that answered last; the next call starts there
	closed   bool
}

// New returns a Client without any connection.
func New(opts Options) *Client {
	return &Client{opts: opts.withDefaults(), idle: map[lineKey]*line{}, healths: map[string]*health{}, reserved: map[lineKey]*line{}}
}

// Close ends the idle connections. Calls in flight go on, and end theirs when they are done.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, lines := range []map[lineKey]*line{c.idle, c.reserved} {
		for k, l := range lines {
			l.close()
			delete(lines, k)
		}
	}
}

// FetchTrust is Client.FetchTrust on a client of its own.
func FetchTrust(ctx context.Context, req TrustRequest, opts Options) (Trust, error) {
	c := New(opts)
	defer c.Close()
	return c.FetchTrust(ctx, req)
}

// FetchConfigMap is Client.FetchConfigMap on a client of its own.
func FetchConfigMap(ctx context.Context, req ObjectRequest, opts Options) (Object, error) {
	c := New(opts)
	defer c.Close()
	return c.FetchConfigMap(ctx, req)
}

// reserve keeps a line for whoever opens one like it next.
func (c *Client) reserve(l *line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.reserved[l.key] != nil {
		l.close()
		return
	}
	l.old = true
	c.reserved[l.key] = l
}

// claim hands out a reserved line, or nil.
func (c *Client) claim(k lineKey) *line {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.reserved[k]
	delete(c.reserved, k)
	return l
}

// take hands out the idle line for a key, or nil.
func (c *Client) take(k lineKey) *line {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.idle[k]
	delete(c.idle, k)
	return l
}

// keep puts a line back that may carry another request, and closes one that may not.
func (c *Client) keep(l *line) {
	if !l.reusable || l.key.anchor == "" {
		l.close()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.idle[l.key] != nil {
		l.close()
		return
	}
	l.old = true
	c.idle[l.key] = l
}
