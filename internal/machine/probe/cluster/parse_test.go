package cluster

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/testing/table"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/apiaddress"
	"github.com/prelet/prelet/internal/testing/demo"
	"github.com/prelet/prelet/internal/testing/growth"
)

// parseCases is testdata/parse.yaml.
type parseCases struct {
	Servers        map[string]string
	InvalidServers map[string]string `json:"invalid servers"`
	Proxies        []string
	InvalidProxies []string `json:"invalid proxies"`
	Tokens         []string
	InvalidTokens  []string `json:"invalid tokens"`
	Signatures     []struct {
		Name, Head       string
		Signature        *string
		Text, ID, Secret string
	}
	Discovery []struct{ Name, Text, Then, Why string }
}

func readParseCases(t *testing.T, names ...string) (out parseCases) {
	t.Helper()
	names = append(names, "SECRET", demo.TokenSecret, "TOKEN", demo.Token, "SPACES", strings.Repeat(" ", 5000))
	readData(t, "parse.yaml", &out, names...)
	return out
}

func TestParseServer(t *testing.T) {
	cases := readParseCases(t)
	for in, want := range cases.Servers {
		if got, err := apiaddress.Parse(in); err != nil || "https://"+got != want {
			t.Errorf("%q: got %v, %v; want %s", in, got, err, want)
		}
	}
	for in, want := range cases.InvalidServers {
		u, err := apiaddress.Parse(in)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, %v; want an error with %q", in, u, err, want)
		}
		noCanary(t, err)
	}
}

func TestParseProxy(t *testing.T) {
	cases := readParseCases(t)
	for _, good := range cases.Proxies {
		if _, err := ParseProxy(good); err != nil {
			t.Errorf("%q: got %v, want no error", good, err)
		}
	}
	for _, bad := range cases.InvalidProxies {
		_, err := ParseProxy(bad)
		if err == nil {
			t.Errorf("%q: got no error, want one", bad)
		}
		noCanary(t, err)
	}
}

func TestParseToken(t *testing.T) {
	cases := readParseCases(t)
	for _, good := range cases.Tokens {
		if id, secret, err := ParseToken(good); err != nil || id != "abcdef" || secret != "0123456789abcdef" {
			t.Errorf("%q: got %q, %q, %v; want both halves", good, id, secret, err)
		}
	}
	for _, bad := range cases.InvalidTokens {
		_, _, err := ParseToken(bad)
		if err == nil {
			t.Errorf("%q: got no error, want one", bad)
		}
		noCanary(t, err)
	}
}

// A token never prints itself.
func TestTokenPrints(t *testing.T) {
	tok := bootstrapToken{demo.TokenID, demo.TokenSecret}
	for _, s := range []string{fmt.Sprint(tok), fmt.Sprintf("%v %+v %s", tok, tok, tok)} {
		if strings.Contains(s, demo.TokenSecret) || !strings.Contains(s, demo.TokenID) {
			t.Errorf("got %s, want the id and not the secret", s)
		}
	}
}

// The certificate and its pin are from openssl:
//
//	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout /dev/null -subj /CN=kubernetes -days 36500
//	openssl x509 -pubkey -noout | openssl pkey -pubin -outform DER | sha256sum
func TestCAHashes(t *testing.T) {
	got, err := CAHashes([]byte(opensslCA))
	must(t, err)
	if d := gocmp.Diff([]string{opensslPin}, got); d != "" {
		t.Error(d)
	}
	ca := demo.NewAuthority("second")
	both := []byte("# two\n" + string(ca.CAPEM()) + "between\n" + opensslCA)
	if got, err = CAHashes(both); err != nil || len(got) != 2 || got[0] != ca.CAHash() || got[1] != opensslPin {
		t.Errorf("%v, %v", got, err)
	}
	other, upper := demo.NewAuthority("third").CAHash(), strings.ToUpper(opensslPin)
	for _, c := range table.YAML[[]struct {
		Pins      []string
		Want      []string // chosen
		LeftOut   int
		Unmatched []string
	}](t, `
# the oldest first
- {want: ['{opensslPin}', '{ca.CAHash}'], leftOut: 0}
- {pins: ['{ca.CAHash}', '{upper}'], want: ['{opensslPin}', '{ca.CAHash}'], leftOut: 0}
- {pins: ['{ca.CAHash}'], want: ['{ca.CAHash}'], leftOut: 1}
- {pins: ['{opensslPin}', '{other}'], want: ['{opensslPin}'], leftOut: 1, unmatched: ['{other}']}
`, "opensslPin", opensslPin, "ca.CAHash", ca.CAHash(), "upper", upper, "other", other) {
		got, err := Choose(both, c.Pins)
		if err != nil {
			t.Errorf("pins %v: got error %v, want none", c.Pins, err)
			continue
		}
		inText, err := CAHashes([]byte(got.PEM))
		if err != nil || !slices.Equal(inText, c.Want) || len(got.LeftOut) != c.LeftOut ||
			!slices.Equal(got.Unmatched, c.Unmatched) {
			t.Errorf("pins %v: got %v, left out %v, unmatched %v, %v", c.Pins, inText, got.LeftOut, got.Unmatched, err)
		}
	}
	inOrder, err := Choose(both, nil)
	must(t, err)
	for name, text := range map[string]string{
		"order":       opensslCA + string(ca.CAPEM()),
		"line breaks": strings.ReplaceAll(string(both), "\n", "\r\n"),
		"repetition":  opensslCA + string(both),
	} {
		got, err := Choose([]byte(text), nil)
		if d := gocmp.Diff(inOrder, got); d != "" || err != nil {
			t.Errorf("%s: got another choice for the same CAs: %v %s", name, err, d)
		}
	}
	if got, err := Choose(both, []string{other}); err == nil {
		t.Errorf("a pin of another CA: got %+v, want an error", got)
	}
	if turned := opensslCA + string(ca.CAPEM()); !HaveSameCAs(string(both), turned) || HaveSameCAs(opensslCA, turned) {
		t.Error("two sets are compared by their order")
	}
	for _, bad := range []string{"", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", strings.Repeat(string(ca.CAPEM()), maxCAs+1)} {
		if _, err := CAHashes([]byte(bad)); err == nil {
			t.Errorf("%.60q: got no error, want one", bad)
		}
	}
	for _, bad := range []string{"", "sha256", "sha256:", opensslPin + "0", opensslPin[:70], "md5:" + opensslPin[7:], "sha256:zz" + opensslPin[9:]} {
		if p, err := ParsePin(bad); err == nil {
			t.Errorf("%q: got %q, want an error", bad, p)
		}
	}
}

func TestVerifyJWS(t *testing.T) {
	const text, id, secret = "Hello from the other side. I must have called a thousand times.", "joshua", "my voice is my passcode"
	const body = "VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"
	const good = "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9.." + body
	if err := verifyJWS(good, text, id, secret); err != nil {
		t.Error(err)
	}
	for _, c := range readParseCases(t, "GOOD", good, "BODY", body, "TEXT", text).Signatures {
		signature := good
		if c.Head != "" {
			signature = base64.RawURLEncoding.EncodeToString([]byte(c.Head)) + ".." + body
		}
		if c.Signature != nil {
			signature = *c.Signature
		}
		err := verifyJWS(signature, cmp.Or(c.Text, text), cmp.Or(c.ID, id), cmp.Or(c.Secret, secret))
		if err == nil || !strings.Contains(err.Error(), "does not match") {
			t.Errorf("%s: got %v, want \"does not match\" in it", c.Name, err)
		}
	}
}

// Row 20: what a kubeconfig in cluster-info may not be, and that the time to refuse it does not grow with the square of
// its size.
func TestDiscoveryRefused(t *testing.T) {
	ca := demo.NewAuthority("cluster")
	good := demo.ClusterInfo("https://k8s:6443", ca.CAPEM())
	if certs, server, err := parseDiscovery(good); err != nil || len(certs) != 1 || server != "https://k8s:6443" {
		t.Fatalf("got %d certificates, %q, %v; want one, https://k8s:6443 and no error", len(certs), server, err)
	}
	_, fields, _ := strings.Cut(good, "- cluster:\n")
	fields, _, _ = strings.Cut(fields, "  name:")
	for _, c := range readParseCases(t, "INFO", good, "CLUSTER", fields).Discovery {
		text := c.Text + strings.Repeat(c.Then, 100_000)
		var err error
		growth.Check(t, 25_000, func(size int) func() {
			text := c.Text + strings.Repeat(c.Then, size)
			return func() { _, _, err = parseDiscovery(text) }
		})
		if err == nil || !strings.Contains(err.Error(), c.Why) {
			t.Errorf("%s: %v, want %q in it", c.Name, err, c.Why)
		}
		// The same inside an answer is unusable, and final.
		h := newHostile(t, ca)
		h.SignClusterInfo(text)
		want{Code: fault.ClusterUnusable, Text: []string{"cluster-info"}}.check(t, h.trust(t, fast()))
	}
	h := newHostile(t, ca)
	h.SetConfigMap("kube-public", "cluster-info", map[string]string{"x": "y"})
	want{Code: fault.ClusterUnusable, Text: []string{"no key kubeconfig"}}.check(t, h.trust(t, fast()))
}

// Whatever client-go writes into a cluster, strict reading must know: kubeadm writes cluster-info with it.
func TestDiscoveryAsClientGoWritesIt(t *testing.T) {
	ca := demo.NewAuthority("cluster")
	for name, cluster := range map[string]*clientcmdapi.Cluster{
		"kubeadm": {Server: "https://k8s:6443", CertificateAuthorityData: ca.CAPEM()},
		"all": {Server: "https://k8s:6443", CertificateAuthorityData: ca.CAPEM(), TLSServerName: "a", ProxyURL: "http://p", DisableCompression: true,
			Extensions: map[string]runtime.Object{"x": &runtime.Unknown{Raw: []byte(`{"a":1}`), ContentType: "application/json"}}},
	} {
		text, err := clientcmd.Write(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{"": cluster}})
		must(t, err)
		certs, server, err := parseDiscovery(string(text))
		if err != nil || len(certs) != 1 || hashCert(certs[0]) != ca.CAHash() || server != "https://k8s:6443" {
			t.Errorf("%s: got %d certificates, %q, %v; want the CA and its server, in\n%s",
				name, len(certs), server, err, text)
		}
	}
}

func TestErrorText(t *testing.T) {
	f := fail(fault.ClusterDenied, classFinal, "Do that", "HTTP %d", 401).toFault("configmap a/b")
	if got, expect := f.Error(), "configmap a/b: HTTP 401; Do that"; got != expect {
		t.Errorf("%q, want %q", got, expect)
	}
	if got, expect := quote("a\x1b[2J\nb\xff"+strings.Repeat("x", 300)), "a [2J b "+strings.Repeat(
		"x",
		192,
	)+"…"; got != expect {
		t.Errorf("%q, want %q", got, expect)
	}
}

func FuzzServer(f *testing.F) {
	for _, s := range strings.Fields(`
		k8s:6443 https://[::1]:6443/ https://a:b@c http://x 1.2.3 [::ffff:1.2.3.4]:1 a:1@b:2
	`) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := apiaddress.Parse(s)
		if err != nil {
			return
		}
		again, err := apiaddress.Parse(got)
		if err != nil || again != got {
			t.Fatalf("%q gives %s, which gives %v, %v", s, got, again, err)
		}
		std, err := url.Parse("https://" + got)
		if err != nil || std.Scheme != "https" || std.User != nil || std.Path != "" || std.RawQuery != "" ||
			std.Fragment != "" ||
			std.Hostname() == "" ||
			std.Port() == "" ||
			std.Host != got {
			t.Fatalf("%q gives %s, which net/url reads as %#v, %v", s, got, std, err)
		}
	})
}

func FuzzJWS(f *testing.F) {
	f.Add(demo.SignText("text", "abcdef", "0123456789abcdef"), "text", "abcdef", "0123456789abcdef", 3)
	f.Add("..", "", "", "", 0)
	f.Fuzz(func(t *testing.T, signature, text, id, secret string, flip int) {
		if verifyJWS(signature, text, id, secret) == nil && signature != demo.SignText(text, id, secret) {
			t.Fatalf("%q: got no error, want one", signature)
		}
		if quoted, err := json.Marshal(id); err != nil || string(quoted) != `"`+id+`"` || len(id) > 100 {
			return // no id of a token
		}
		good := demo.SignText(text, id, secret)
		if err := verifyJWS(good, text, id, secret); err != nil {
			t.Fatalf("a valid signature: got %v, want no error", err)
		}
		b := []byte(good)
		i := int(uint(flip) % uint(len(b)))
		b[i] ^= 1
		if verifyJWS(string(b), text, id, secret) == nil {
			t.Fatalf("%q: got no error, want one: it is not %q", b, good)
		}
		if verifyJWS(good, text+"x", id, secret) == nil {
			t.Fatal("a longer text is accepted")
		}
	})
}

func FuzzClusterInfo(f *testing.F) {
	text := demo.ClusterInfo("https://k8s:6443", []byte(opensslCA))
	for _, kubeconfig := range []string{text, "", "a: &a [*a]", strings.Repeat("- ", 100), "kind: Config"} {
		b, err := json.Marshal(
			map[string]any{
				"kind":       "ConfigMap",
				"apiVersion": "v1",
				"metadata":   map[string]string{"name": "cluster-info", "namespace": "kube-public"},
				"data":       demo.SignInfo(kubeconfig),
			},
		)
		must(f, err)
		f.Add(200, b)
	}
	f.Add(403, []byte(`{"kind":"Status","reason":"Forbidden"}`))
	f.Add(200, []byte("<html>"))
	f.Add(0, []byte(text))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		began := time.Now()
		defer func() {
			if d := time.Since(began); d > 30*time.Second {
				t.Fatalf("took %v, want less", d)
			}
		}()
		if certs, _, err := parseDiscovery(string(body)); err == nil && len(certs) == 0 {
			t.Fatal("a kubeconfig without a CA is accepted")
		}
		info, fail := parseClusterInfo(&reply{status: status, header: map[string][]string{}, body: body})
		if fail != nil {
			if fail.Why == "" || fail.Next == "" || strings.ContainsAny(fail.Why, "\n\x1b") {
				t.Fatalf("got reason %q and next step %q, want none empty", fail.Why, fail.Next)
			}
			return
		}
		if status != 200 || len(info.certs) == 0 || info.kubeconfig == "" {
			t.Fatalf("got %d certificates with status %d, want an error", len(info.certs), status)
		}
		pins, err := CAHashes([]byte(encodeBundle(info.certs)))
		must(t, err)
		set, err := parsePins(pins)
		must(t, err)
		if chosen, err := set.choose(info.certs); err != nil || len(chosen.leftOut)+len(chosen.unmatched) > 0 {
			t.Fatalf("encode and parse again: got %+v, %v, want the same certificates", chosen, err)
		}
	})
}

const (
	opensslPin = "sha256:c3fde2956bf334b8fca745a919a474d44e304e949596b06ca29f5bf057025477"
	opensslCA  = `-----BEGIN CERTIFICATE-----
MIIBgTCCASegAwIBAgIUW/6aDMWMY0xQKDtTiTA9jMTKiu8wCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKa3ViZXJuZXRlczAgFw0yNjExMjAwOTI4NTNaGA8yMTI2MTAy
NzA5Mjg1M1owFTETMBEGA1UEAwwKa3ViZXJuZXRlczBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABIwncip2U5RhjmdIK5AkHFCJ3lwIsgMkvyz/mM60r8ieqJe1Zmc7
nQNg95r6u2CIrT4YycG6qOe3SY83+Tz1e/6jUzBRMB0GA1UdDgQWBBT++1wNJQIZ
ktIVBYTdSMe6yya6ETAfBgNVHSMEGDAWgBT++1wNJQIZktIVBYTdSMe6yya6ETAP
BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIC11E8FkAopNGCYsfZkc
UJS/z/XCOHDsyzvnDI6kk1JuAiEA9OkK02UD+Onf9Y2cqzvtNEpxO+81nG4TANdt
ghylv1k=
-----END CERTIFICATE-----
`
)

// TestDescribeBody: a text is cut with an ellipsis, by which the redactor finds a part of a secret.
func TestDescribeBody(t *testing.T) {
	for _, body := range []string{strings.Repeat("a", 50), "a" + strings.Repeat(" ", 1018) + "secret"} {
		if got := describeBody(&reply{body: []byte(body)}); !strings.HasSuffix(got, `…"`) {
			t.Errorf("%.60q: got %q, want an ellipsis at the end", body, got)
		}
	}
}
