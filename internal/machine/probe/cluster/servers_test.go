package cluster

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/testing/demo"
)

// serversCases is testdata/servers.yaml.
type serversCases struct {
	Servers map[string]serverSpec
	Several []struct {
		Name    string
		Servers []string
		Waits   int
		Want    *want
	}
	TurnAway []struct {
		Name    string
		Seconds int
		After   [2]string
		Refuses [2]int
		Asked   [2]int
		Waits   []int
		Fails   bool
	} `json:"turn away"`
	RetryAfter []struct {
		After, Date string
		Seconds     int
	} `json:"retry after"`
}

func readServersCases(t *testing.T, urls ...string) (out serversCases) {
	t.Helper()
	readData(t, "servers.yaml", &out, urls...)
	return out
}

// Row 27, with a list of servers.
func TestSeveralServers(t *testing.T) {
	all := newAuthorities()
	const dead, hole = "127.0.0.1:1", "192.0.2.1:6443"
	urls, names := map[string]string{"dead": "https://" + dead, "hole": "https://" + hole}, []string{"dead", "https://" + dead}
	servers := map[string]hostile{}
	for name, spec := range readServersCases(t).Servers {
		servers[name] = spec.start(t, all)
		urls[name] = servers[name].URL
		names = append(names, name, urls[name])
	}
	good, evil := servers["good"], servers["evil"]
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		switch address {
		case dead:
			return nil, errors.New("connection refused")
		case hole:
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	for _, c := range readServersCases(t, names...).Several {
		t.Run(c.Name, func(t *testing.T) {
			conns := evil.Connections()
			waits := 0
			opts := fast()
			opts.Dial, opts.DialTimeout = dial, time.Second
			opts.OnRetry = func(Retry) { waits++ }
			req := good.objectAt()
			for _, name := range c.Servers {
				req.Servers = append(req.Servers, urls[name])
			}
			err := readObject(t, req, givingUp(opts, 4))
			if waits != c.Waits {
				t.Errorf("got %d waits, want %d", waits, c.Waits)
			}
			if n := evil.Connections() - conns; n > 1 {
				t.Errorf("got %d connections to a server that is not trusted, want 1", n)
			}
			if c.Want != nil {
				c.Want.check(t, err)
			} else if err != nil {
				t.Errorf("got %v, want no error", err)
			}
		})
	}
	if n := evil.Authorizations(); n != 0 {
		t.Errorf("the evil server: got Authorization %d times, want 0", n)
	}
	t.Run("a hole takes its share of the deadline only", func(t *testing.T) {
		now := time.Now()
		synctest.Test(t, func(t *testing.T) {
			opts := fast()
			opts.Now = func() time.Time { return now }
			opts.Dial = dial
			req := good.objectAt(hole, good.URL)
			if _, err := fetchConfigMap(within(t, 8*time.Second), req, opts); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("the one that answered is asked first", func(t *testing.T) {
		opts := fast()
		asked := 0
		opts.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == dead {
				asked++
			}
			return dial(ctx, network, address)
		}
		cl := New(opts)
		defer cl.Close()
		req := good.objectAt(dead, good.URL)
		for range 2 {
			if _, err := cl.FetchConfigMap(within(t, time.Minute), req); err != nil {
				t.Fatal(err)
			}
		}
		if asked != 1 {
			t.Errorf("the dead server was asked %d times in two calls, want 1", asked)
		}
	})
}

// TestAddresses: each address of a name is asked, and checked alone.
func TestAddresses(t *testing.T) {
	ca := demo.NewAuthority("cluster")
	good := newHostile(t, ca)
	evil := newHostile(t, ca, func(c *tls.Config) {
		c.Certificates = []tls.Certificate{demo.NewAuthority("evil").IssueServer()}
	})
	closing := listen(t, func(conn net.Conn) { conn.Close() })
	const silent = "silent"
	now := time.Now()

	read := func(t *testing.T, at ...string) error {
		names := map[string]string{}
		var addresses []string
		for i, a := range at {
			ip := fmt.Sprintf("192.0.2.%d", i+1)
			addresses = append(addresses, ip)
			names[ip+":6443"] = a
		}
		opts := fast()
		opts.LookupHost = func(_ context.Context, host string) ([]string, error) {
			if host != "localhost" {
				t.Errorf("looked up %q, want localhost", host)
			}
			return addresses, nil
		}
		opts.Now = func() time.Time { return now }
		opts.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if names[address] == silent {
				client, server := net.Pipe()
				t.Cleanup(func() { server.Close() })
				return client, nil
			}
			return dialAt(names)(ctx, network, address)
		}
		_, err := fetchConfigMap(within(t, 4*time.Second), good.objectAt("localhost:6443"), opts)
		return err
	}
	for name, first := range map[string]string{
		"the first is dead":        "127.0.0.1:1",
		"the first is not trusted": evil.URL,
		"the first ends the TLS":   closing,
		"the first is silent":      silent,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err := read(t, first, good.URL); err != nil {
					t.Error(err)
				}
			})
		})
	}
	t.Run("none is left", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			want{Code: fault.ClusterUntrusted, Text: []string{
				"https://localhost:6443 (192.0.2.1:6443): ", "the server's certificate is not signed",
			}}.check(t, read(t, evil.URL, evil.URL))
		})
	})
	if n := evil.Authorizations(); n != 0 {
		t.Errorf("the untrusted server: got Authorization %d times, want 0", n)
	}
}

// A name that gets other addresses while it is asked is asked there, and not at the old ones.
func TestAddressesChange(t *testing.T) {
	good := newHostile(t, nil)
	opts := fast()
	lookups := 0
	opts.LookupHost = func(context.Context, string) ([]string, error) {
		switch lookups++; lookups {
		case 1:
			return nil, &net.DNSError{Name: "localhost", Err: "server misbehaving", IsTemporary: true}
		case 2:
			return nil, nil
		case 3:
			return []string{"192.0.2.1"}, nil
		}
		return []string{"192.0.2.2"}, nil
	}
	var dialled, whys []string
	opts.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled = append(dialled, address)
		if address == "192.0.2.1:6443" {
			return nil, errors.New("no route to host")
		}
		return dialAt(nil)(ctx, network, good.URL)
	}
	opts.OnRetry = func(r Retry) { whys = append(whys, r.Why) }
	must(t, readObject(t, good.objectAt("localhost:6443"), opts))
	if want := []string{"192.0.2.1:6443", "192.0.2.2:6443"}; !slices.Equal(dialled, want) {
		t.Errorf("dialled %q, want %q", dialled, want)
	}
	want := []string{
		`the name "localhost" cannot be resolved: server misbehaving`,
		`the name "localhost" cannot be resolved: it has no address`, "no route to host",
	}
	if !slices.Equal(whys, want) {
		t.Errorf("waited because of %q, want %q", whys, want)
	}
}

// listen accepts connections on loopback for as long as the test runs.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
		}
	}()
	return l.Addr().String()
}

// TestSeveralServersTurnAway: while one says when to come again, the others are asked, and it is left alone until then.
func TestSeveralServersTurnAway(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		for _, c := range readServersCases(t).TurnAway {
			t.Run(fmt.Sprint(status, " ", c.Name), func(t *testing.T) {
				ca := demo.NewAuthority("cluster")
				a, b := newHostile(t, ca), newHostile(t, ca)
				a.Intercept = first(c.Refuses[0], answerWith(status, "Retry-After", c.After[0]))
				b.Intercept = first(c.Refuses[1], answerWith(status, "Retry-After", c.After[1]))
				opts := fast()
				slept := recordSleeps(&opts)
				_, err := fetchConfigMap(within(t, time.Duration(c.Seconds)*time.Second), a.objectAt(a.URL, b.URL), opts)
				if (err != nil) != c.Fails {
					t.Errorf("got %v, want an error: %t", err, c.Fails)
				}
				if got := [2]int{len(a.Requests()), len(b.Requests())}; got != c.Asked {
					t.Errorf("asked %v times, want %v", got, c.Asked)
				}
				isSame := func(d time.Duration, seconds int) bool {
					return d.Round(time.Second) == time.Duration(seconds)*time.Second
				}
				if !slices.EqualFunc(*slept, c.Waits, isSame) {
					t.Errorf("waited %v, want %v seconds", *slept, c.Waits)
				}
			})
		}
	}
}

// Row 28: the environment's proxy (see TestMain) is not used, by no request and for no name; the site's is asked to
// CONNECT and sees neither request nor token.
func TestProxy(t *testing.T) {
	const name = "apiserver.example:6443" // no environment's proxy would be used for an address of this machine
	ca := demo.NewAuthority("cluster")
	h := newHostile(t, ca, func(c *tls.Config) {
		c.Certificates = []tls.Certificate{ca.IssueServer("apiserver.example")}
	})
	address := h.Listener.Addr().String()

	var seen atomic.Value
	var refuse atomic.Bool
	proxy := rawProxy(t, func(req *http.Request, client net.Conn) {
		seen.Store(req.Method + " " + req.Host + " " + req.Header.Get("Proxy-Authorization"))
		if refuse.Load() {
			_, _ = io.WriteString(client, "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
			return
		}
		_, _ = io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
		splice(client, address)
	})

	opts := fast()
	opts.LookupHost = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
	opts.Dial = dialAt(map[string]string{"127.0.0.1:6443": address})
	trust, object := h.pinned(), h.object()
	trust.Servers, object.Servers = []string{"https://" + name}, []string{"https://" + name}
	if _, err := FetchTrust(within(t, time.Minute), trust, givingUp(opts, 2)); err != nil {
		t.Errorf("without a proxy of the site: got error %v; want none", err)
	}
	if err := readObject(t, object, givingUp(opts, 2)); err != nil {
		t.Errorf("without a proxy of the site: got error %v; want none", err)
	}

	object.ProxyURL = "http://someone:pass" + demo.TokenSecret + "@" + proxy
	must(t, readObject(t, object, givingUp(opts, 2)))
	got, expect := seen.Load(), "CONNECT "+name+" Basic c29tZW9uZTpwYXNz"
	if got == nil || !strings.HasPrefix(got.(string), expect) {
		t.Errorf("the proxy saw %v, want %s…", got, expect)
	}

	refuse.Store(true)
	err := readObject(t, object, givingUp(opts, 2))
	want{Code: fault.ClusterUnreachable, Retry: true, Text: []string{"the proxy", "407", "proxy_url"}}.check(t, err)
}

// A proxy that closes the connection, before or after it has accepted CONNECT, is named with the servers.
func TestProxyCloses(t *testing.T) {
	h := newHostile(t, nil)
	for _, response := range []string{"", "HTTP/1.1 200 Connection established\r\n\r\n"} {
		proxy := rawProxy(t, func(_ *http.Request, client net.Conn) {
			_, _ = io.WriteString(client, response)
			_ = client.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, client) // what is unread would reset the connection
		})
		object := h.object()
		object.ProxyURL = "http://" + proxy
		err := readObject(t, object, givingUp(fast(), 2))
		want{Code: fault.ClusterUnreachable, Retry: true, Text: []string{"ended", "`proxy_url`", "`servers`"}}.check(t, err)
	}
}

// An https proxy is verified by the system's CAs, also if the server behind it is not verified yet: its password is
// sent only to the proxy.
func TestProxyIsVerified(t *testing.T) {
	h := newHostile(t, nil)
	proxy := newHostile(t, h.Authority)
	trust, object := h.pinned(), h.object()
	trust.ProxyURL = strings.Replace(proxy.URL, "https://", "https://someone:pass"+demo.TokenSecret+"@", 1)
	object.ProxyURL = trust.ProxyURL
	_, errTrust := FetchTrust(within(t, time.Minute), trust, givingUp(fast(), 2))
	errObject := readObject(t, object, givingUp(fast(), 2))
	for _, err := range []error{errTrust, errObject} {
		want{Code: fault.ClusterUnreachable, Retry: true, Text: []string{"the proxy: ", "certificate signed by unknown authority", "proxy_url"}}.check(t, err)
	}
	if n := len(proxy.Requests()); n != 0 {
		t.Errorf("got %d requests, want none", n)
	}
}

func rawProxy(t *testing.T, serve func(*http.Request, net.Conn)) string {
	t.Helper()
	return listen(t, func(conn net.Conn) {
		go func() {
			defer conn.Close()
			if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				serve(req, conn)
			}
		}()
	})
}

func splice(client net.Conn, host string) {
	server, err := net.Dial("tcp", host)
	if err != nil {
		return
	}
	defer server.Close()
	go func() { _, _ = io.Copy(server, client) }()
	_, _ = io.Copy(client, server)
}
