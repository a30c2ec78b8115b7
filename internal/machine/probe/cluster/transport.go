package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

var (
	errCompressed = errors.New("the response is compressed, which was not requested")
	errCredential = errors.New("refused to send a credential to a server that was not verified")
)

// timeoutError is the cause of a deadline that this package sets.
type timeoutError struct {
	what  string
	after time.Duration
}

func (e timeoutError) Error() string {
	return fmt.Sprintf("no %s within %s", e.what, e.after)
}

// proxyError is an error of the site's proxy, in contrast to the server behind it.
type proxyError struct{ error }

func (e proxyError) Unwrap() error { return e.error }

// target is one server at one of its addresses, both host:port. With a proxy the address is the server's name.
type target struct{ host, address string }

func (t target) url() string { return "https://" + t.host }

// String returns the server's URL, and the address if it is different.
func (t target) String() string {
	if t.address == "" || t.address == t.host {
		return t.url()
	}

	return t.url() + " (" + t.address + ")"
}

// transportKey contains everything that makes two connections different: the destination and the two identities
// in TLS.
type transportKey struct {
	target
	proxy, serverName, ca, cert, key string
	insecure                         bool
}

// newConfig returns client-go's configuration of an anonymous request. ca is PEM; without it the server is not
// verified, which only the first fetch of cluster-info may do.
func newConfig(ca []byte, proxy string) *rest.Config {
	config := &rest.Config{UserAgent: userAgent}
	config.CAData = ca
	config.Insecure = len(ca) == 0
	setProxy(config, proxy)

	return config
}

// setProxy sets the site's proxy, which is valid or empty.
func setProxy(config *rest.Config, proxy string) {
	config.Proxy = nil
	if u, err := ParseProxy(proxy); err == nil {
		config.Proxy = http.ProxyURL(u)
	}
}

// transport returns the transport to a target, with the TLS that client-go makes of config. It uses HTTP/1.1
// without compression, the limits of ClientConfig, and no proxy but config's. client-go's own transport is not used,
// because it has fixed limits, verifies an https proxy with the cluster's CA, and is kept for the lifetime of the
// process.
func (c *Client) transport(t target, config *rest.Config) (*http.Transport, error) {
	key := transportKey{
		target:     t,
		serverName: config.ServerName,
		insecure:   config.Insecure,
		ca:         string(config.CAData),
		cert:       string(config.CertData),
		key:        string(config.KeyData),
	}

	var proxy *url.URL
	if config.Proxy != nil {
		proxy, _ = config.Proxy(nil) // http.ProxyURL, which does not fail
		key.proxy = proxy.String()
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if existing := c.transports[key]; existing != nil {
		return existing, nil
	}

	http1 := rest.CopyConfig(config)
	http1.NextProtos = []string{"http/1.1"}

	tlsConfig, err := rest.TLSConfigFor(http1)
	if err != nil {
		return nil, err
	}
	tlsConfig.Time = c.opts.Now

	transport := &http.Transport{
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    2 * c.opts.RequestTimeout, // longer than that of the request
		MaxResponseHeaderBytes: maxHead,
		DisableCompression:     true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return c.dial(ctx, network, t.address)
		},
	}
	if proxy != nil {
		c.useProxy(transport, proxy)
	}

	c.transports[key] = transport

	return transport, nil
}

func (c *Client) useProxy(transport *http.Transport, proxy *url.URL) {
	transport.Proxy = http.ProxyURL(proxy)
	transport.DialContext = c.dial
	transport.OnProxyConnectResponse = checkConnect

	if proxy.Scheme == "https" {
		// The proxy is verified with the system's CAs. The transport's configuration is that of the cluster.
		transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			return c.dialTLS(ctx, network, address, proxy.Hostname())
		}
	}
}

// checkConnect refuses every response of a proxy to CONNECT but 200.
func checkConnect(
	_ context.Context,
	_ *url.URL,
	_ *http.Request,
	resp *http.Response,
) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}

	return proxyError{fmt.Errorf("CONNECT failed with HTTP %d", resp.StatusCode)}
}

func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	limit := c.opts.DialTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit, timeoutError{"connection", limit})
	defer cancel()

	conn, err := c.opts.Dial(ctx, network, address)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}

	return conn, err
}

func (c *Client) dialTLS(ctx context.Context, network, address, name string) (net.Conn, error) {
	raw, err := c.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}

	limit := c.opts.RequestTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit, timeoutError{"TLS handshake", limit})
	defer cancel()

	conn := tls.Client(raw, &tls.Config{
		ServerName: name,
		MinVersion: tls.VersionTLS12,
		Time:       c.opts.Now,
		NextProtos: []string{"http/1.1"},
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}

		return nil, proxyError{err}
	}

	return conn, nil
}

// guard is the last step before the network. It refuses to send a credential over an unverified connection or to
// another server, and limits the response's body.
type guard struct {
	next     http.RoundTripper
	host     string
	verified bool
	sent     string // the Authorization header, which the server may echo
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	g.sent = r.Header.Get("Authorization")

	isOurs := r.URL.Scheme == "https" && r.URL.Host == g.host
	if g.sent != "" && !(g.verified && isOurs) {
		return nil, errCredential
	}

	resp, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}

	resp.Body = http.MaxBytesReader(nil, resp.Body, maxBody)

	return resp, nil
}

// httpClient returns client-go's client for a target, with the credentials of config. It does not follow redirects.
func (c *Client) httpClient(t target, config *rest.Config) (*http.Client, *guard, error) {
	transport, err := c.transport(t, config)
	if err != nil {
		return nil, nil, err
	}

	g := &guard{
		next:     transport,
		host:     t.host,
		verified: !config.Insecure,
	}

	// The transport has the TLS configuration already.
	guarded := rest.CopyConfig(config)
	guarded.TLSClientConfig = rest.TLSClientConfig{}
	guarded.Transport = g

	client, err := rest.HTTPClientFor(guarded)
	if err != nil {
		return nil, nil, err
	}

	client.CheckRedirect = RefuseRedirect

	return client, g, nil
}

// RefuseRedirect makes an HTTP client return a redirect as the response.
func RefuseRedirect(*http.Request, []*http.Request) error {
	return http.ErrUseLastResponse
}

// reply is a complete response.
type reply struct {
	status int
	header http.Header
	body   []byte
	tls    *tls.ConnectionState
	secret string // the credential of the request, which must not be printed if the server echoes it

	// With a refusal by a server that is not ready: the status of its /readyz, and the wait that it demands.
	notReady      int
	notReadyAfter time.Duration
}

// isStarting reports whether the server refused because it is not ready yet, and not because of the credential.
func (r *reply) isStarting() bool { return isOverloaded(r.notReady) }

func isOverloaded(status int) bool {
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
}

// get requests one path from a target and reads the complete response. It does not retry.
func (c *Client) get(
	ctx context.Context,
	t target,
	config *rest.Config,
	path string,
) (*reply, *failure) {
	client, g, err := c.httpClient(t, config)
	if err != nil {
		return nil, failCredential("the kubeconfig", err)
	}

	limit := c.opts.RequestTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit, timeoutError{"complete response", limit})
	defer cancel()

	r, err := send(ctx, client, t.url()+path)
	secret := strings.TrimPrefix(g.sent, "Bearer ")

	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}

		f := classifyError(err, c.opts.Now(), secret)
		if config.Proxy != nil && f.Next == hintReach {
			f.Next = hintProxy
		}

		return nil, f
	}

	r.secret = secret

	return r, nil
}

func send(ctx context.Context, client *http.Client, url string) (*reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}

	req.Header.Set("Accept", "application/json")
	req.Header.Set("Accept-Encoding", "identity")

	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()

	r := &reply{
		status: resp.StatusCode,
		header: resp.Header,
		tls:    resp.TLS,
	}
	if r.status == http.StatusSwitchingProtocols {
		return r, nil // the following bytes are not a body
	}

	encoding := resp.Header.Get("Content-Encoding")
	if encoding != "" && encoding != "identity" {
		return nil, errCompressed
	}

	r.body, err = io.ReadAll(resp.Body)

	return r, err
}

// getReady is get for an API server that may have just started. Such a server refuses every request with 403
// until its roles are loaded; its /readyz then fails, or is refused as well.
func (c *Client) getReady(
	ctx context.Context,
	t target,
	config *rest.Config,
	path string,
) (*reply, *failure) {
	r, f := c.get(ctx, t, config, path)
	if f != nil || r.status != http.StatusForbidden {
		return r, f
	}

	ready, f := c.get(ctx, t, rest.AnonymousClientConfig(config), "/readyz")
	if f != nil {
		return nil, f
	}

	isRefused := ready.status == http.StatusUnauthorized || ready.status == http.StatusForbidden
	if isRefused || isOverloaded(ready.status) {
		r.notReady = ready.status
		r.notReadyAfter = retryAfter(ready.header)

		return r, nil
	}

	return c.get(ctx, t, config, path) // it may have become ready in between
}
