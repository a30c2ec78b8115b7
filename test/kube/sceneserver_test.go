package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// authority NAME: makes a CA that is not the cluster's: NAME.crt, its pin $NAME, and its end $NAME_UNTIL.
func (s *scene) cmdAuthority(args []string) error {
	a := newAuthority(s.t, args[0])
	s.authorities[args[0]] = a
	pin, err := PinOf(a.pem())
	s.ts.Setenv(args[0], pin)
	s.ts.Setenv(args[0]+"_UNTIL", a.cert.NotAfter.UTC().Format(time.RFC3339))

	return errors.Join(err, os.WriteFile(filepath.Join(s.work, args[0]+".crt"), []byte(a.pem()), 0o600))
}

// issue returns a certificate of a CA, valid for a day from now+FROM.
func (s *scene) issue(ca, user, from string, names ...string) tls.Certificate {
	a, ok := s.authorities[ca]
	if !ok {
		a = authorityOf(s.t, s.c)
	}
	subject := pkix.Name{}
	name, group, hasGroup := strings.Cut(user, "/")
	if subject.CommonName = name; hasGroup {
		subject.Organization = []string{group}
	}
	after, err := time.ParseDuration(from)
	must(s.t, err)

	return a.issue(s.t, subject, time.Now().Add(after), names...)
}

// sign FILE CA USER[/GROUP] FROM: writes a certificate and its key, valid for a day from now+FROM. CA is that of
// `authority`, or cluster.
func (s *scene) cmdSign(args []string) error {
	cert, key := pair(s.t, s.issue(args[1], args[2], args[3]))

	return os.WriteFile(filepath.Join(s.work, args[0]), []byte(cert+key), 0o600)
}

// between ADDRESS CA FROM [spoil]: a server at this address, with a certificate valid from now+FROM, passes requests on
// to the cluster. With spoil its second response is changed. $FROM and $UNTIL are the dates of the certificate.
func (s *scene) cmdBetween(args []string) error {
	host, _, _ := net.SplitHostPort(args[0])
	s.between = &between{}
	if len(args) > 3 {
		s.between.change = func(_ string, n int, body string) string {
			if n == 2 {
				return strings.Replace(body, "https://", "https://x", 1)
			}
			return body
		}
	}
	cert := s.issue(args[1], "kube-apiserver", args[2], host)
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	must(s.t, err)
	s.ts.Setenv("FROM", leaf.NotBefore.Format(time.RFC3339))
	s.ts.Setenv("UNTIL", leaf.NotAfter.Format(time.RFC3339))

	return s.doorTo(args[0], serve(s.t, cert, s.between.handler(s.t, s.c)))
}

// passed TOKENS [N]: the server of `between` has got so many requests with a credential, and N without.
func (s *scene) cmdPassed(args []string) error {
	got := []string{fmt.Sprint(s.between.withToken), fmt.Sprint(s.between.anonymous)}
	if !slices.Equal(got[:len(args)], args) {
		return fmt.Errorf("requests with a credential and without: got %q, want %q", got, args)
	}

	return nil
}

// serve ADDRESS CA FILE: an HTTPS server at this address returns the file.
func (s *scene) cmdServe(args []string) error {
	host, _, _ := net.SplitHostPort(args[0])
	text := s.text("@" + args[2])
	file := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })

	return s.doorTo(args[0], serve(s.t, s.issue(args[1], "files", "-1h", host), file))
}

// silent ADDRESS: a server at this address accepts connections, and sends nothing.
func (s *scene) cmdSilent(args []string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(s.t, err)
	s.t.Cleanup(func() { _ = l.Close() })

	return s.doorTo(args[0], l.Addr().String())
}

// proxy ADDRESS: a proxy at this address, which passes CONNECT to the address of the cluster on.
func (s *scene) cmdProxy(args []string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(s.t, err)
	server := &http.Server{Handler: tunnel(s.c)}
	go func() { _ = server.Serve(l) }()
	s.t.Cleanup(func() { _ = server.Close() })

	return s.doorTo(args[0], l.Addr().String())
}

// tunnel passes CONNECT 10.0.0.11:6443 on to a cluster.
func tunnel(c *Cluster) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		there, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", c.Port))
		if err != nil || r.Method != http.MethodConnect || r.Host != "10.0.0.11:6443" {
			http.Error(w, fmt.Sprint("only CONNECT to the cluster; ", err), http.StatusForbidden)
			return
		}
		defer there.Close()
		w.WriteHeader(http.StatusOK)
		here, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer here.Close()
		go func() { _, _ = io.Copy(there, buffered) }()
		_, _ = io.Copy(here, there)
	})
}

// unopened ADDRESS: no connection has come to a door.
func (s *scene) cmdUnopened(args []string) error {
	if got := s.doors[args[0]].Opened.Load(); got > 0 {
		return fmt.Errorf("connections to %s: got %d, want none", args[0], got)
	}

	return nil
}

// present CA: restarts the API server with a certificate of an authority. It accepts client certificates of both CAs.
func (s *scene) cmdPresent(args []string) error {
	c, next := s.c, s.authorities[args[0]]
	old, err := c.CA()
	must(s.t, err)
	cert, key := pair(s.t, s.issue(args[0], "kube-apiserver", "-1h", strings.Split(certifiedNames, ", ")...))
	for name, text := range map[string]string{"both.crt": old + next.pem(), "next.crt": cert, "next.key": key} {
		must(s.t, os.WriteFile(c.Path("pki/"+name), []byte(text), 0o600))
	}
	for _, file := range []string{"super-admin.conf", "admin.conf", "controller-manager.conf"} {
		text, err := os.ReadFile(c.Path(file))
		must(s.t, err)
		must(s.t, os.WriteFile(c.Path(file), []byte(withCA(string(text), old+next.pem())), 0o600))
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.Path("super-admin.conf"))
	must(s.t, err)
	c.Client, err = kubernetes.NewForConfig(config)
	must(s.t, err)
	c.StopAPIServer()

	return c.StartAPIServer(s.t.Context(), "--client-ca-file", c.Path("pki/both.crt"),
		"--tls-cert-file", c.Path("pki/next.crt"), "--tls-private-key-file", c.Path("pki/next.key"))
}

// with-ca FILE CAS: writes FILE.new, a kubeconfig with these CAs.
func (s *scene) cmdWithCA(args []string) error {
	text := withCA(s.ts.ReadFile(args[0]), s.ts.ReadFile(args[1]))

	return os.WriteFile(filepath.Join(s.work, args[0]+".new"), []byte(text), 0o600)
}

// trusts CAS: exactly these CAs are in ca.crt and in kubelet.conf, whose other lines are those of the script's file.
func (s *scene) cmdTrusts(args []string) error {
	want := s.ts.ReadFile(args[0])
	ca, err := s.n.Read("/etc/kubernetes/pki/ca.crt")
	conf, err2 := s.n.Read("/etc/kubernetes/kubelet.conf")
	wantConf := withCA(s.ts.ReadFile("kubelet.conf"), want)
	if ca != want || conf != wantConf {
		return fmt.Errorf("ca.crt and kubelet.conf: got\n%s%s\nwant\n%s%s", ca, conf, want, wantConf)
	}

	return errors.Join(err, err2)
}

// caData is the CAs in a kubeconfig.
var caData = regexp.MustCompile(`certificate-authority-data: \S+`)

func withCA(kubeconfig, ca string) string {
	return caData.ReplaceAllString(kubeconfig,
		"certificate-authority-data: "+base64.StdEncoding.EncodeToString([]byte(ca)))
}

// authority can sign: a cluster's CA, or one of a test's own.
type authority struct {
	cert *x509.Certificate
	key  any
}

// authorityOf is a cluster's own CA, which only an attacker after taking over the control plane has.
func authorityOf(t testing.TB, c *Cluster) authority {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(c.Path("pki/ca.crt"), c.Path("pki/ca.key"))
	must(t, err)
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	must(t, err)
	return authority{cert, pair.PrivateKey}
}

// newAuthority is somebody else's.
func newAuthority(t testing.TB, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return authority{cert, key}
}

func (a authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

// issue signs a certificate, for servers unless user is given.
func (a authority) issue(t testing.TB, user pkix.Name, from time.Time, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      user,
		NotBefore:    from,
		NotAfter:     from.Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// pair is a certificate and its key in PEM.
func pair(t testing.TB, c tls.Certificate) (cert, key string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	must(t, err)
	return string(
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}),
		), string(
			pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		)
}

// serve answers over TLS with a certificate, and returns the address outside.
func serve(t testing.TB, cert tls.Certificate, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &http.Server{Handler: h, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}}, ErrorLog: nil}
	go func() { _ = s.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

// between stands between a node and a cluster, with a certificate of its choice, and may change what the cluster
// answers. Requests that it passes on are counted by whether they carry a credential.
type between struct {
	anonymous, withToken int
	change               func(path string, n int, body string) string // of the n-th answer, from 1
}

func (b *between) handler(t testing.TB, c *Cluster) http.Handler {
	t.Helper()
	to, err := url.Parse(fmt.Sprintf("https://127.0.0.1:%d", c.Port))
	must(t, err)
	ca, err := os.ReadFile(c.Path("pki/ca.crt"))
	must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		ModifyResponse: func(r *http.Response) error {
			if b.change == nil {
				return nil
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			text := b.change(r.Request.URL.Path, b.anonymous+b.withToken, string(body))
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
			r.Header.Set("Content-Length", fmt.Sprint(len(text)))
			return nil
		},
	}
	return http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { // one connection at a time: nothing here is concurrent
			if r.Header.Get("Authorization") == "" {
				b.anonymous++
			} else {
				b.withToken++
			}
			proxy.ServeHTTP(w, r)
		},
	)
}
