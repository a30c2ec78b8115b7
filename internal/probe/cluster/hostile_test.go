package cluster

import (
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/fault"
)

const (
	tokenID     = "canary"
	tokenSecret = "0canary1secret23" // searched for in every error
	testToken   = tokenID + "." + tokenSecret
	configPath  = "/api/v1/namespaces/kube-system/configmaps/kubelet-config"
)

// testCA signs whatever a test needs.
type testCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newTestCA(t testing.TB, name string) *testCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &testCA{cert, key}
}

func (ca *testCA) intermediate(t testing.TB, name string) *testCA {
	t.Helper()
	sub := newTestCA(t, name)
	template := *sub.cert
	template.SerialNumber = big.NewInt(3)
	der, err := x509.CreateCertificate(rand.Reader, &template, ca.cert, &sub.key.PublicKey, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	if sub.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return sub
}

func (ca *testCA) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
}

func (ca *testCA) pin() string { return hashCert(ca.cert) }

// leaf issues a serving certificate. Zero times mean a century around now; no names mean 127.0.0.1 and localhost.
func (ca *testCA) leaf(t testing.TB, from, to time.Time, dns ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "apiserver"},
		NotBefore:    from,
		NotAfter:     to,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     dns,
	}
	if from.IsZero() {
		template.NotBefore, template.NotAfter = ca.cert.NotBefore, ca.cert.NotAfter
	}
	if len(dns) == 0 {
		template.DNSNames, template.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// handler answers the nth request, from 1, and says whether it did.
type handler = func(w http.ResponseWriter, r *http.Request, n int) bool

// answer is an answer in testdata, where answers.yaml explains its fields.
type answer struct {
	Status  int
	Header  map[string]string
	Body    string
	Gzip    bool
	Spaces  int
	Chunked bool
	Raw     *string
	Lines   int
	Trickle bool
}

func (a answer) handle(w http.ResponseWriter, r *http.Request, _ int) bool {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	fill := strings.NewReplacer("@TOKEN@", token).Replace
	if a.Raw != nil {
		a.writeRaw(w, fill(*a.Raw))
		return true
	}
	for name, value := range a.Header {
		w.Header().Set(name, fill(value))
	}
	text := fill(a.Body) + strings.Repeat(" ", a.Spaces)
	if a.Spaces > 0 && !a.Chunked && !a.Gzip {
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	}
	switch {
	case a.Gzip:
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, text)
		_ = z.Close()
	case a.Status > 0 && text == "":
		writeStatus(w, a.Status, http.StatusText(a.Status), "as the test wishes")
	case a.Status > 0:
		w.WriteHeader(a.Status)
		fallthrough
	default:
		_, _ = io.WriteString(w, text)
	}
	return true
}

func (a answer) writeRaw(w http.ResponseWriter, text string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, err = io.WriteString(conn, text+strings.Repeat("X-A: "+strings.Repeat("b", 1000)+"\r\n", a.Lines))
	for err == nil && a.Trickle {
		time.Sleep(5 * time.Millisecond) // slowness on a real connection is what it is for
		_, err = io.WriteString(conn, " ")
	}
}

// answerWith answers with a Status of Kubernetes, and names and values of the header.
func answerWith(code int, header ...string) handler {
	a := answer{Status: code, Header: map[string]string{}}
	for i := 0; i+1 < len(header); i += 2 {
		a.Header[header[i]] = header[i+1]
	}
	return a.handle
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
	if err != nil {
		t.Fatal(err)
	}
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
type hostile struct {
	*httptest.Server
	ca *testCA
	// info gives the data of cluster-info for the nth request of it, from 1; nil is a good one.
	info func(n int) map[string]string
	// handle sees each request first.
	handle handler

	authorized atomic.Int32 // requests that carried Authorization
	requests   atomic.Int32
	infos      atomic.Int32
	conns      atomic.Int32
}

// newHostile starts a server of the given CA that, so far, behaves well.
func newHostile(t testing.TB, ca *testCA, adjust ...func(*hostile, *tls.Config)) *hostile {
	t.Helper()
	h := &hostile{ca: ca}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(h.serve))
	h.Config.ErrorLog = log.New(io.Discard, "", 0)
	h.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			h.conns.Add(1)
		}
	}
	h.TLS = &tls.Config{}
	for _, f := range adjust {
		f(h, h.TLS)
	}
	if len(h.TLS.Certificates) == 0 {
		h.TLS.Certificates = []tls.Certificate{ca.leaf(t, time.Time{}, time.Time{})}
	}
	h.StartTLS()
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	return h
}

func (h *hostile) serve(w http.ResponseWriter, r *http.Request) {
	n := int(h.requests.Add(1))
	if _, ok := r.Header["Authorization"]; ok {
		h.authorized.Add(1)
	}
	if h.handle != nil && h.handle(w, r, n) {
		return
	}
	switch r.URL.Path {
	case infoPath:
		data := map[string]string(nil)
		if h.info != nil {
			data = h.info(int(h.infos.Add(1)))
		} else {
			data = signedInfo(infoText(h.URL, h.ca.pem()))
		}
		writeConfigMap(w, "kube-public", "cluster-info", data)
	case configPath:
		if r.Header.Get("Authorization") != "Bearer "+testToken {
			writeStatus(w, 401, "Unauthorized", "Unauthorized")
			return
		}
		writeConfigMap(w, "kube-system", "kubelet-config", map[string]string{"kubelet": "kind: KubeletConfiguration"})
	default:
		writeStatus(w, 404, "NotFound", "not found")
	}
}

func infoText(server string, ca []byte) string {
	return fmt.Sprintf(
		"apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: %s\n    server: %s\n  name: "+
			"\"\"\ncontexts: null\ncurrent-context: \"\"\nkind: Config\npreferences: {}\nusers: null\n",
		base64.StdEncoding.EncodeToString(ca),
		server,
	)
}

func signedInfo(text string) map[string]string {
	return map[string]string{"kubeconfig": text, "jws-kubeconfig-" + tokenID: signTest(text, tokenID, tokenSecret)}
}

func signTest(text, id, secret string) string {
	enc := base64.RawURLEncoding.EncodeToString
	head := enc([]byte(`{"alg":"HS256","kid":"` + id + `"}`))
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(head + "." + enc([]byte(text))))
	return head + ".." + enc(m.Sum(nil))
}

func writeConfigMap(w http.ResponseWriter, namespace, name string, data map[string]string) {
	writeJSON(
		w,
		200,
		map[string]any{
			"kind":       "ConfigMap",
			"apiVersion": "v1",
			"metadata":   map[string]string{"name": name, "namespace": namespace, "resourceVersion": "7"},
			"data":       data,
		},
	)
}

func writeStatus(w http.ResponseWriter, code int, reason, message string) {
	writeJSON(
		w,
		code,
		map[string]any{
			"kind":       "Status",
			"apiVersion": "v1",
			"status":     "Failure",
			"reason":     reason,
			"message":    message,
			"code":       code,
		},
	)
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

// fast are options whose waits are short; their limits are wide, for machines with other load.
func fast() Options {
	return Options{
		DialTimeout:    20 * time.Second,
		RequestTimeout: 20 * time.Second,
		BackoffMin:     time.Millisecond,
		BackoffMax:     4 * time.Millisecond,
	}
}

// givingUp makes the deadline come at the nth wait, whatever the clock says: a loaded machine changes nothing.
func givingUp(opts Options, n int) Options {
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
func fetchConfigMap(ctx context.Context, req ObjectRequest, opts Options) (Object, error) {
	c := New(opts)
	defer c.Close()
	return c.FetchConfigMap(ctx, req)
}

// readObject is fetchConfigMap with half a minute of time, and without the object.
func readObject(t testing.TB, req ObjectRequest, opts Options) error {
	t.Helper()
	_, err := fetchConfigMap(within(t, 30*time.Second), req, opts)
	return err
}

// read reads the object of a server.
func (h *hostile) read(t testing.TB, opts Options) error {
	t.Helper()
	return readObject(t, h.object(), opts)
}

// trust reads who the cluster of a server is.
func (h *hostile) trust(t testing.TB, opts Options) error {
	t.Helper()
	_, err := FetchTrust(within(t, 30*time.Second), h.pinned(), opts)
	return err
}

// ways are the two reads.
var ways = map[string]func(*hostile, testing.TB, Options) error{"trust": (*hostile).trust, "object": (*hostile).read}

func readTestToken(context.Context) (string, error) { return testToken, nil }

func (h *hostile) pinned() TrustRequest {
	return TrustRequest{
		Endpoint:     Endpoint{Servers: []string{h.URL}},
		CACertHashes: []string{h.ca.pin()},
		Token:        readTestToken,
	}
}

func (h *hostile) object() ObjectRequest {
	return ObjectRequest{
		Endpoint:  Endpoint{Servers: []string{h.URL}},
		CAPEM:     h.ca.pem(),
		Token:     readTestToken,
		Namespace: "kube-system",
		Name:      "kubelet-config",
	}
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
			if strings.Contains(s, tokenSecret) {
				t.Fatalf("got the token's secret in an error, want none: %s", s)
			}
		}
	}
}
