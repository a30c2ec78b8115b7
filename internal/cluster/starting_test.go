package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// starting is an API server that has just been started: it refuses the first n requests with status, and says that it is not ready.
func starting(t *testing.T, status, n int) *hostile {
	h := newHostile(t, newTestCA(t, "cluster"))
	refused := 0
	h.handle = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if r.URL.Path == "/readyz" {
			if r.Header.Get("Authorization") != "" {
				t.Error("/readyz was sent a credential")
			}
			if refused < n {
				w.WriteHeader(http.StatusInternalServerError)
			}
			return true
		}
		if refused++; refused <= n {
			writeStatus(w, status, "Forbidden", "User \"system:anonymous\" cannot get resource")
			return true
		}
		return false
	}
	return h
}

func TestStartingServer(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusUnauthorized} {
		h := starting(t, status, 3)
		if _, err := FetchTrust(within(t, 30*time.Second), h.pinned(), fast()); err != nil {
			t.Errorf("trust, %d: %v", status, err)
		}
		h = starting(t, status, 3)
		if _, err := FetchConfigMap(within(t, 30*time.Second), h.object(), fast()); err != nil {
			t.Errorf("object, %d: %v", status, err)
		}
	}
	t.Run("it never is ready", func(t *testing.T) {
		h := starting(t, http.StatusForbidden, 1<<30)
		_, err := FetchConfigMap(within(t, 30*time.Second), h.object(), givingUp(fast(), 3))
		want{kind: Unreachable, retry: true, text: []string{"cannot get resource", "not ready yet"}}.check(t, err)
	})
	t.Run("it does not say", func(t *testing.T) { // the roles that let anybody ask /readyz are not loaded either
		h := newHostile(t, newTestCA(t, "cluster"))
		h.handle = func(w http.ResponseWriter, r *http.Request, n int) bool { return n < 9 && answerWith(403)(h, w, r, n) }
		if _, err := FetchConfigMap(within(t, 30*time.Second), h.object(), fast()); err != nil {
			t.Error(err)
		}
		h.handle = func(w http.ResponseWriter, r *http.Request, n int) bool { return answerWith(403)(h, w, r, n) }
		_, err := FetchConfigMap(within(t, 30*time.Second), h.object(), givingUp(fast(), 5))
		want{kind: Denied, retry: true, text: []string{"HTTP 403"}}.check(t, err)
	})
	t.Run("ready in between", func(t *testing.T) {
		h := newHostile(t, newTestCA(t, "cluster"))
		h.handle = func(w http.ResponseWriter, r *http.Request, n int) bool {
			return n == 1 && answerWith(403)(h, w, r, n)
		}
		if _, err := FetchConfigMap(within(t, 30*time.Second), h.object(), fast()); err != nil {
			t.Error(err)
		}
	})
	t.Run("a refusal of a server that is ready", func(t *testing.T) {
		h := newHostile(t, newTestCA(t, "cluster"))
		h.handle = func(w http.ResponseWriter, r *http.Request, n int) bool {
			return r.URL.Path != "/readyz" && answerWith(403)(h, w, r, n)
		}
		_, err := FetchConfigMap(within(t, 30*time.Second), h.object(), fast())
		want{kind: Denied, text: []string{"HTTP 403"}}.check(t, err)
		if n := h.requests.Load(); n != 3 {
			t.Errorf("%d requests, want the request, /readyz and the request once more", n)
		}
	})
}

// A node that has joined and is refused is told of that, and not only that its token is gone, which it does not need.
func TestRefusedWithoutToken(t *testing.T) {
	h := newHostile(t, newTestCA(t, "cluster"))
	h.handle = func(w http.ResponseWriter, r *http.Request, n int) bool {
		return r.URL.Path == configPath && answerWith(403)(h, w, r, n)
	}
	req := h.object()
	req.Kubeconfig = []byte(kubeconfig(&witness{hostile: h}, "", "    token: a-node's-own\n"))
	gone := errors.New("credential \"bootstrap-token\": file does not exist")
	req.Token = func(context.Context) (string, error) { return "", gone }
	_, err := FetchConfigMap(within(t, 30*time.Second), req, fast())
	want{kind: Denied, text: []string{"HTTP 403", "kubectl -n kube-system create role", "the bootstrap token cannot be read"}}.check(t, err)
	if errors.Is(err, gone) {
		t.Error("the refusal is lost")
	}
}

// TestOnlyWhatFailed: what was fetched and verified is not fetched again because the next request failed, and who is told to wait
// comes back over the same connection.
func TestOnlyWhatFailed(t *testing.T) {
	for name, c := range map[string]struct {
		fails    func(n int) bool
		requests int32
	}{
		"none":            {func(int) bool { return false }, 2},
		"the first fetch": {func(n int) bool { return n <= 3 }, 5},
		"the second":      {func(n int) bool { return n > 1 && n <= 4 }, 5},
		"each once":       {func(n int) bool { return n%2 == 1 }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t, newTestCA(t, "cluster"))
			h.handle = func(w http.ResponseWriter, r *http.Request, n int) bool {
				return c.fails(n) && answerWith(429)(h, w, r, n)
			}
			if _, err := FetchTrust(within(t, 30*time.Second), h.pinned(), fast()); err != nil {
				t.Fatal(err)
			}
			if got := h.requests.Load(); got != c.requests {
				t.Errorf("%d requests, want %d", got, c.requests)
			}
			if got := h.conns.Load(); got != 1 {
				t.Errorf("%d connections, want one", got)
			}
		})
	}
	t.Run("a second text after a wait", func(t *testing.T) {
		h := newHostile(t, newTestCA(t, "cluster"))
		h.handle = func(w http.ResponseWriter, r *http.Request, n int) bool { return n == 2 && answerWith(429)(h, w, r, n) }
		h.info = func(n int) map[string]string {
			if n == 2 {
				return signedInfo(infoText("https://elsewhere.example:6443", h.ca.pem()))
			}
			return signedInfo(infoText(h.URL, h.ca.pem()))
		}
		_, err := FetchTrust(within(t, 30*time.Second), h.pinned(), fast())
		want{kind: Untrusted, retry: true, text: []string{"differs from the first"}}.check(t, err)
	})
	t.Run("another server has to introduce itself", func(t *testing.T) {
		ca := newTestCA(t, "cluster")
		one, two := newHostile(t, ca), newHostile(t, ca)
		one.handle = func(w http.ResponseWriter, r *http.Request, n int) bool {
			return n > 1 && answerWith(503)(one, w, r, n)
		}
		req := one.pinned()
		req.Servers = append(req.Servers, two.URL)
		if _, err := FetchTrust(within(t, 30*time.Second), req, fast()); err != nil {
			t.Fatal(err)
		}
		if a, b := one.requests.Load(), two.requests.Load(); a != 2 || b != 2 {
			t.Errorf("%d and %d requests, want two of each", a, b)
		}
	})
	t.Run("a server that closes what is held", func(t *testing.T) {
		h := newHostile(t, newTestCA(t, "cluster"))
		h.handle = func(w http.ResponseWriter, r *http.Request, n int) bool { return n == 1 && answerWith(429)(h, w, r, n) }
		opts := fast()
		opts.OnRetry = func(Retry) { h.CloseClientConnections() }
		if _, err := FetchTrust(within(t, 30*time.Second), h.pinned(), opts); err != nil {
			t.Fatal(err)
		}
		if got := h.conns.Load(); got != 2 {
			t.Errorf("%d connections, want two", got)
		}
	})
	t.Run("a server that starts is asked once whether it does", func(t *testing.T) {
		h := starting(t, http.StatusForbidden, 4)
		if _, err := FetchTrust(within(t, 30*time.Second), h.pinned(), fast()); err != nil {
			t.Fatal(err)
		}
		// The request four times, /readyz, and cluster-info twice.
		if got := h.requests.Load(); got != 7 {
			t.Errorf("%d requests, want 7", got)
		}
	})
	t.Run("a server that was away is not asked whether it starts", func(t *testing.T) {
		h := starting(t, http.StatusForbidden, 3)
		opts := fast()
		away := 3
		opts.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if away--; away >= 0 {
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}
		var whys []string
		opts.OnRetry = func(r Retry) { whys = append(whys, r.Why[:min(len(r.Why), 10)]) }
		if _, err := FetchTrust(within(t, 30*time.Second), h.pinned(), opts); err != nil {
			t.Fatal(err)
		}
		if got := h.requests.Load(); got != 5 { // three that are refused, and cluster-info twice
			t.Errorf("%d requests, want 5", got)
		}
		const gone, back, no = "connection", "it was awa", "HTTP 403: "
		if want := []string{gone, gone, gone, back, no, no, no}; !slices.Equal(whys, want) {
			t.Errorf("retried because of %q, want %q", whys, want)
		}
	})
	t.Run("a slow handshake", func(t *testing.T) {
		h := newHostile(t, newTestCA(t, "cluster"))
		opts := fast()
		opts.SlowHandshake = time.Nanosecond
		var retries []Retry
		opts.OnRetry = func(r Retry) { retries = append(retries, r) }
		if _, err := FetchTrust(within(t, 30*time.Second), h.pinned(), opts); err != nil {
			t.Fatal(err)
		}
		if len(retries) != 1 || retries[0].Least != 0 || retries[0].Most <= 0 || !strings.Contains(retries[0].Why, "busy") {
			t.Errorf("retries %+v, want one wait that is all chance", retries)
		}
		if n, conns := h.requests.Load(), h.conns.Load(); n != 2 || conns != 1 {
			t.Errorf("%d requests over %d connections, want two over one", n, conns)
		}
	})
}

// TestKeptLineDies: what stands between may end a connection that is silent while we wait. That says nothing of the server, and is not
// waited for again.
func TestKeptLineDies(t *testing.T) {
	for _, c := range []struct {
		name    string
		slow    bool // each handshake says that the server is busy; else it was away
		write   error
		conns   int32
		retries int
	}{
		{"after it was away, told", false, nil, 2, 2},
		{"after it was away, untold", false, syscall.ECONNRESET, 2, 2},
		{"busy, told", true, nil, 2, 1},
		{"busy, untold", true, syscall.EPIPE, 2, 1},
	} {
		for _, given := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, ", CA given ", given), func(t *testing.T) {
				h := newHostile(t, newTestCA(t, "cluster"))
				opts := fast()
				var whys []string
				var silent atomic.Bool
				if c.slow {
					opts.SlowHandshake = time.Nanosecond
				}
				refused := c.slow
				opts.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					if !refused {
						refused = true
						return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
					}
					conn, err := new(net.Dialer).DialContext(ctx, network, address)
					silent.Store(false)
					return &forgotten{Conn: conn, silent: &silent, err: c.write}, err
				}
				opts.OnRetry = func(r Retry) {
					whys = append(whys, r.Why)
					if silent.Store(c.write != nil); c.write == nil {
						h.CloseClientConnections()
					}
				}
				cl := New(givingUp(opts, 10))
				defer cl.Close()
				req := h.pinned()
				if given {
					req = TrustRequest{Endpoint: req.Endpoint, CAPEM: h.ca.pem()}
				}
				if _, err := cl.FetchTrust(within(t, 30*time.Second), req); err != nil {
					t.Fatal(err)
				}
				if _, err := cl.FetchConfigMap(within(t, 30*time.Second), h.object()); err != nil {
					t.Fatal(err)
				}
				if n := h.conns.Load(); n != c.conns || len(whys) != c.retries {
					t.Errorf("%d connections, want %d; retries because of %q, want %d", n, c.conns, whys, c.retries)
				}
			})
		}
	}
}

// forgotten is a connection that something between has forgotten.
type forgotten struct {
	net.Conn
	silent *atomic.Bool
	err    error
}

func (f *forgotten) Write(b []byte) (int, error) {
	if f.silent.Load() {
		return 0, &net.OpError{Op: "write", Err: f.err}
	}
	return f.Conn.Write(b)
}
