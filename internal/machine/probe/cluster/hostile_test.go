package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/testing/demo"
)

const configPath = "/api/v1/namespaces/kube-system/configmaps/kubelet-config"

// handler answers the nth request, from 1, and says whether it did.
type handler = func(w http.ResponseWriter, r *http.Request, n int) bool

// answerWith answers with a Status of Kubernetes, and names and values of the header.
func answerWith(code int, header ...string) handler {
	a := demo.BadResponse{Status: code, Header: map[string]string{}}
	for i := 0; i+1 < len(header); i += 2 {
		a.Header[header[i]] = header[i+1]
	}
	return a.Respond
}

// first is a handler for the first n requests.
func first(n int, handle handler) handler {
	return func(w http.ResponseWriter, r *http.Request, k int) bool { return k <= n && handle(w, r, k) }
}

// exceptReadyz is a handler for all requests but those that ask whether the server is ready.
func exceptReadyz(handle handler) handler {
	return func(w http.ResponseWriter, r *http.Request, n int) bool {
		return r.URL.Path != "/readyz" && handle(w, r, n)
	}
}

// readData reads a file of testdata. It replaces names between @ with a text, given in pairs.
func readData(t testing.TB, name string, into any, replace ...string) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	must(t, err)
	if err := yaml.UnmarshalStrict([]byte(replaceNames(string(text), replace...)), into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// replaceNames replaces names between @ in YAML. Their places are in double quotes.
func replaceNames(text string, pairs ...string) string {
	for i := 0; i+1 < len(pairs); i += 2 {
		quoted, _ := json.Marshal(pairs[i+1])
		text = strings.ReplaceAll(text, "@"+pairs[i]+"@", string(quoted[1:len(quoted)-1]))
	}
	return text
}

// hostile is an API server that a test makes misbehave.
type hostile struct{ *demo.Server }

// newHostile starts a server that, so far, behaves well, of a CA; nil is a new one.
func newHostile(t testing.TB, ca *demo.Authority, adjust ...func(*tls.Config)) hostile {
	t.Helper()
	h := hostile{demo.New(demo.ServerConfig{Authority: ca})}
	for _, f := range adjust {
		f(h.TLS)
	}
	h.StartTLS()
	t.Cleanup(h.Close)
	h.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": "kind: KubeletConfiguration\n"})
	return h
}

// setInfo sets what cluster-info contains at the nth request of it, from 1.
func (h hostile) setInfo(data func(n int) map[string]string) {
	n := 0
	h.Intercept = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		if r.URL.Path == infoPath {
			n++
			h.SetConfigMap("kube-public", "cluster-info", data(n))
		}
		return false
	}
}

// fast are options whose waits are shorter than any attempt, as on a machine with other load; their limits are wide.
func fast() ClientConfig {
	return ClientConfig{
		DialTimeout:    20 * time.Second,
		RequestTimeout: 20 * time.Second,
		BackoffMin:     time.Nanosecond,
		BackoffMax:     time.Nanosecond,
	}
}

// givingUp makes the deadline come at the nth wait, whatever the clock says: a loaded machine changes nothing.
func givingUp(opts ClientConfig, n int) ClientConfig {
	opts.Sleep = func(context.Context, time.Duration) error {
		if n--; n == 0 {
			return context.DeadlineExceeded
		}
		return nil
	}
	return opts
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// fetchConfigMap is Client.FetchConfigMap on a client of its own.
func fetchConfigMap(ctx context.Context, req ObjectRequest, opts ClientConfig) (Object, error) {
	c := New(opts)
	defer c.Close()
	return c.FetchConfigMap(ctx, req)
}

// readObject is fetchConfigMap with a minute of time, and without the object.
func readObject(t testing.TB, req ObjectRequest, opts ClientConfig) error {
	t.Helper()
	_, err := fetchConfigMap(within(t, time.Minute), req, opts)
	return err
}

// read reads the object of a server.
func (h hostile) read(t testing.TB, opts ClientConfig) error {
	t.Helper()
	return readObject(t, h.object(), opts)
}

// trust reads who the cluster of a server is.
func (h hostile) trust(t testing.TB, opts ClientConfig) error {
	t.Helper()
	_, err := FetchTrust(within(t, time.Minute), h.pinned(), opts)
	return err
}

// ways are the two reads.
var ways = map[string]func(hostile, testing.TB, ClientConfig) error{"trust": hostile.trust, "object": hostile.read}

func readTestToken(context.Context) (string, error) { return demo.Token, nil }

func (h hostile) pinned() TrustRequest {
	return TrustRequest{
		Endpoint:     Endpoint{Servers: []string{h.URL}},
		CACertHashes: []string{h.CAHash()},
		Token:        readTestToken,
	}
}

func (h hostile) object() ObjectRequest {
	return ObjectRequest{
		Endpoint:  Endpoint{Servers: []string{h.URL}},
		CAPEM:     h.CAPEM(),
		Token:     readTestToken,
		Namespace: "kube-system",
		Name:      "kubelet-config",
	}
}

// objectAt is a request for the object of a server at other addresses.
func (h hostile) objectAt(servers ...string) ObjectRequest {
	req := h.object()
	req.Servers = servers
	return req
}

// dialAt dials other addresses in place of some.
func dialAt(others map[string]string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(cmp.Or(others[address], address), "https://"))
	}
}

// recordSleeps makes all waits take no time, and returns them.
func recordSleeps(opts *ClientConfig) *[]time.Duration {
	var slept []time.Duration
	opts.Sleep = func(_ context.Context, d time.Duration) error { slept = append(slept, d); return nil }
	return &slept
}

// want is what an error must be like.
type want struct {
	Code  fault.Code
	Retry bool // it was tried more than once
	Text  []string
}

// check also looks for the token, in the message and in every error behind it.
func (w want) check(t *testing.T, err error) *fault.Fault {
	t.Helper()
	var e *fault.Fault
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a fault with code %s", err, w.Code)
	}
	noCanary(t, err)
	if e.Code != w.Code {
		t.Errorf("code %s, want %s: %v", e.Code, w.Code, err)
	}
	if retried := strings.HasSuffix(e.Why, " times)"); retried != w.Retry {
		t.Errorf("tried more than once: %t, want %t: %v", retried, w.Retry, err)
	}
	if e.Summary == "" || e.Why == "" || e.Next == "" {
		t.Errorf("got summary %q, reason %q, next step %q; want none empty", e.Summary, e.Why, e.Next)
	}
	for _, part := range w.Text {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("want %q in the error, got: %v", part, err)
		}
	}
	return e
}

func noCanary(t *testing.T, err error) {
	t.Helper()
	for e := err; e != nil; e = errors.Unwrap(e) {
		for _, s := range []string{e.Error(), fmt.Sprintf("%+v", e), fmt.Sprintf("%#v", e)} {
			if strings.Contains(s, demo.TokenSecret) {
				t.Fatalf("got the token's secret in an error, want none: %s", s)
			}
		}
	}
}
