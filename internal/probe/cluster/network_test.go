package cluster

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/prelet/prelet/internal/fault"
)

type handler = func(h *hostile, w http.ResponseWriter, r *http.Request, n int) bool

func answerWith(code int, header ...string) handler {
	return func(_ *hostile, w http.ResponseWriter, _ *http.Request, _ int) bool {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		writeStatus(w, code, http.StatusText(code), "as the test wishes")
		return true
	}
}

func body(contentType, text string) handler {
	return func(_ *hostile, w http.ResponseWriter, _ *http.Request, _ int) bool {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, text)
		return true
	}
}

// raw answers with bytes of its own and closes the connection.
func raw(text string) handler {
	return func(_ *hostile, w http.ResponseWriter, _ *http.Request, _ int) bool {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return true
		}
		_, _ = io.WriteString(conn, text)
		conn.Close()
		return true
	}
}

// trickle sends a byte now and then, for ever: slowness on a real connection is what it is for.
func trickle(head string) handler {
	return func(_ *hostile, w http.ResponseWriter, _ *http.Request, _ int) bool {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return true
		}
		defer conn.Close()
		_, err = io.WriteString(conn, head)
		for err == nil {
			time.Sleep(5 * time.Millisecond)
			_, err = conn.Write([]byte(" "))
		}
		return true
	}
}

func gzipped(text string) handler {
	return func(_ *hostile, w http.ResponseWriter, _ *http.Request, _ int) bool {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, text)
		_ = z.Close()
		return true
	}
}

func bigBody(chunked bool) handler {
	return func(_ *hostile, w http.ResponseWriter, _ *http.Request, _ int) bool {
		text := bytes.Repeat([]byte(" "), maxBody+1)
		if !chunked {
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		}
		_, _ = w.Write(text)
		return true
	}
}

// Rows of the matrix of faults that are an answer, or the lack of one. Each is met by an anonymous read of
// cluster-info and by a read with a token. With heals, the third request is answered well.
func TestAnswers(t *testing.T) {
	cases := []struct {
		name   string
		handle handler
		code   fault.Code
		retry  bool
		text   string
	}{
		{
			"4 slow-loris",
			trickle("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"),
			fault.ClusterUnreachable,
			true,
			"no complete response within 500ms",
		},
		{
			"4 slow head",
			trickle("HTTP/1.1 200 OK\r\nX-A:"),
			fault.ClusterUnreachable,
			true,
			"no complete response within 500ms",
		},
		{"9 401", answerWith(401), fault.ClusterDenied, true, "HTTP 401: as the test wishes"},
		{"10 403", answerWith(403), fault.ClusterDenied, false, "HTTP 403: as the test wishes"},
		{"11 404", answerWith(404), fault.Absent, true, "HTTP 404: as the test wishes"},
		{
			"11 404 of something else",
			func(_ *hostile, w http.ResponseWriter, r *http.Request, _ int) bool { http.NotFound(w, r); return true },
			fault.Absent,
			true,
			`HTTP 404 with a text that begins with "404 page not found"`,
		},
		{"13 503", answerWith(503), fault.ClusterUnreachable, true, "HTTP 503: as the test wishes"},
		{"13 502 with a page", func(_ *hostile, w http.ResponseWriter, _ *http.Request, _ int) bool {
			w.WriteHeader(502)
			_, _ = io.WriteString(w, "<html><body>bad gateway")
			return true
		}, fault.ClusterUnreachable, true, "HTTP 502 with an HTML page"},
		{"13 400", answerWith(400), fault.ClusterUnusable, false, "HTTP 400"},
		{"14 body > 8 MiB", bigBody(false), fault.ClusterUnusable, false, "larger than 8 MiB"},
		{"14 body > 8 MiB, chunked", bigBody(true), fault.ClusterUnusable, false, "larger than 8 MiB"},
		{
			"14 endless head",
			raw(
				"HTTP/1.1 200 OK\r\n" + strings.Repeat(
					"X-A: "+strings.Repeat("b", 1000)+"\r\n",
					(maxBody+maxHead)/1000+1,
				),
			),
			fault.ClusterUnusable,
			false,
			"the head of the response is larger than 64 KiB",
		},
		{
			"15 truncated",
			raw("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"kind\":"),
			fault.ClusterUnreachable,
			true,
			"ended before a complete response",
		},
		{
			"15 truncated, chunked",
			raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"kind\":\r\n"),
			fault.ClusterUnreachable,
			true,
			"ended before a complete response",
		},
		{
			"15 truncated head",
			raw("HTTP/1.1 200 OK\r\nContent-"),
			fault.ClusterUnreachable,
			true,
			"is incomplete or malformed",
		},
		{"15 no answer", raw(""), fault.ClusterUnreachable, true, "ended before a complete response"},
		{"16 gzip", gzipped(strings.Repeat("\x00", 100<<10)), fault.ClusterUnusable, false, "compressed"},
		{
			"17 redirect",
			answerWith(302, "Location", "https://elsewhere.example/"),
			fault.ClusterUnusable,
			false,
			`a redirect, to "https://elsewhere.example/"`,
		},
		{
			"18 HTML of a portal",
			body("text/html", "<!DOCTYPE html>\n<html><title>Welcome</title>"),
			fault.ClusterUnusable,
			false,
			"an HTML page, as a captive portal sends",
		},
		{"18 an empty body", body("application/json", ""), fault.ClusterUnusable, false, "an empty body"},
		{
			"18 a text",
			body("text/plain", "It works!\x1b[31m"),
			fault.ClusterUnusable,
			false,
			`a text that begins with "It works! [31m"`,
		},
		{"18 no HTTP at all", raw("SSH-2.0-OpenSSH_9.2\r\n"), fault.ClusterUnusable, false, "not HTTP"},
		{
			"19 malformed JSON",
			body("application/json", `{"kind": "ConfigMap", "data":`),
			fault.ClusterUnusable,
			false,
			"JSON that is incomplete or malformed",
		},
		{
			"19 JSON of another type",
			body("application/json", `{"kind": "ConfigMap", "data": []}`),
			fault.ClusterUnusable,
			false,
			"JSON that is not the requested Kubernetes object",
		},
		{
			"19 another kind",
			body("application/json", `{"kind": "Secret", "apiVersion": "v1"}`),
			fault.ClusterUnusable,
			false,
			`"Secret"`,
		},
		{
			"19 another object",
			body(
				"application/json",
				`{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x", "namespace": "y"}}`,
			),
			fault.ClusterUnusable,
			false,
			"y/x",
		},
		{
			"19 another name",
			body(
				"application/json",
				`{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x", "namespace": "kube-public"}}`,
			),
			fault.ClusterUnusable,
			false,
			"kube-public/x",
		},
		{
			"19 two objects",
			body("application/json", `{"kind": "ConfigMap", "apiVersion": "v1"} {}`),
			fault.ClusterUnusable,
			false,
			"continues after",
		},
		{
			"switching protocols",
			raw("HTTP/1.1 101 Switching Protocols\r\n\r\n"),
			fault.ClusterUnusable,
			false,
			"HTTP 101",
		},
	}
	ca := newTestCA(t, "cluster")
	for _, c := range cases {
		for _, way := range []string{"trust", "object"} {
			for _, heals := range []bool{false, true} {
				if heals && !c.retry {
					continue
				}
				t.Run(fmt.Sprintf("%s by %s heals %t", c.name, way, heals), func(t *testing.T) {
					t.Parallel()
					h := newHostile(t, ca)
					h.handle = func(w http.ResponseWriter, r *http.Request, n int) bool {
						if heals && n > 2 || r.URL.Path == "/readyz" {
							return false
						}
						return c.handle(h, w, r, n)
					}
					opts := fast()
					if strings.HasPrefix(c.name, "4 ") {
						opts.RequestTimeout = 500 * time.Millisecond
					}
					if !heals {
						opts = givingUp(opts, 3)
					}
					ctx := within(t, 30*time.Second)
					var err error
					if way == "trust" {
						_, err = FetchTrust(ctx, h.pinned(), opts)
					} else {
						_, err = fetchConfigMap(ctx, h.object(), opts)
					}
					if heals {
						if err != nil {
							t.Error(err)
						}
						return
					}
					want{code: c.code, retry: c.retry, text: []string{c.text}}.check(t, err)
					if way == "trust" && h.authorized.Load() != 0 {
						t.Error("an anonymous request carried Authorization")
					}
				})
			}
		}
	}
}

// HTTP/1.1 is spoken, without compression, also where the server offers more.
func TestProtocol(t *testing.T) {
	h := newHostile(t, newTestCA(t, "cluster"), func(h *hostile, c *tls.Config) {
		h.EnableHTTP2 = true
		c.NextProtos = []string{"h2", "http/1.1"}
	})
	h.handle = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		got := [3]string{r.Proto, r.TLS.NegotiatedProtocol, r.Header.Get("Accept-Encoding")}
		if want := [3]string{"HTTP/1.1", "http/1.1", "identity"}; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := r.Header.Get("User-Agent"), "prelet"; got != want {
			t.Errorf("got user agent %q, want %q", got, want)
		}
		return false
	}
	if _, err := FetchTrust(within(t, 30*time.Second), h.pinned(), fast()); err != nil {
		t.Error(err)
	}
	if _, err := fetchConfigMap(within(t, 30*time.Second), h.object(), fast()); err != nil {
		t.Error(err)
	}
}

// Neither retries nor rate limits of a library: each attempt is one request, and twenty are not slowed down.
func TestNothingOfTheLibrary(t *testing.T) {
	h := newHostile(t, newTestCA(t, "cluster"))
	h.handle = func(w http.ResponseWriter, r *http.Request, n int) bool {
		w.Header().Set("Warning", `299 - "a warning"`)
		return n <= 20 && answerWith(429, "Retry-After", "1")(h, w, r, n)
	}
	waits := 0
	opts := fast()
	opts.Sleep = func(context.Context, time.Duration) error { waits++; return nil }
	began := time.Now()
	if _, err := fetchConfigMap(within(t, time.Hour), h.object(), opts); err != nil {
		t.Fatal(err)
	}
	if n := h.requests.Load(); n != 21 || waits != 20 {
		t.Errorf("got %d requests and %d waits, want 21 and 20", n, waits)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %s, want no waits but ours", took)
	}
}

// An interim response is not the response.
func TestEarlyHints(t *testing.T) {
	h := newHostile(t, newTestCA(t, "cluster"))
	h.handle = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		w.WriteHeader(http.StatusEarlyHints)
		return false
	}
	if _, err := fetchConfigMap(within(t, 30*time.Second), h.object(), fast()); err != nil {
		t.Error(err)
	}
}

// A server that thinks for too long is given up by the request's own limit, and asked again.
func TestRequestTimeout(t *testing.T) {
	h := newHostile(t, newTestCA(t, "cluster"))
	release := make(chan struct{})
	h.handle = func(_ http.ResponseWriter, r *http.Request, n int) bool {
		if n < 3 {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		return false
	}
	defer close(release)
	opts := fast()
	opts.RequestTimeout = 100 * time.Millisecond
	var whys []string
	opts.OnRetry = func(r Retry) { whys = append(whys, r.Why) }
	if _, err := fetchConfigMap(within(t, 30*time.Second), h.object(), opts); err != nil {
		t.Error(err)
	}
	// A busy machine may need more than 100 ms for what does answer, and net/http may repeat a request by itself.
	const want = "no complete response within 100ms"
	if len(whys) == 0 || slices.ContainsFunc(whys, func(s string) bool { return s != want }) {
		t.Errorf("got %q, want one %q or more", whys, want)
	}
}

// Row 12: what the server asks for is waited, but never more than 32 seconds, which is the most that API servers ask
// for, and a jittered backoff on top.
func TestRetryAfter(t *testing.T) {
	for header, least := range map[string]time.Duration{
		"1": time.Second, "7": 7 * time.Second, "32": 32 * time.Second, "3600": 32 * time.Second, "": 0, "soon": 0, "-1": 0,
	} {
		t.Run(header, func(t *testing.T) {
			h := newHostile(t, newTestCA(t, "cluster"))
			h.handle = func(w http.ResponseWriter, r *http.Request, n int) bool {
				return n == 1 && answerWith(429, "Retry-After", header)(h, w, r, n)
			}
			opts := fast()
			opts.BackoffMin, opts.BackoffMax = 2*time.Millisecond, 2*time.Millisecond
			var slept []time.Duration
			opts.Sleep = func(_ context.Context, d time.Duration) error { slept = append(slept, d); return nil }
			if _, err := fetchConfigMap(within(t, time.Hour), h.object(), opts); err != nil {
				t.Fatal(err)
			}
			if len(slept) != 1 || slept[0] < least+time.Millisecond || slept[0] > least+4*time.Millisecond {
				t.Errorf("got waits %v, want one of %v and a backoff of 1 to 4 ms", slept, least)
			}
		})
	}
	t.Run("past the deadline", func(t *testing.T) {
		h := newHostile(t, newTestCA(t, "cluster"))
		h.handle = func(w http.ResponseWriter, r *http.Request, n int) bool {
			return answerWith(429, "Retry-After", "25")(h, w, r, n)
		}
		began := time.Now()
		_, err := fetchConfigMap(within(t, 20*time.Second), h.object(), fast())
		want{code: fault.ClusterUnreachable, text: []string{"HTTP 429"}}.check(t, err)
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("waited %v, want no wait beyond the deadline", d)
		}
	})
}

// The wait triples up to its limit, and jitter adds as much again at most.
func TestBackoff(t *testing.T) {
	h := newHostile(t, newTestCA(t, "cluster"))
	h.handle = func(w http.ResponseWriter, r *http.Request, n int) bool { return n < 7 && answerWith(503)(h, w, r, n) }
	var slept []time.Duration
	opts := Options{
		BackoffMin: time.Second,
		Sleep:      func(_ context.Context, d time.Duration) error { slept = append(slept, d); return nil },
	}
	if _, err := fetchConfigMap(within(t, time.Minute), h.object(), opts); err != nil {
		t.Fatal(err)
	}

	want := []time.Duration{1, 3, 9, 10, 10, 10}
	if len(slept) != len(want) {
		t.Fatalf("got waits %v, want %d", slept, len(want))
	}
	for i, least := range want {
		if least *= time.Second; slept[i] < least || slept[i] > 2*least {
			t.Errorf("got wait %d of %v, want between %v and %v", i, slept[i], least, 2*least)
		}
	}
}

// TestReadRetryAfter: seconds or a date, as RFC 9110, 10.2.3 has it, bounded both.
func TestReadRetryAfter(t *testing.T) {
	const date = "Wed, 21 Oct 2015 07:28:00 GMT"
	for _, c := range []struct {
		text, date string
		want       time.Duration
	}{
		{"", date, 0},
		{"0", date, 0},
		{"7", "", 7},
		{"120", "", 32},
		{"99999999999", "", 32},
		{"-1", "", 0},
		{"1.5", "", 0},
		{"soon", date, 0},
		{"Wed, 21 Oct 2015 07:28:09 GMT", date, 9},
		{"Wednesday, 21-Oct-15 07:28:09 GMT", date, 9},
		{"Wed Oct 21 07:28:09 2015", date, 9},
		{date, date, 0},
		{"Wed, 21 Oct 2015 07:27:00 GMT", date, 0},
		{"Fri, 31 Dec 9999 23:59:59 GMT", date, 32},
		{"Wed, 21 Oct 2015 07:28:09 GMT", "", 0},
		{"Wed, 21 Oct 2015 07:28:09 GMT", "today", 0},
	} {
		if got := retryAfter(http.Header{"Retry-After": {c.text}, "Date": {c.date}}); got != c.want*time.Second {
			t.Errorf("Retry-After %q at %q: got %s, want %d s", c.text, c.date, got, c.want)
		}
	}
}

// Row 17: the token does not follow a redirect, not even to a server of the same CA.
func TestRedirectKeepsToken(t *testing.T) {
	ca := newTestCA(t, "cluster")
	other := newHostile(t, ca)
	h := newHostile(t, ca)
	h.handle = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
		return true
	}
	_, err := fetchConfigMap(within(t, 30*time.Second), h.object(), fast())
	want{code: fault.ClusterUnusable, text: []string{other.URL}}.check(t, err)
	if n := other.conns.Load(); n != 0 {
		t.Errorf("got %d connections to the target of the redirect, want 0", n)
	}
}

// Without a deadline there is one; a cancelled call ends at once.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	opts := fast()
	opts.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		if d, ok := ctx.Deadline(); !ok || time.Until(d) > defaultBudget {
			t.Errorf("the dial's deadline is %v, %t", d, ok)
		}
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	began := time.Now()
	_, err := FetchTrust(
		ctx,
		TrustRequest{
			Endpoint:     Endpoint{Servers: []string{"192.0.2.1:6443"}},
			CACertHashes: []string{newTestCA(t, "ca").pin()},
		},
		opts,
	)
	want{code: fault.ClusterUnreachable, text: []string{"interrupted"}}.check(t, err)
	if !errors.Is(err, context.Canceled) || time.Since(began) > time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	t.Run("in the middle of an answer", func(t *testing.T) {
		h := newHostile(t, newTestCA(t, "cluster"))
		ctx, cancel := context.WithCancel(context.Background())
		h.handle = func(w http.ResponseWriter, r *http.Request, n int) bool {
			cancel()
			<-r.Context().Done()
			return true
		}
		began := time.Now()
		_, err := fetchConfigMap(ctx, h.object(), Options{})
		if !errors.Is(err, context.Canceled) || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// The client that asks as the kubelet does has the same limits: it asks for no compression, unpacks none, and reads at
// most 1 MiB.
func TestHTTPClientIsBounded(t *testing.T) {
	ca := newTestCA(t, "cluster")
	h := newHostile(t, ca)
	k := Kubeconfig{
		Cluster: &clientcmdapi.Cluster{
			Server:                   h.URL,
			CertificateAuthorityData: ca.pem(),
		},
		User: &clientcmdapi.AuthInfo{},
	}
	client, err := k.HTTPClient(Options{})
	if err != nil {
		t.Fatal(err)
	}
	get := func(handle handler) ([]byte, string, error) {
		asked := ""
		h.handle = func(w http.ResponseWriter, r *http.Request, n int) bool {
			asked = r.Header.Get("Accept-Encoding")
			return handle(h, w, r, n)
		}
		resp, err := client.Get(h.URL)
		if err != nil {
			return nil, asked, err
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		return data, asked, err
	}

	data, asked, err := get(gzipped(strings.Repeat("\x00", maxBody)))
	if err != nil || asked != "" || !bytes.HasPrefix(data, []byte("\x1f\x8b")) {
		t.Errorf(
			"gzip: asked for encoding %q, got %d bytes beginning %.2x and %v; want none asked for, and gzip's bytes",
			asked,
			len(data),
			data,
			err,
		)
	}

	var large *http.MaxBytesError
	if data, _, err = get(bigBody(true)); !errors.As(err, &large) || len(data) != maxBody {
		t.Errorf("a body above 1 MiB: got %d bytes and %v, want %d and an error", len(data), err, maxBody)
	}
}
