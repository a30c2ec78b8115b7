// Package cluster reads a cluster's identity and its objects before the node has joined it. FetchTrust returns the
// cluster's CA and how it was verified, Client.FetchConfigMap and Client.FetchNode return an object, and Folder reads
// the same from a folder that replaces a cluster. The package must not write, to the disk or to the cluster, and must
// not send a credential to a server that is not verified.
//
// Responses are untrusted input: limited in size and time, uncompressed, never redirected, decoded strictly. Only the
// site's proxy is used, never a proxy of the environment. Errors are *fault.Fault: Summary is the object, At the
// server that failed, if it was one server, and the code of an object that does not exist is fault.Absent.
package cluster

import (
	"cmp"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/prelet/prelet/internal/platform/systemd"
)

// Fixed limits.
const (
	// maxBody limits a response's body, in bytes. A ConfigMap has up to 1 MiB of data, which JSON may encode in
	// six times as much.
	maxBody       = 8 << 20
	maxHead       = 64 << 10        // bytes of a response's head
	defaultBudget = 5 * time.Minute // when the caller's context has no deadline
)

const userAgent = "prelet"

// Endpoint is the address of a cluster.
type Endpoint struct {
	// Servers are API servers as apiaddress.Parse accepts them, in order of preference.
	Servers []string
	// ProxyURL is an http or https proxy for CONNECT; "" means none. The environment's proxy is never used.
	ProxyURL string
}

// ClientConfig has the package's dependencies and limits. The zero value works on a real node.
type ClientConfig struct {
	// Now is the wall clock that certificates are verified against. Default time.Now.
	Now func() time.Time
	// Sleep waits, or returns the context's error. Default systemd.Clock.
	Sleep func(ctx context.Context, d time.Duration) error
	// Dial opens a TCP connection. Default net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// LookupHost returns the addresses of a server's name. Default net.DefaultResolver.
	LookupHost func(ctx context.Context, host string) ([]string, error)

	// DialTimeout limits the lookup of a name, and a TCP connect. Default 10 s.
	DialTimeout time.Duration
	// RequestTimeout limits one request: its connection and its complete response. Default 25 s, because the TLS
	// handshake is slow while a whole fleet boots, and giving up earlier wastes the server's work.
	RequestTimeout time.Duration
	// BackoffMin triples up to BackoffMax from round to round; jitter adds up to as much again. Defaults 500 ms and
	// 10 s.
	BackoffMin, BackoffMax time.Duration

	// OnRetry is called before each wait, by the goroutine that waits.
	OnRetry func(Retry)
	// WaitClock waits until the clock is set, and returns an error if it will not be. It is called at most once a
	// search, when a certificate is not valid at the current time. If it is nil, certificates that are not valid
	// yet are retried until the deadline, and expired certificates are final.
	WaitClock func(ctx context.Context) error
}

// Retry describes a wait between attempts.
type Retry struct {
	Server string        // the server that is asked next
	Why    string        // the reason of its latest failure
	Wait   time.Duration // until it is asked again; 0 while waiting for the clock
	Until  time.Time     // when attempts end
}

func (o ClientConfig) withDefaults() ClientConfig {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = systemd.Clock{}.Sleep
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.LookupHost == nil {
		o.LookupHost = net.DefaultResolver.LookupHost
	}
	if o.OnRetry == nil {
		o.OnRetry = func(Retry) {}
	}
	o.DialTimeout = cmp.Or(o.DialTimeout, 10*time.Second)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 25*time.Second)
	o.BackoffMin = cmp.Or(o.BackoffMin, 500*time.Millisecond)
	o.BackoffMax = cmp.Or(o.BackoffMax, 10*time.Second)

	return o
}

// Client keeps connections open between calls, so that the requests of a boot share them. It is safe for concurrent
// use. Close it after the last call.
type Client struct {
	opts ClientConfig

	mu         sync.Mutex
	transports map[transportKey]*http.Transport

	// preferred is the latest target that returned an object, never nil. The next search starts with it.
	preferred atomic.Pointer[target]
}

// silenceLibraries turns off the logs of client-go and net/http, which may quote a server's response. Their
// errors are returned, too, and are reported with a next step.
var silenceLibraries = sync.OnceFunc(func() {
	klog.SetLogger(klog.New(nil))
	log.SetOutput(io.Discard)
})

// New returns a Client without connections.
func New(opts ClientConfig) *Client {
	silenceLibraries()

	c := &Client{
		opts:       opts.withDefaults(),
		transports: map[transportKey]*http.Transport{},
	}
	c.preferred.Store(&target{})

	return c
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

// FetchTrust is Client.FetchTrust with a new client.
func FetchTrust(ctx context.Context, req TrustRequest, opts ClientConfig) (Trust, error) {
	c := New(opts)
	defer c.Close()

	return c.FetchTrust(ctx, req)
}
