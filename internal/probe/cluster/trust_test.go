package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/demo"
	"github.com/prelet/prelet/internal/fault"
)

func startDemo(t testing.TB) *demo.Server {
	t.Helper()
	s, err := demo.Start(demo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": "kind: KubeletConfiguration\n"})
	return s
}

// Every way to trust, against a server that is in order: what comes out, what it costs, and that no credential was
// shown on the way.
func TestTrust(t *testing.T) {
	s := startDemo(t)
	token := func(context.Context) (string, error) { return s.Token() + "\n", nil }
	at := Endpoint{Servers: []string{s.URL()}}
	file := infoText(s.URL(), s.CAPEM())
	cases := []struct {
		name     string
		req      TrustRequest
		by       string
		requests int // each over a connection of its own, as the first is not verified
	}{
		{"pins and token", TrustRequest{Endpoint: at, CACertHashes: []string{s.CAHash()}, Token: token}, ByPins, 2},
		{
			"pins, upper case",
			TrustRequest{Endpoint: at, CACertHashes: []string{strings.ToUpper(s.CAHash())}},
			ByPins,
			2,
		},
		{
			"one of several pins",
			TrustRequest{Endpoint: at, CACertHashes: []string{newTestCA(t, "old").pin(), s.CAHash()}},
			ByPins,
			2,
		},
		{"ca_file", TrustRequest{Endpoint: at, CAPEM: s.CAPEM()}, ByCAFile, 1},
		{
			"ca_file with pins",
			TrustRequest{Endpoint: at, CAPEM: s.CAPEM(), CACertHashes: []string{s.CAHash()}},
			ByCAFile,
			1,
		},
		{
			"ca_file with comments",
			TrustRequest{Endpoint: at, CAPEM: append([]byte("# the cluster's\n"), s.CAPEM()...)},
			ByCAFile,
			1,
		},
		{"discovery file", TrustRequest{Endpoint: at, DiscoveryFile: file}, ByDiscoveryFile, 1},
		{"discovery file and its server", TrustRequest{DiscoveryFile: file}, ByDiscoveryFile, 1},
		{"token alone", TrustRequest{Endpoint: at, TokenTrust: true, Token: token}, ByToken, 2},
		{
			"token and pins",
			TrustRequest{Endpoint: at, TokenTrust: true, Token: token, CACertHashes: []string{s.CAHash()}},
			ByPins,
			2,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			requests, connections := len(s.Requests()), s.Connections()
			got, err := FetchTrust(within(t, 30*time.Second), c.req, fast())
			if err != nil {
				t.Fatal(err)
			}
			want := Trust{
				PEM:        string(s.CAPEM()),
				Hash:       s.CAHash(),
				Hashes:     []string{s.CAHash()},
				Servers:    []string{s.URL()},
				VerifiedBy: c.by,
			}
			if len(c.req.CACertHashes) > 1 {
				want.Unmatched = c.req.CACertHashes[:1]
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			if n := len(s.Requests()) - requests; n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
			if n := s.Connections() - connections; n != c.requests {
				t.Errorf("got %d connections, want %d", n, c.requests)
			}
		})
	}
	if n := s.Authorizations(); n != 0 {
		t.Errorf("got %d requests with Authorization, want 0", n)
	}
}

// A whole boot, on two connections: one that is not verified, and one that is.
func TestTwoConnections(t *testing.T) {
	s := startDemo(t)
	token := func(context.Context) (string, error) { return s.Token(), nil }
	c := New(fast())
	defer c.Close()
	at := Endpoint{Servers: []string{s.URL()}}
	ctx := within(t, 30*time.Second)
	trust, err := c.FetchTrust(ctx, TrustRequest{Endpoint: at, CACertHashes: []string{s.CAHash()}, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		o, err := c.FetchConfigMap(
			ctx,
			ObjectRequest{
				Endpoint:  at,
				CAPEM:     []byte(trust.PEM),
				Token:     token,
				Namespace: "kube-system",
				Name:      "kubelet-config",
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		if o.Data["kubelet"] != "kind: KubeletConfiguration\n" || o.ResourceVersion == "" {
			t.Errorf("got %+v", o)
		}
	}
	if n := s.Connections(); n != 2 {
		t.Errorf("got %d connections, want 2", n)
	}
	if n := len(s.Requests()); n != 4 {
		t.Errorf("%d requests, want 4", n)
	}
}

// A server that gives up idle connections costs a handshake, not a retry.
func TestStaleConnection(t *testing.T) {
	h := newHostile(t, newTestCA(t, "ca"))
	retried := 0
	opts := fast()
	opts.OnRetry = func(Retry) { retried++ }
	c := New(opts)
	defer c.Close()
	ctx := within(t, 30*time.Second)
	for range 3 {
		if _, err := c.FetchConfigMap(ctx, h.object()); err != nil {
			t.Fatal(err)
		}
		h.CloseClientConnections()
	}
	if retried != 0 || h.conns.Load() != 3 {
		t.Errorf("got %d retries and %d connections, want none and two", retried, h.conns.Load())
	}
}

// Who is not provably the cluster is refused at once, whichever way trust is asked for, and no credential was sent.
func TestUntrusted(t *testing.T) {
	good, evil := newTestCA(t, "cluster"), newTestCA(t, "evil")
	century := time.Time{}
	cases := []struct {
		name   string
		server func(t *testing.T) *hostile
		adjust func(*TrustRequest)
		ways   string // p pins, c ca_file, t token, o object
		text   string
	}{
		{"5 wrong CA", func(t *testing.T) *hostile {
			h := newHostile(
				t,
				good,
				func(_ *hostile, c *tls.Config) { c.Certificates = []tls.Certificate{evil.leaf(t, century, century)} },
			)
			return h // it passes the true cluster-info on, which anybody can read
		}, nil, "pcto", "not signed by the cluster's CA"},
		{"6 name mismatch", func(t *testing.T) *hostile {
			return newHostile(t, good, func(_ *hostile, c *tls.Config) {
				c.Certificates = []tls.Certificate{good.leaf(t, century, century, "other.example")}
			})
		}, nil, "pcto", "other.example"},
		{"8 TLS before 1.2", func(t *testing.T) *hostile {
			return newHostile(
				t,
				good,
				func(_ *hostile, c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 },
			)
		}, nil, "pcto", "no TLS version from 1.2 on"},
		{"22 wrong signature", func(t *testing.T) *hostile {
			return newHostile(t, good, func(h *hostile, _ *tls.Config) {
				h.info = func(int) map[string]string {
					text := infoText(h.URL, good.pem())
					return map[string]string{
						"kubeconfig":                text,
						"jws-kubeconfig-" + tokenID: signTest(text, tokenID, "another1secret23"),
					}
				}
			})
		}, nil, "pt", "does not match the token"},
		{"22 signature of another text", func(t *testing.T) *hostile {
			return newHostile(t, good, func(h *hostile, _ *tls.Config) {
				h.info = func(int) map[string]string {
					d := signedInfo("something else")
					d["kubeconfig"] = infoText(h.URL, good.pem())
					return d
				}
			})
		}, nil, "pt", "does not match the token"},
		{"23 pin mismatch", func(t *testing.T) *hostile { return newHostile(t, evil) },
			func(r *TrustRequest) { r.CACertHashes = []string{good.pin()} }, "p", "no pin covers the CA"},
		{"24 second fetch differs", func(t *testing.T) *hostile {
			return newHostile(t, good, func(h *hostile, _ *tls.Config) {
				h.info = func(n int) map[string]string {
					if n == 1 {
						return signedInfo(infoText("https://first.example:6443", good.pem()))
					}
					return signedInfo(infoText("https://second.example:6443", good.pem()))
				}
			})
		}, nil, "pt", "differs from the first"},
		{"24 second fetch holds no kubeconfig", func(t *testing.T) *hostile {
			return newHostile(t, good, func(h *hostile, _ *tls.Config) {
				h.info = func(n int) map[string]string {
					if n == 1 {
						return signedInfo(infoText("https://first.example:6443", good.pem()))
					}
					return signedInfo("- nothing of the kind")
				}
			})
		}, nil, "pt", "differs from the first"},
		{"25 a server with a CA that no pin covers", func(t *testing.T) *hostile {
			return newHostile(t, evil, func(h *hostile, _ *tls.Config) {
				h.info = func(int) map[string]string {
					return signedInfo(infoText(h.URL, append(good.pem(), evil.pem()...)))
				}
			})
		}, func(r *TrustRequest) { r.CACertHashes = []string{good.pin()} }, "p", "not signed by the cluster's CA"},
		{"25 a ca_file that no pin covers", func(t *testing.T) *hostile { return newHostile(t, good) },
			func(r *TrustRequest) { r.CACertHashes = []string{evil.pin()} }, "c", "no pin covers the CA"},
	}
	for _, c := range cases {
		for _, way := range c.ways {
			t.Run(
				c.name+" by "+map[rune]string{'p': "pins", 'c': "ca_file", 't': "token", 'o': "object"}[way],
				func(t *testing.T) {
					h := c.server(t)
					ctx := within(t, 30*time.Second)
					var err error
					if way == 'o' {
						_, err = fetchConfigMap(ctx, h.object(), fast())
					} else {
						req := h.pinned()
						switch way {
						case 'c':
							req = TrustRequest{Endpoint: req.Endpoint, CAPEM: good.pem()}
						case 't':
							req.TokenTrust, req.CACertHashes = true, nil
						}
						if c.adjust != nil {
							c.adjust(&req)
						}
						_, err = FetchTrust(ctx, req, fast())
					}
					want{code: fault.ClusterUntrusted, text: []string{c.text}}.check(t, err)
					if n := h.authorized.Load(); n != 0 {
						t.Errorf("got %d requests with Authorization, want 0", n)
					}
				},
			)
		}
	}
}

// Chains as clusters have them: an intermediate that the server sends, and two CAs while one replaces the other.
func TestChains(t *testing.T) {
	root, next := newTestCA(t, "root"), newTestCA(t, "next")
	intermediate := root.intermediate(t, "intermediate")
	leaf := intermediate.leaf(t, time.Time{}, time.Time{})
	full := tls.Certificate{
		Certificate: [][]byte{leaf.Certificate[0], intermediate.cert.Raw},
		PrivateKey:  leaf.PrivateKey,
	}
	bundle := append(root.pem(), next.pem()...)
	for name, c := range map[string]struct {
		cert tls.Certificate
		ca   []byte
		pins []string
		code fault.Code
	}{
		"intermediate":               {full, root.pem(), []string{root.pin()}, ""},
		"intermediate not sent":      {leaf, root.pem(), []string{root.pin()}, fault.ClusterUntrusted},
		"the new of two":             {next.leaf(t, time.Time{}, time.Time{}), bundle, []string{next.pin(), root.pin()}, ""},
		"the old of two":             {full, bundle, []string{next.pin(), root.pin()}, ""},
		"the new, of which one pin":  {next.leaf(t, time.Time{}, time.Time{}), bundle, []string{next.pin()}, ""},
		"the old, whose pin is gone": {full, bundle, []string{next.pin()}, fault.ClusterUntrusted},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t, root, func(h *hostile, cfg *tls.Config) {
				cfg.Certificates = []tls.Certificate{c.cert}
				h.info = func(int) map[string]string { return signedInfo(infoText(h.URL, c.ca)) }
			})
			at := Endpoint{Servers: []string{h.URL}}
			ctx := within(t, 30*time.Second)
			pinned, err := FetchTrust(
				ctx,
				TrustRequest{Endpoint: at, CACertHashes: c.pins, Token: readTestToken},
				fast(),
			)
			given, err2 := FetchTrust(ctx, TrustRequest{Endpoint: at, CAPEM: c.ca, CACertHashes: c.pins}, fast())
			if c.code != "" {
				want{code: c.code}.check(t, err)
				want{code: c.code}.check(t, err2)
				return
			}
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			for _, got := range []Trust{pinned, given} {
				slices.Sort(got.Hashes)
				slices.Sort(c.pins)
				if d := cmp.Diff(c.pins, got.Hashes); d != "" || !HaveSameCAs(pinned.PEM, got.PEM) {
					t.Errorf("the CAs by %s: %s", got.VerifiedBy, d)
				}
				if n := bytes.Count(c.ca, []byte("BEGIN")) - len(c.pins); len(got.LeftOut) != n {
					t.Errorf("left out by %s: got %q, want %d", got.VerifiedBy, got.LeftOut, n)
				}
			}
		})
	}
}

// The server that a response names is ignored.
func TestEvilServerIgnored(t *testing.T) {
	ca := newTestCA(t, "cluster")
	other := newHostile(t, ca)
	h := newHostile(t, ca, func(h *hostile, _ *tls.Config) {
		h.info = func(int) map[string]string { return signedInfo(infoText(other.URL, ca.pem())) }
	})
	got, err := FetchTrust(within(t, 30*time.Second), h.pinned(), fast())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{h.URL}, got.Servers); d != "" {
		t.Error(d)
	}
	if n := other.conns.Load(); n != 0 {
		t.Errorf("got %d connections to the server in the response, want 0", n)
	}
}

func TestSignatureComesLate(t *testing.T) {
	for _, late := range []bool{true, false} {
		h := newHostile(t, newTestCA(t, "cluster"))
		h.info = func(n int) map[string]string {
			d := signedInfo(infoText(h.URL, h.ca.pem()))
			if !late || n < 4 {
				delete(d, "jws-kubeconfig-"+tokenID)
			}
			return d
		}
		_, err := FetchTrust(within(t, 30*time.Second), h.pinned(), givingUp(fast(), 5))
		if late {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		_ = want{
			code:  fault.ClusterDenied,
			retry: true,
			text:  []string{`no signature for the token "canary"`, "kubeadm token create"},
		}.check(
			t,
			err,
		)
	}
}

// What the site got wrong is said before anything is dialled.
func TestTrustRequestRefused(t *testing.T) {
	ca := newTestCA(t, "cluster")
	at := Endpoint{Servers: []string{"127.0.0.1:6443"}}
	opts := fast()
	opts.Dial = func(context.Context, string, string) (net.Conn, error) {
		t.Error("dialled")
		return nil, errors.New("no")
	}
	for _, c := range []struct {
		name string
		req  TrustRequest
		text string
	}{
		{"no anchor", TrustRequest{Endpoint: at}, "none of ca_cert_hashes"},
		{"two anchors", TrustRequest{Endpoint: at, CAPEM: ca.pem(), TokenTrust: true, Token: readTestToken}, "more than one"},
		{"token trust without a token", TrustRequest{Endpoint: at, TokenTrust: true}, "without a token"},
		{"a bad pin", TrustRequest{Endpoint: at, CACertHashes: []string{"sha1:00"}}, "sha256: and 64 hex digits"},
		{"no server", TrustRequest{CACertHashes: []string{ca.pin()}}, "no server"},
		{"http", TrustRequest{Endpoint: Endpoint{Servers: []string{"http://k8s:80"}}, CACertHashes: []string{ca.pin()}}, "http is refused"},
		{"a bad proxy", TrustRequest{Endpoint: Endpoint{Servers: at.Servers, ProxyURL: "socks5://u:" + tokenSecret + "@p:1"}, CACertHashes: []string{ca.pin()}}, "proxy_url"},
		{"an empty ca_file", TrustRequest{Endpoint: at, CAPEM: []byte("nothing")}, "no certificate"},
		{"a key as ca_file", TrustRequest{Endpoint: at, CAPEM: []byte("-----BEGIN PRIVATE " +
			"KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")}, "PRIVATE KEY"},
		{"a discovery file without a CA", TrustRequest{DiscoveryFile: "kind: Config\napiVersion: " +
			"v1\nclusters:\n- name: a\n  cluster: {server: 'https://a:1'}\n"}, "no certificate-authority-data"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := FetchTrust(within(t, time.Second), c.req, opts)
			want{code: fault.ClusterUnusable, text: []string{c.text}}.check(t, err)
		})
	}
}

// A token that cannot be read or is invalid is reported without its text.
func TestTokenUnreadable(t *testing.T) {
	h := newHostile(t, newTestCA(t, "cluster"))
	gone := errors.New("no such credential")
	for _, c := range []struct {
		name  string
		token Token
		cause error
		code  fault.Code
	}{
		{"unreadable", func(context.Context) (string, error) { return "", gone }, gone, fault.ClusterDenied},
		{"malformed", func(context.Context) (string, error) { return "x" + testToken, nil }, nil, fault.CredentialMissing},
	} {
		trust, object := h.pinned(), h.object()
		trust.Token, object.Token = c.token, c.token
		_, errTrust := FetchTrust(within(t, time.Second), trust, fast())
		_, errObject := fetchConfigMap(within(t, time.Second), object, fast())
		for _, err := range []error{errTrust, errObject} {
			want{code: c.code, text: []string{"bootstrap token"}}.check(t, err)
			if c.cause != nil && !errors.Is(err, c.cause) {
				t.Errorf("%s: want the cause in the error, got: %v", c.name, err)
			}
		}
	}
	if n := h.authorized.Load(); n != 0 {
		t.Errorf("got %d requests with Authorization, want 0", n)
	}
}

// The last guard: no credential is sent to an unverified server or to another server than the intended one, from any
// caller.
func TestGuard(t *testing.T) {
	h, other := newHostile(t, newTestCA(t, "cluster")), newHostile(t, newTestCA(t, "other"))
	c := New(fast())
	defer c.Close()
	host := strings.TrimPrefix(h.URL, "https://")
	ctx := within(t, 30*time.Second)

	config := newConfig(nil, "")
	config.BearerToken = testToken
	if _, f := c.get(ctx, target{host, host}, config, configPath); f == nil || !errors.Is(f.Err, errCredential) ||
		f.Code != fault.ClusterUntrusted {
		t.Errorf("without verification: got %+v, want %v", f, errCredential)
	}

	for _, url := range []string{other.URL, "http://" + host} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+testToken)
		g := &guard{next: http.DefaultTransport, host: host, verified: true}
		if _, err := g.RoundTrip(req); !errors.Is(err, errCredential) {
			t.Errorf("%s: got %v, want %v", url, err, errCredential)
		}
	}
	if n := h.requests.Load() + other.requests.Load(); n != 0 {
		t.Errorf("got %d requests, want none", n)
	}
}
