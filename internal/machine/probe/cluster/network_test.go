package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/testing/table"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/testing/demo"
)

// Rows of the matrix of faults that are an answer, or the lack of one. Each is met by an anonymous read of
// cluster-info and by a read with a token. Where an answer is retried, the third request is answered well, too.
func TestAnswers(t *testing.T) {
	var answers map[string]demo.BadResponse
	readData(t, "../../../../testing/demo/testdata/answers.yaml", &answers)
	var cases []struct {
		Name string
		Want want
	}
	readData(t, "answers.yaml", &cases)
	if len(cases) != len(answers) {
		t.Errorf("got %d answers, want %d, an expectation for each", len(answers), len(cases))
	}
	ca := demo.NewAuthority("cluster")
	for _, c := range cases {
		_, name, _ := strings.Cut(c.Name, " ")
		answer, isKnown := answers[name]
		if !isKnown {
			t.Fatalf("got no answer %q, want one", name)
		}
		for way, read := range ways {
			opts := fast()
			if answer.Trickle {
				opts.RequestTimeout = 500 * time.Millisecond
			}
			t.Run(c.Name+" by "+way, func(t *testing.T) {
				t.Parallel()
				h := newHostile(t, ca)
				h.Intercept = exceptReadyz(answer.Respond)
				c.Want.check(t, read(h, t, givingUp(opts, 3)))
				if way == "trust" && h.Authorizations() != 0 {
					t.Error("an anonymous request carried Authorization")
				}
			})
			if !c.Want.Retry {
				continue
			}
			t.Run(c.Name+" by "+way+" heals", func(t *testing.T) {
				t.Parallel()
				h := newHostile(t, ca)
				h.Intercept = first(2, exceptReadyz(answer.Respond))
				healing := opts // other tests read opts meanwhile
				recordSleeps(&healing)
				if err := read(h, t, healing); err != nil {
					t.Errorf("got %v, want no error", err)
				}
			})
		}
	}
}

// HTTP/1.1 is spoken, without compression, also where the server offers more.
func TestProtocol(t *testing.T) {
	h := newHostile(t, nil, func(c *tls.Config) { c.NextProtos = []string{"h2", "http/1.1"} })
	h.Intercept = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		got := [3]string{r.Proto, r.TLS.NegotiatedProtocol, r.Header.Get("Accept-Encoding")}
		if want := [3]string{"HTTP/1.1", "http/1.1", "identity"}; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := r.Header.Get("User-Agent"), "prelet"; got != want {
			t.Errorf("got user agent %q, want %q", got, want)
		}
		return false
	}
	if err := h.trust(t, fast()); err != nil {
		t.Error(err)
	}
	if err := h.read(t, fast()); err != nil {
		t.Error(err)
	}
}

// Neither retries nor rate limits of a library: each attempt is one request, and twenty are not slowed down.
func TestNothingOfTheLibrary(t *testing.T) {
	h := newHostile(t, nil)
	h.Intercept = func(w http.ResponseWriter, r *http.Request, n int) bool {
		w.Header().Set("Warning", `299 - "a warning"`)
		return n <= 20 && answerWith(429, "Retry-After", "7")(w, r, n)
	}
	opts := fast()
	waits := recordSleeps(&opts)
	began := time.Now()
	if _, err := fetchConfigMap(within(t, time.Hour), h.object(), opts); err != nil {
		t.Fatal(err)
	}
	if n := len(h.Requests()); n != 21 || len(*waits) != 20 {
		t.Errorf("got %d requests and %d waits, want 21 and 20", n, len(*waits))
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %s, want no waits but ours", took)
	}
}

// An interim response is not the response.
func TestEarlyHints(t *testing.T) {
	h := newHostile(t, nil)
	h.Intercept = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		w.WriteHeader(http.StatusEarlyHints)
		return false
	}
	if err := h.read(t, fast()); err != nil {
		t.Error(err)
	}
}

// A server that thinks for too long is given up by the request's own limit, and asked again.
func TestRequestTimeout(t *testing.T) {
	h := newHostile(t, nil)
	release := make(chan struct{})
	h.Intercept = func(_ http.ResponseWriter, r *http.Request, n int) bool {
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
	if err := h.read(t, opts); err != nil {
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
	for header, least := range table.YAML[map[string]table.Duration](t, `
'1': 1s
'7': 7s
'32': 32s
'3600': 32s
'': 0s
soon: 0s
'-1': 0s
`) {
		t.Run(header, func(t *testing.T) {
			h := newHostile(t, nil)
			h.Intercept = first(1, answerWith(429, "Retry-After", header))
			opts := fast()
			opts.BackoffMin, opts.BackoffMax = 2*time.Millisecond, 2*time.Millisecond
			waits := recordSleeps(&opts)
			if _, err := fetchConfigMap(within(t, time.Hour), h.object(), opts); err != nil {
				t.Fatal(err)
			}
			slept := *waits
			if len(slept) != 1 || slept[0] < least.Duration+time.Millisecond ||
				slept[0] > least.Duration+4*time.Millisecond {
				t.Errorf("got waits %v, want one of %v and a backoff of 1 to 4 ms", slept, least)
			}
		})
	}
	t.Run("past the deadline", func(t *testing.T) {
		h := newHostile(t, nil)
		h.Intercept = answerWith(429, "Retry-After", "32")
		opts := fast()
		waits := recordSleeps(&opts)
		_, err := fetchConfigMap(within(t, 30*time.Second), h.object(), opts)
		want{Code: fault.ClusterUnreachable, Text: []string{"HTTP 429"}}.check(t, err)
		if len(*waits) > 0 {
			t.Errorf("got the waits %v, want none beyond the deadline", *waits)
		}
	})
}

// The wait triples up to its limit, and jitter adds as much again at most.
func TestBackoff(t *testing.T) {
	h := newHostile(t, nil)
	h.Intercept = first(6, answerWith(503))
	opts := ClientConfig{BackoffMin: time.Second}
	waits := recordSleeps(&opts)
	if _, err := fetchConfigMap(within(t, time.Minute), h.object(), opts); err != nil {
		t.Fatal(err)
	}

	slept := *waits
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
	for _, c := range readServersCases(t).RetryAfter {
		if got := retryAfter(http.Header{"Retry-After": {c.After}, "Date": {c.Date}}); got != time.Duration(c.Seconds)*time.Second {
			t.Errorf("Retry-After %q at %q: got %s, want %d s", c.After, c.Date, got, c.Seconds)
		}
	}
}

// Row 17: the token does not follow a redirect, not even to a server of the same CA.
func TestRedirectKeepsToken(t *testing.T) {
	ca := demo.NewAuthority("cluster")
	other := newHostile(t, ca)
	h := newHostile(t, ca)
	h.Intercept = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
		return true
	}
	err := h.read(t, fast())
	want{Code: fault.ClusterUnusable, Text: []string{other.URL}}.check(t, err)
	if n := other.Connections(); n != 0 {
		t.Errorf("got %d connections to the target of the redirect, want 0", n)
	}
}

// Without a deadline there is one; a cancelled call ends without another try.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	opts := fast()
	dials := 0
	opts.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		dials++
		if d, ok := ctx.Deadline(); !ok || time.Until(d) > defaultBudget {
			t.Errorf("the dial's deadline is %v, %t", d, ok)
		}
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	_, err := FetchTrust(
		ctx,
		TrustRequest{
			Endpoint:     Endpoint{Servers: []string{"192.0.2.1:6443"}},
			CACertHashes: []string{demo.NewAuthority("ca").CAHash()},
		},
		opts,
	)
	want{Code: fault.ClusterUnreachable, Text: []string{"interrupted"}}.check(t, err)
	if !errors.Is(err, context.Canceled) || dials != 1 {
		t.Errorf("got %v after %d dials; want that it was cancelled, after one", err, dials)
	}
	t.Run("in the middle of an answer", func(t *testing.T) {
		h := newHostile(t, nil)
		ctx, cancel := context.WithCancel(context.Background())
		h.Intercept = func(w http.ResponseWriter, r *http.Request, n int) bool {
			cancel()
			<-r.Context().Done()
			return true
		}
		_, err := fetchConfigMap(ctx, h.object(), ClientConfig{})
		if n := len(h.Requests()); !errors.Is(err, context.Canceled) || n != 1 {
			t.Errorf("got %v after %d requests; want that it was cancelled, after one", err, n)
		}
	})
}

// The client that asks as the kubelet does has the same limits: it asks for no compression, unpacks none, and reads at
// most 1 MiB.
func TestHTTPClientIsBounded(t *testing.T) {
	ca := demo.NewAuthority("cluster")
	h := newHostile(t, ca)
	k := Kubeconfig{
		Cluster: &clientcmdapi.Cluster{
			Server:                   h.URL,
			CertificateAuthorityData: ca.CAPEM(),
		},
		User: &clientcmdapi.AuthInfo{},
	}
	client, err := k.HTTPClient(ClientConfig{})
	must(t, err)
	get := func(handle handler) ([]byte, string, error) {
		asked := ""
		h.Intercept = func(w http.ResponseWriter, r *http.Request, n int) bool {
			asked = r.Header.Get("Accept-Encoding")
			return handle(w, r, n)
		}
		resp, err := client.Get(h.URL)
		if err != nil {
			return nil, asked, err
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		return data, asked, err
	}

	data, asked, err := get(demo.BadResponse{Header: map[string]string{"Content-Encoding": "gzip"}, Repeated: " ", Times: maxBody}.Respond)
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
	if data, _, err = get(demo.BadResponse{Repeated: " ", Times: maxBody + 1}.Respond); !errors.As(err, &large) || len(data) != maxBody {
		t.Errorf("a body above 1 MiB: got %d bytes and %v, want %d and an error", len(data), err, maxBody)
	}
}
