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
	"time"

	"k8s.io/client-go/rest"
)

var (
	errCompressed = errors.New("the answer is compressed, which was not asked for")
	errCredential = errors.New("refused to send a credential to a server that was not verified")
)

// timeoutError is the cause of a deadline of ours.
type timeoutError struct {
	what  string
	after time.Duration
}

func (e timeoutError) Error() string { return fmt.Sprintf("no %s within %s", e.what, e.after) }

// proxyError is what the site's proxy refused, in contrast to the server behind it.
type proxyError struct{ error }

func (e proxyError) Unwrap() error { return e.error }

// target is one server at one of its addresses, both host:port. Through a proxy the address is the server's name.
type target struct{ host, address string }

func (t target) url() string { return "https://" + t.host }

// String is the server's URL, with the address where the name does not say it.
func (t target) String() string {
	if t.address == "" || t.address == t.host {
		return t.url()
	}
	return t.url() + " (" + t.address + ")"
}

// transportKey is what makes two connections interchangeable: where they go, and who identifies whom in TLS.
type transportKey struct {
	target
	proxy, serverName, ca, cert, key string
	insecure                         bool
}

// newConfig is client-go's configuration of an anonymous request. ca is PEM; without it the server is not
// verified, which only the first fetch of cluster-info may do.
func newConfig(ca []byte, proxy string) *rest.Config {
	config := &rest.Config{UserAgent: userAgent}
	config.CAData, config.Insecure = ca, len(ca) == 0
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

// transport returns the transport to a target with the TLS that client-go makes of config. It speaks HTTP/1.1, without
// compression, and has the limits of Options. The only proxy is config's. client-go's own transport has fixed limits,
// verifies an https proxy by the cluster's CA, and is kept for the whole process.
func (c *Client) transport(t target, config *rest.Config) (*http.Transport, error) {
	var proxy *url.URL
	if config.Proxy != nil {
		proxy, _ = config.Proxy(nil) // http.ProxyURL, which does not fail
	}
	key := transportKey{
		target: t, serverName: config.ServerName, insecure: config.Insecure,
		ca: string(config.CAData), cert: string(config.CertData), key: string(config.KeyData),
	}
	if proxy != nil {
		key.proxy = proxy.String()
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.transports[key]; known != nil {
		return known, nil
	}

	http1 := rest.CopyConfig(config)
	http1.NextProtos = []string{"http/1.1"}
	tlsConfig, err := rest.TLSConfigFor(http1)
	if err != nil {
		return nil, err
	}
	tlsConfig.Time = c.opts.Now

	tr := &http.Transport{
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    2 * c.opts.RequestTimeout, // the request's own ends before
		MaxResponseHeaderBytes: maxHead,
		DisableCompression:     true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if proxy == nil {
				address = t.address
			}
			return c.dial(ctx, network, address)
		},
	}
	if proxy != nil {
		tr.Proxy = config.Proxy
		tr.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
			if resp.StatusCode != http.StatusOK {
				return proxyError{fmt.Errorf("CONNECT was answered with HTTP %d", resp.StatusCode)}
			}
			return nil
		}
	}
	if proxy != nil && proxy.Scheme == "https" {
		// The proxy is verified by the system's CAs, and not by the cluster's, or not at all.
		tr.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			return c.dialTLS(ctx, network, address, proxy.Hostname())
		}
	}
	c.transports[key] = tr
	return tr, nil
}

func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.DialTimeout, timeoutError{"connection", c.opts.DialTimeout})
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
		ServerName: name, MinVersion: tls.VersionTLS12, Time: c.opts.Now, NextProtos: []string{"http/1.1"},
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, proxyError{err}
	}
	return conn, nil
}

// guard is the last step before the network. It refuses a credential for a server that is not verified, or is another
// than the one meant, and bounds the response's body.
type guard struct {
	next     http.RoundTripper
	host     string
	verified bool
	sent     string // the credential, which the server may echo
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	g.sent = r.Header.Get("Authorization")
	if g.sent != "" && (!g.verified || r.URL.Scheme != "https" || r.URL.Host != g.host) {
		return nil, errCredential
	}

	resp, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxBody)
	return resp, nil
}

// httpClient returns client-go's client for a target, with the credentials of config. It follows no redirect.
func (c *Client) httpClient(t target, config *rest.Config) (*http.Client, *guard, error) {
	tr, err := c.transport(t, config)
	if err != nil {
		return nil, nil, err
	}
	g := &guard{next: tr, host: t.host, verified: !config.Insecure}
	secured := rest.CopyConfig(config)
	secured.TLSClientConfig, secured.Transport = rest.TLSClientConfig{}, g // TLS is the transport's
	client, err := rest.HTTPClientFor(secured)
	if err != nil {
		return nil, nil, err
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client, g, nil
}

// reply is a whole response.
type reply struct {
	status int
	header http.Header
	body   []byte
	tls    *tls.ConnectionState
	secret string // the credential that was sent, and must not be printed if the server echoes it

	// With a refusal: the status of a /readyz that does not say that the server is ready, and how long it asks to wait.
	notReady      int
	notReadyAfter time.Duration
}

// isStarting says whether the server refused because it is not ready yet, and not because of who asked.
func (r *reply) isStarting() bool {
	return r.notReady >= http.StatusInternalServerError || r.notReady == http.StatusTooManyRequests
}

// get requests one path from a target and reads the whole response. It does not repeat anything.
func (c *Client) get(ctx context.Context, t target, config *rest.Config, path string) (*reply, *failure) {
	client, g, err := c.httpClient(t, config)
	if err != nil {
		return nil, noCredential("the kubeconfig", err)
	}

	limit := c.opts.RequestTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit, timeoutError{"whole answer", limit})
	defer cancel()
	r, err := send(ctx, client, t.url()+path)
	secret := bearer(g.sent)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, classifyError(err, c.opts.Now(), secret)
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

	r := &reply{status: resp.StatusCode, header: resp.Header, tls: resp.TLS}
	if r.status == http.StatusSwitchingProtocols {
		return r, nil // what follows is not a body
	}
	if e := resp.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, errCompressed
	}
	if r.body, err = io.ReadAll(resp.Body); err != nil {
		return nil, err
	}
	return r, nil
}

// getReady is get for an API server that may have just started. Until its roles are loaded it answers everybody with
// 403; its /readyz then says that it is not ready, or is refused as well.
func (c *Client) getReady(ctx context.Context, t target, config *rest.Config, path string) (*reply, *failure) {
	r, f := c.get(ctx, t, config, path)
	if f != nil || r.status != http.StatusForbidden {
		return r, f
	}

	ready, f := c.get(ctx, t, rest.AnonymousClientConfig(config), "/readyz")
	switch {
	case f != nil:
		return nil, f
	case ready.status >= http.StatusInternalServerError, ready.status == http.StatusTooManyRequests,
		ready.status == http.StatusUnauthorized, ready.status == http.StatusForbidden:
		r.notReady, r.notReadyAfter = ready.status, retryAfter(ready.header)
		return r, nil
	}
	return c.get(ctx, t, config, path) // it may have become ready in between
}
