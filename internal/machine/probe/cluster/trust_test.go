package cluster

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/testing/demo"
)

// authorities are CAs by the names in testdata.
type authorities map[string]*demo.Authority

func newAuthorities() authorities {
	out := authorities{}
	for _, name := range []string{"cluster", "evil", "root", "next"} {
		out[name] = demo.NewAuthority(name)
	}
	sub := demo.NewAuthority("intermediate")
	sub.Cert = out["root"].Sign(sub.Cert, sub.Key)
	out["intermediate"] = sub
	return out
}

func (a authorities) pem(names ...string) (out []byte) {
	for _, name := range names {
		out = append(out, a[name].CAPEM()...)
	}
	return out
}

func (a authorities) pins(names ...string) (out []string) {
	for _, name := range names {
		out = append(out, a[name].CAHash())
	}
	return out
}

// serverSpec is a server in testdata, where trust.yaml explains its fields.
type serverSpec struct {
	CA, Leaf     string
	Names, Chain []string
	Old          bool
	Info         []struct {
		Server, Text, Signed, Secret string
		CAs                          []string
	}
	Answer *demo.BadResponse
	Ready  bool // to /readyz there is another answer
}

func (s serverSpec) start(t testing.TB, all authorities) hostile {
	t.Helper()
	ca := cmp.Or(s.CA, "cluster")
	h := newHostile(t, all[ca], func(c *tls.Config) {
		leaf := all[cmp.Or(s.Leaf, ca)].IssueServer(s.Names...)
		for _, name := range s.Chain {
			leaf.Certificate = append(leaf.Certificate, all[name].Cert.Raw)
		}
		c.Certificates = []tls.Certificate{leaf}
		if s.Old {
			c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		}
	})
	if s.Answer != nil {
		h.Intercept = s.Answer.Respond
	}
	if s.Ready {
		h.Intercept = exceptReadyz(h.Intercept)
	}
	if len(s.Info) == 0 {
		return h
	}
	h.setInfo(func(n int) map[string]string {
		info := s.Info[min(n, len(s.Info))-1]
		cas := info.CAs
		if cas == nil {
			cas = []string{ca}
		}
		text := cmp.Or(info.Text, demo.ClusterInfo(cmp.Or(info.Server, h.URL), all.pem(cas...)))
		return map[string]string{
			"kubeconfig": text,
			"jws-kubeconfig-" + demo.TokenID: demo.SignText(
				cmp.Or(info.Signed, text),
				demo.TokenID,
				cmp.Or(info.Secret, demo.TokenSecret),
			),
		}
	})
	return h
}

// trustCases is testdata/trust.yaml.
type trustCases struct {
	Accepted, Refused []struct {
		Name     string
		Request  TrustRequest
		Token    bool
		By       string
		Requests int
		Why      string
	}
	Untrusted []struct {
		Name   string
		Server serverSpec
		Pins   []string
		By     []string
		Why    string
	}
	Chains []struct {
		Name   string
		Server serverSpec
		Pins   []string
		Code   fault.Code
	}
}

func readTrustCases(t *testing.T, server string, ca []byte) (out trustCases) {
	t.Helper()
	hashes, err := CAHashes(ca)
	must(t, err)
	base64 := base64.StdEncoding.EncodeToString
	readData(t, "trust.yaml", &out, "URL", server, "CA64", base64(ca), "PIN", hashes[0],
		"UPPER", strings.ToUpper(hashes[0]), "OLD", demo.NewAuthority("old").CAHash(), "FILE", demo.ClusterInfo(server, ca),
		"COMMENTED64", base64(append([]byte("# the cluster's\n"), ca...)), "SECRET", demo.TokenSecret)
	return out
}

// Every way to trust, against a server that is in order: what comes out, what it costs, and that no credential was
// shown on the way.
func TestTrust(t *testing.T) {
	s := newHostile(t, nil)
	for _, c := range readTrustCases(t, s.URL, s.CAPEM()).Accepted {
		t.Run(c.Name, func(t *testing.T) {
			requests, connections := len(s.Requests()), s.Connections()
			if c.Token {
				c.Request.Token = func(context.Context) (string, error) { return demo.Token + "\n", nil }
			}
			got, err := FetchTrust(within(t, time.Minute), c.Request, fast())
			must(t, err)
			want := Trust{
				PEM:        string(s.CAPEM()),
				Hash:       s.CAHash(),
				Servers:    []string{s.URL},
				VerifiedBy: c.By,
			}
			if len(c.Request.CACertHashes) > 1 {
				want.Unmatched = c.Request.CACertHashes[:1]
			}
			if d := gocmp.Diff(want, got); d != "" {
				t.Errorf("trust (-want +got):\n%s", d)
			}
			got2 := [2]int{len(s.Requests()) - requests, s.Connections() - connections}
			if got2 != [2]int{c.Requests, c.Requests} {
				t.Errorf("got %v requests and connections, want %d each", got2, c.Requests)
			}
		})
	}
	if n := s.Authorizations(); n != 0 {
		t.Errorf("got %d requests with Authorization, want 0", n)
	}
}

// A whole boot, on two connections: one that is not verified, and one that is.
func TestTwoConnections(t *testing.T) {
	s := newHostile(t, nil)
	c := New(fast())
	defer c.Close()
	ctx := within(t, time.Minute)
	trust, err := c.FetchTrust(ctx, s.pinned())
	must(t, err)
	req := s.object()
	req.CAPEM = []byte(trust.PEM)
	for range 2 {
		o, err := c.FetchConfigMap(ctx, req)
		must(t, err)
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
	h := newHostile(t, nil)
	retried := 0
	opts := fast()
	opts.OnRetry = func(Retry) { retried++ }
	c := New(opts)
	defer c.Close()
	ctx := within(t, time.Minute)
	for range 3 {
		if _, err := c.FetchConfigMap(ctx, h.object()); err != nil {
			t.Fatal(err)
		}
		h.CloseClientConnections()
	}
	if retried != 0 || h.Connections() != 3 {
		t.Errorf("got %d retries and %d connections, want none and two", retried, h.Connections())
	}
}

// Who is not provably the cluster is refused at once, whichever way trust is asked for, and no credential was sent.
func TestUntrusted(t *testing.T) {
	all := newAuthorities()
	for _, c := range readTrustCases(t, "", all.pem("cluster")).Untrusted {
		for _, way := range c.By {
			t.Run(c.Name+" by "+way, func(t *testing.T) {
				h := c.Server.start(t, all)
				req := h.pinned()
				switch way {
				case "ca_file":
					req = TrustRequest{Endpoint: req.Endpoint, CAPEM: all.pem("cluster")}
				case "token":
					req.TokenTrust, req.CACertHashes = true, nil
				}
				if c.Pins != nil {
					req.CACertHashes = all.pins(c.Pins...)
				}
				var err error
				if way == "object" {
					err = h.read(t, fast())
				} else {
					_, err = FetchTrust(within(t, time.Minute), req, fast())
				}
				want{Code: fault.ClusterUntrusted, Text: []string{c.Why}}.check(t, err)
				if n := h.Authorizations(); n != 0 {
					t.Errorf("got %d requests with Authorization, want 0", n)
				}
			})
		}
	}
}

func TestChains(t *testing.T) {
	all := newAuthorities()
	for _, c := range readTrustCases(t, "", all.pem("cluster")).Chains {
		t.Run(c.Name, func(t *testing.T) {
			h := c.Server.start(t, all)
			ca, pins := all.pem(c.Server.Info[0].CAs...), all.pins(c.Pins...)
			slices.Sort(pins)
			byPins := TrustRequest{Endpoint: h.pinned().Endpoint, CACertHashes: pins, Token: readTestToken}
			byFile := TrustRequest{Endpoint: byPins.Endpoint, CACertHashes: pins, CAPEM: ca}
			for _, req := range []TrustRequest{byPins, byFile} {
				got, err := FetchTrust(within(t, time.Minute), req, fast())
				if c.Code != "" {
					want{Code: c.Code}.check(t, err)
					continue
				}
				must(t, err)
				if hashes, err := CAHashes([]byte(got.PEM)); err != nil || !slices.Equal(slices.Sorted(slices.Values(hashes)), pins) {
					t.Errorf("CAs by %s: got pins %v, %v; want %v", got.VerifiedBy, hashes, err, pins)
				}
				if n := bytes.Count(ca, []byte("BEGIN")) - len(pins); len(got.LeftOut) != n {
					t.Errorf("left out by %s: got %q, want %d", got.VerifiedBy, got.LeftOut, n)
				}
			}
		})
	}
}

// The server that a response names is ignored.
func TestEvilServerIgnored(t *testing.T) {
	ca := demo.NewAuthority("cluster")
	other := newHostile(t, ca)
	h := newHostile(t, ca)
	h.SignClusterInfo(demo.ClusterInfo(other.URL, ca.CAPEM()))
	got, err := FetchTrust(within(t, time.Minute), h.pinned(), fast())
	must(t, err)
	if d := gocmp.Diff([]string{h.URL}, got.Servers); d != "" {
		t.Error(d)
	}
	if n := other.Connections(); n != 0 {
		t.Errorf("got %d connections to the server in the response, want 0", n)
	}
}

func TestSignatureComesLate(t *testing.T) {
	for _, late := range []bool{true, false} {
		h := newHostile(t, nil)
		h.setInfo(func(n int) map[string]string {
			d := demo.SignInfo(demo.ClusterInfo(h.URL, h.CAPEM()))
			if !late || n < 4 {
				delete(d, "jws-kubeconfig-"+demo.TokenID)
			}
			return d
		})
		err := h.trust(t, givingUp(fast(), 5))
		if late {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		want{Code: fault.ClusterDenied, Retry: true, Text: []string{`no signature for the token "canary"`, "kubeadm token create"}}.check(t, err)
	}
}

// What the site got wrong is said before anything is dialled.
func TestTrustRequestRefused(t *testing.T) {
	ca := demo.NewAuthority("cluster")
	opts := fast()
	opts.Dial = func(context.Context, string, string) (net.Conn, error) {
		t.Error("dialled")
		return nil, errors.New("no")
	}
	for _, c := range readTrustCases(t, "", ca.CAPEM()).Refused {
		t.Run(c.Name, func(t *testing.T) {
			if c.Token {
				c.Request.Token = readTestToken
			}
			_, err := FetchTrust(within(t, time.Minute), c.Request, opts)
			want{Code: fault.ClusterUnusable, Text: []string{c.Why}}.check(t, err)
		})
	}
}

// A token that cannot be read or is invalid is reported without its text.
func TestTokenUnreadable(t *testing.T) {
	h := newHostile(t, nil)
	gone := errors.New("no such credential")
	for _, c := range []struct {
		name  string
		token Token
		cause error
		code  fault.Code
	}{
		{"unreadable", func(context.Context) (string, error) { return "", gone }, gone, fault.ClusterDenied},
		{"malformed", func(context.Context) (string, error) { return "x" + demo.Token, nil }, nil, fault.CredentialMissing},
	} {
		trust, object := h.pinned(), h.object()
		trust.Token, object.Token = c.token, c.token
		_, errTrust := FetchTrust(within(t, time.Minute), trust, fast())
		_, errObject := fetchConfigMap(within(t, time.Minute), object, fast())
		for _, err := range []error{errTrust, errObject} {
			want{Code: c.code, Text: []string{"bootstrap token"}}.check(t, err)
			if c.cause != nil && !errors.Is(err, c.cause) {
				t.Errorf("%s: want the cause in the error, got: %v", c.name, err)
			}
		}
	}
	if n := h.Authorizations(); n != 0 {
		t.Errorf("got %d requests with Authorization, want 0", n)
	}
}

// The last guard: no credential is sent to an unverified server or to another server than the intended one, from any
// caller.
func TestGuard(t *testing.T) {
	h, other := newHostile(t, nil), newHostile(t, demo.NewAuthority("other"))
	c := New(fast())
	defer c.Close()
	host := strings.TrimPrefix(h.URL, "https://")
	ctx := within(t, time.Minute)

	config := newConfig(nil, "")
	config.BearerToken = demo.Token
	if _, f := c.get(ctx, target{host, host}, config, configPath); f == nil || !errors.Is(f.Err, errCredential) ||
		f.Code != fault.ClusterUntrusted {
		t.Errorf("without verification: got %+v, want %v", f, errCredential)
	}

	for _, url := range []string{other.URL, "http://" + host} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+demo.Token)
		g := &guard{next: http.DefaultTransport, host: host, verified: true}
		if _, err := g.RoundTrip(req); !errors.Is(err, errCredential) {
			t.Errorf("%s: got %v, want %v", url, err, errCredential)
		}
	}
	if n := len(h.Requests()) + len(other.Requests()); n != 0 {
		t.Errorf("got %d requests, want none", n)
	}
}
