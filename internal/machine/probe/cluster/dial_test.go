package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/testing/demo"
)

// Rows 1 to 3, by a dialler that fails as a network does, for ever and for a while.
func TestDialling(t *testing.T) {
	h := newHostile(t, nil)
	d := new(net.Dialer)
	cases := []struct {
		name string
		dial func(ctx context.Context) (net.Conn, error)
		text string
	}{
		{"1 DNS failure", func(context.Context) (net.Conn, error) {
			return nil, &net.OpError{
				Op:  "dial",
				Err: &net.DNSError{Name: "k8s.example", Err: "no such host", IsNotFound: true},
			}
		}, `the name "k8s.example" cannot be resolved: no such host`},
		{"2 refused", func(ctx context.Context) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", "127.0.0.1:1")
		}, "connection refused"},
		{
			"3 SYN blackhole",
			func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() },
			"no connection within 200ms",
		},
		{"3 silence after the connection", func(context.Context) (net.Conn, error) {
			client, server := net.Pipe()
			t.Cleanup(func() { server.Close() })
			return client, nil
		}, "no complete response within 200ms"},
		{
			"an unknown failure",
			func(context.Context) (net.Conn, error) { return nil, errors.New("network is unreachable") },
			"network is unreachable",
		},
	}
	for _, c := range cases {
		for _, heals := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s heals %t", c.name, heals), func(t *testing.T) {
				t.Parallel()
				var n atomic.Int32
				opts := fast()
				opts.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					if n := n.Add(1); heals && n > 2 {
						return d.DialContext(ctx, network, address)
					}
					return c.dial(ctx)
				}
				switch c.name { // the others fail at once, however late that is on a busy machine
				case "3 SYN blackhole":
					opts.DialTimeout = 200 * time.Millisecond
				case "3 silence after the connection":
					opts.RequestTimeout = 200 * time.Millisecond
				}
				if !heals {
					opts = givingUp(opts, 3)
				}
				err := h.trust(t, opts)
				if heals {
					if err != nil {
						t.Error(err)
					}
					return
				}
				want{Code: fault.ClusterUnreachable, Retry: true, Text: []string{c.text, "servers"}}.check(t, err)
			})
		}
	}
}

// What stands before a server may accept and then say nothing.
func TestClosedInHandshake(t *testing.T) {
	address := listen(t, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 1))
		conn.Close()
	})
	req := TrustRequest{
		Endpoint:     Endpoint{Servers: []string{address}},
		CACertHashes: []string{demo.NewAuthority("ca").CAHash()},
	}
	_, err := FetchTrust(within(t, time.Minute), req, givingUp(fast(), 3))
	want{Code: fault.ClusterUnreachable, Retry: true, Text: []string{address}}.check(t, err)
}

// A port that does not speak TLS is not an API server.
func TestNoTLS(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	req := TrustRequest{
		Endpoint:     Endpoint{Servers: []string{strings.TrimPrefix(s.URL, "http://")}},
		CACertHashes: []string{demo.NewAuthority("ca").CAHash()},
	}
	_, err := FetchTrust(within(t, time.Minute), req, fast())
	want{Code: fault.ClusterUnusable, Text: []string{"does not speak TLS"}}.check(t, err)
}
