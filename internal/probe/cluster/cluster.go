// Package cluster reads a cluster's identity and its objects from outside, before the node belongs to it.
//
// FetchTrust returns the cluster's CA and what it was verified by. Client.FetchConfigMap returns the content of a
// ConfigMap. The package may use the network, and the client certificate files, the token file or the exec plugin
// that a kubeconfig names. Folder reads the same from a folder that replaces a cluster. It never writes, to disk or to
// the cluster.
//
// Requests are made with client-go's rest, kubeconfigs are read with its clientcmd. The rules on top are ours:
//
//   - The server is identified before a credential is sent. Cluster-info is fetched without verification, the chain of
//     that connection is verified against the CA in it, and it is fetched again over a connection that was verified in
//     its handshake. No request without verification carries an Authorization header.
//   - Responses are input from a stranger: bounded in size and time, uncompressed, never redirected, decoded strictly.
//   - Only the site's proxy is used, never one of the environment.
//   - Each server of a list is judged for itself, see search.try.
//
// Errors are *fault.Fault: Summary is what was read, At the server that failed, where it is one. That an object is not
// there has the code fault.Absent.
package cluster

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// Limits that no option changes.
const (
	// maxBody is bytes of a response's body. A ConfigMap holds 1 MiB of data, which JSON writes as up to six times as much.
	maxBody       = 8 << 20
	maxHead       = 64 << 10        // bytes of a response's head
	defaultBudget = 5 * time.Minute // when the caller's context has no deadline
)

const userAgent = "prelet"

// Endpoint is the address of a cluster.
type Endpoint struct {
	// Servers are API servers as ParseServer takes them, in order of preference.
	Servers []string
	// ProxyURL is an http or https proxy for CONNECT; empty means none, whatever the environment contains.
	ProxyURL string
}

// Options are the package's dependencies and limits. The zero value is ready for a real node.
type Options struct {
	// Now is the wall clock that certificates are verified against. Default time.Now.
	Now func() time.Time
	// Sleep waits, or returns the context's error. Default a timer.
	Sleep func(ctx context.Context, d time.Duration) error
	// Dial opens a TCP connection. Default net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// LookupHost returns the addresses of a server's name. Default net.DefaultResolver.
	LookupHost func(ctx context.Context, host string) ([]string, error)

	// DialTimeout bounds the resolution of a name, and a connect. Default 10 s.
	DialTimeout time.Duration
	// RequestTimeout bounds one request with its connection and its whole response. Default 25 s: a server that is
	// asked by a whole fleet shakes hands late, and whoever gives up made it work in vain.
	RequestTimeout time.Duration
	// BackoffMin triples up to BackoffMax from round to round; jitter adds up to as much again. Default 500 ms and 10
	// s.
	BackoffMin, BackoffMax time.Duration

	// OnRetry is called before each wait, by the goroutine that waits.
	OnRetry func(Retry)
	// WaitClock returns nil as soon as the clock is known to be set, an error if it will not be. It is called at most
	// once a call, when a certificate's dates do not fit the clock. Nil: dates in the future are tried again until
	// the deadline, dates in the past are final.
	WaitClock func(ctx context.Context) error
}

// Retry describes a wait between attempts.
type Retry struct {
	Server string        // the server that is asked next
	Why    string        // why it was not enough to ask it before
	Wait   time.Duration // until it is asked again; 0 where only the clock is waited for
	Until  time.Time     // when attempts end
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.LookupHost == nil {
		o.LookupHost = net.DefaultResolver.LookupHost
	}
	setDuration(&o.DialTimeout, 10*time.Second)
	setDuration(&o.RequestTimeout, 25*time.Second)
	setDuration(&o.BackoffMin, 500*time.Millisecond)
	setDuration(&o.BackoffMax, 10*time.Second)
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

// Client keeps connections open between calls, so that the requests of a boot share them. It is safe for concurrent
// use. Close it when the reads are done.
type Client struct {
	opts Options

	mu         sync.Mutex
	transports map[transportKey]*http.Transport
	worked     target // the one that answered last; the next call starts there
}

// silenceLibraries turns off the logs of client-go and net/http, which may quote what a server sends. Their errors
// are returned to us, and ours have a cause and a next step.
var silenceLibraries = sync.OnceFunc(func() {
	klog.SetLogger(klog.New(nil))
	log.SetOutput(io.Discard)
})

// New returns a Client without any connection.
func New(opts Options) *Client {
	silenceLibraries()
	return &Client{opts: opts.withDefaults(), transports: map[transportKey]*http.Transport{}}
}

// Close ends the idle connections. Calls in flight continue.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()

	for _, t := range c.transports {
		t.CloseIdleConnections()
	}
	clear(c.transports)
}

// FetchTrust is Client.FetchTrust on a client of its own.
func FetchTrust(ctx context.Context, req TrustRequest, opts Options) (Trust, error) {
	c := New(opts)
	defer c.Close()
	return c.FetchTrust(ctx, req)
}
