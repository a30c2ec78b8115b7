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
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Row 27, and what a list of servers means beside it.
func TestSeveralServers(t *testing.T) {
	ca := newTestCA(t, "cluster")
	good := newHostile(t, ca)
	evil := newHostile(t, ca, func(_ *hostile, c *tls.Config) {
		c.Certificates = []tls.Certificate{newTestCA(t, "evil").leaf(t, time.Time{}, time.Time{})}
	})
	ill := newHostile(t, ca)
	ill.handle = func(w http.ResponseWriter, r *http.Request, n int) bool { return answerWith(503)(ill, w, r, n) }
	denies := newHostile(t, ca)
	denies.handle = func(w http.ResponseWriter, r *http.Request, n int) bool { return answerWith(401)(denies, w, r, n) }
	full := newHostile(t, ca)
	full.handle = turningAway(429, "1", 1<<30)
	const dead, hole = "127.0.0.1:1", "192.0.2.1:6443"
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
	for _, c := range []struct {
		name    string
		servers []string
		kind    Kind
		text    string
		waits   int
	}{
		{"the first is dead", []string{dead, good.URL}, "", "", 0},
		{"the first is a hole", []string{hole, good.URL}, "", "", 0},
		{"the first is ill", []string{ill.URL, good.URL}, "", "", 0},
		{"a dead one and an evil one", []string{dead, evil.URL, good.URL}, Untrusted, evil.URL, 0},
		{"the first turns away, and the next is an evil one", []string{full.URL, evil.URL, good.URL}, Untrusted, evil.URL, 0},
		{"the first denies for now", []string{denies.URL, good.URL}, "", "", 1},
		{"an answer tells more than silence", []string{dead, denies.URL}, Denied, denies.URL, -1},
		{"an answer tells more than a later silence", []string{denies.URL, dead}, Denied, denies.URL, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			waits := 0
			opts := fast()
			opts.Dial, opts.DialTimeout = dial, time.Second
			opts.OnRetry = func(r Retry) {
				if r.Wait > 0 {
					waits++
				}
			}
			req := good.object()
			req.Servers = c.servers
			_, err := FetchConfigMap(within(t, 30*time.Second), req, givingUp(opts, 4))
			if c.waits >= 0 && waits != c.waits {
				t.Errorf("%d waits, want %d", waits, c.waits)
			}
			if c.kind == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			want{kind: c.kind, retry: true, text: []string{c.text}}.check(t, err)
		})
	}
	if n := evil.authorized.Load(); n != 0 {
		t.Errorf("the evil server was sent Authorization %d times", n)
	}
	t.Run("a hole takes its share of the deadline only", func(t *testing.T) {
		opts := fast()
		opts.Dial = dial
		req := good.object()
		req.Servers = []string{hole, good.URL}
		if _, err := FetchConfigMap(within(t, 2*time.Second), req, opts); err != nil {
			t.Error(err)
		}
	})
	t.Run("the one that answered is asked first", func(t *testing.T) {
		opts := fast()
		retries := 0
		opts.Dial = dial
		opts.OnRetry = func(Retry) { retries++ }
		cl := New(opts)
		defer cl.Close()
		req := good.object()
		req.Servers = []string{dead, good.URL}
		for range 2 {
			if _, err := cl.FetchConfigMap(within(t, 30*time.Second), req); err != nil {
				t.Fatal(err)
			}
		}
		if retries != 1 {
			t.Errorf("%d retries in two calls, want 1", retries)
		}
	})
}

// turningAway answers the first n requests with a status and Retry-After.
func turningAway(status int, after string, n int) func(http.ResponseWriter, *http.Request, int) bool {
	return func(w http.ResponseWriter, _ *http.Request, k int) bool {
		if k > n {
			return false
		}
		w.Header().Set("Retry-After", after)
		w.WriteHeader(status)
		return true
	}
}

// TestSeveralServersTurnAway: while one says when to come again, the others are asked, and it is left alone until then.
func TestSeveralServersTurnAway(t *testing.T) {
	const ever = 1 << 30
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		for _, c := range []struct {
			name    string
			budget  time.Duration
			after   [2]string // in Retry-After
			refuses [2]int    // so often
			asked   [2]int32
			waits   string // without chance
			fails   bool
			chance  time.Duration // adds so much to the first wait, at least
		}{
			{"one, longer than is left", 10 * time.Second, [2]string{"32", ""}, [2]int{ever, 0}, [2]int32{1, 1}, "[]", false, 0},
			{"one, shorter", 5 * time.Minute, [2]string{"2", ""}, [2]int{ever, 0}, [2]int32{1, 1}, "[]", false, 0},
			{"both, the first for longer", 5 * time.Minute, [2]string{"9", "4"}, [2]int{1, 1}, [2]int32{1, 2}, "[4s]", false, time.Second},
			{"both, the second for longer", 5 * time.Minute, [2]string{"4", "9"}, [2]int{1, 1}, [2]int32{2, 1}, "[4s]", false, time.Second},
			{"both, the first for longer than is left", 20 * time.Second, [2]string{"32", "4"}, [2]int{ever, 2}, [2]int32{1, 3}, "[4s 4s]", false, time.Second},
			{"both, for longer than is left", 20 * time.Second, [2]string{"32", "31"}, [2]int{ever, ever}, [2]int32{1, 1}, "[]", true, 0},
		} {
			t.Run(fmt.Sprint(status, " ", c.name), func(t *testing.T) {
				for _, die := range []float64{0, 0.5} {
					ca := newTestCA(t, "cluster")
					a, b := newHostile(t, ca), newHostile(t, ca)
					a.handle, b.handle = turningAway(status, c.after[0], c.refuses[0]), turningAway(status, c.after[1], c.refuses[1])
					opts := fast()
					waits := []time.Duration{}
					opts.Rand = func() float64 { return die }
					opts.Sleep = func(_ context.Context, d time.Duration) error {
						waits = append(waits, d.Round(time.Second))
						return nil
					}
					req := a.object()
					req.Servers = append(req.Servers, b.URL)
					_, err := FetchConfigMap(within(t, c.budget), req, opts)
					if (err != nil) != c.fails {
						t.Errorf("%v", err)
					}
					if die > 0 {
						if len(waits) > 0 && waits[0] < 4*time.Second+c.chance {
							t.Errorf("waited %v: nothing of it is chance", waits)
						}
						continue
					}
					if got := [2]int32{a.requests.Load(), b.requests.Load()}; got != c.asked {
						t.Errorf("asked %v times, want %v", got, c.asked)
					}
					if got := fmt.Sprint(waits); got != c.waits {
						t.Errorf("waited %s, want %s", got, c.waits)
					}
				}
			})
		}
	}
}

// Row 28: the environment's proxy is nobody; the site's is asked to CONNECT and sees neither request nor token.
func TestProxy(t *testing.T) {
	ca := newTestCA(t, "cluster")
	h := newHostile(t, ca)
	var connects atomic.Int32
	var seen atomic.Value
	var refuse atomic.Bool
	proxy := rawProxy(t, func(req *http.Request, client net.Conn) {
		connects.Add(1)
		seen.Store(req.Method + " " + req.Host + " " + req.Header.Get("Proxy-Authorization"))
		if refuse.Load() {
			_, _ = io.WriteString(client, "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
			return
		}
		_, _ = io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
		splice(client, req.Host)
	})
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://"+proxy)
	}
	opts := fast()
	c := New(opts)
	if _, err := c.FetchTrust(within(t, 30*time.Second), h.pinned()); err != nil {
		t.Fatal(err)
	}
	if n := connects.Load(); n != 0 {
		t.Errorf("the environment's proxy was used %d times", n)
	}
	req := h.object()
	req.ProxyURL = "http://someone:pass" + tokenSecret + "@" + proxy
	if _, err := c.FetchConfigMap(within(t, 30*time.Second), req); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if got, expect := seen.Load(), "CONNECT "+strings.TrimPrefix(h.URL, "https://")+" Basic c29tZW9uZTpwYXNz"; got == nil || !strings.HasPrefix(got.(string), expect) {
		t.Errorf("the proxy saw %v, want %s…", got, expect)
	}
	refuse.Store(true)
	_, err := FetchConfigMap(within(t, 30*time.Second), req, givingUp(opts, 2))
	want{kind: Unreachable, retry: true, text: []string{"the proxy", "407", "proxy_url"}}.check(t, err)
}

func rawProxy(t *testing.T, serve func(*http.Request, net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					serve(req, conn)
				}
			}()
		}
	}()
	return l.Addr().String()
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
