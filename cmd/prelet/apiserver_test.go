package main

import (
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"
)

const (
	tokenID     = "canary"
	tokenSecret = "0canary1secret23"
	goodToken   = tokenID + "." + tokenSecret
	infoPath    = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
	configPath  = "/api/v1/namespaces/kube-system/configmaps/kubelet-config"
)

// authority signs what a scenario's servers need.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newAuthority(name string) *authority {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	c := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().AddDate(10, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der := must(x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key))
	return &authority{must(x509.ParseCertificate(der)), key}
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a *authority) pin() string {
	sum := sha256.Sum256(a.cert.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// leaf issues a serving certificate; no name means 127.0.0.1 and localhost.
func (a *authority) leaf(from, to time.Time, names ...string) tls.Certificate {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	c := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "kube-apiserver"},
		NotBefore:    from,
		NotAfter:     to,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     names,
	}
	if len(names) == 0 {
		c.DNSNames, c.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	return tls.Certificate{
		Certificate: [][]byte{must(x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key))},
		PrivateKey:  key,
	}
}

// kubeletConf is a kubelet.conf as a kubelet writes it when it has joined, with a certificate that ends then. With
// another key the two do not belong together.
func (a *authority) kubeletConf(server string, end time.Time, otherKey bool) string {
	issue := func() (cert, key []byte) {
		k := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
		c := &x509.Certificate{
			SerialNumber: big.NewInt(3),
			Subject:      pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}},
			NotBefore: end.AddDate(
				-1,
				0,
				0,
			),
			NotAfter:    end,
			KeyUsage:    x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		return pem.EncodeToMemory(
				&pem.Block{
					Type:  "CERTIFICATE",
					Bytes: must(x509.CreateCertificate(rand.Reader, c, a.cert, &k.PublicKey, a.key)),
				},
			),
			pem.EncodeToMemory(
				&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(k))},
			)
	}
	cert, key := issue()
	if otherKey {
		_, key = issue()
	}
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf(
		"apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster:\n    server: %s\n    "+
			"certificate-authority-data: %s\nusers:\n- name: u\n  user:\n    client-certificate-data: %s\n    "+
			"client-key-data: %s\ncontexts:\n- name: x\n  context:\n    cluster: c\n    user: u\ncurrent-context: x\n",
		server,
		b64(a.pem()),
		b64(cert),
		b64(key),
	)
}

// apiserver is an API server that a scenario makes misbehave.
type apiserver struct {
	*httptest.Server
	ca         *authority
	info       func(n int) map[string]string // cluster-info's data for the nth request, from 1
	config     map[string]string             // kubelet-config's data
	handle     http.HandlerFunc              // answers everything, where set
	authorized atomic.Int32                  // requests that carried Authorization
	requests   atomic.Int32
	asked      chan struct{} // holds one element after a request
	infos      atomic.Int32
}

// startServer starts one with the fault of that name; "good" is none. It is nil, true when the fault is an address
// where no HTTP is spoken.
func startServer(ca *authority, fault string) (*apiserver, error) {
	s := &apiserver{ca: ca, asked: make(chan struct{}, 1), config: map[string]string{"kubelet": servedConfig}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	clients := x509.NewCertPool()
	clients.AddCert(ca.cert)
	s.TLS = &tls.Config{
		MinVersion:   tls.VersionTLS12,
		ClientAuth:   tls.VerifyClientCertIfGiven,
		ClientCAs:    clients,
		Certificates: []tls.Certificate{ca.leaf(time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0))},
	}
	f, ok := faults[fault]
	if !ok {
		return nil, fmt.Errorf("there is no fault %q", fault)
	}
	f(s)
	s.StartTLS()
	if s.info == nil {
		s.info = func(int) map[string]string { return signedInfo(s.infoText(s.ca.pem())) }
	}
	return s, nil
}

const servedConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  x509:
    clientCAFile: /etc/kubernetes/pki/ca.crt
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
`

func (s *apiserver) serve(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	select {
	case s.asked <- struct{}{}:
	default:
	}
	if _, ok := r.Header["Authorization"]; ok {
		s.authorized.Add(1)
	}
	if s.handle != nil {
		s.handle(w, r)
		return
	}
	s.answer(w, r)
}

// answer is what a server does that behaves well.
func (s *apiserver) answer(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == infoPath:
		configMap(w, "kube-public", "cluster-info", s.info(int(s.infos.Add(1))))
	case r.URL.Path == configPath && len(r.TLS.VerifiedChains) == 0 && r.Header.Get("Authorization") != "Bearer "+goodToken:
		kubeStatus(w, 401, "Unauthorized", "Unauthorized")
	case r.URL.Path == configPath:
		configMap(w, "kube-system", "kubelet-config", s.config)
	default:
		kubeStatus(w, 404, "NotFound", "the server could not find the requested resource")
	}
}

func (s *apiserver) infoText(ca []byte) string { return infoText(s.URL, ca) }

func infoText(server string, ca []byte) string {
	return fmt.Sprintf(
		"apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: %s\n    server: %s\n  name: "+
			"\"\"\ncontexts: null\ncurrent-context: \"\"\nkind: Config\npreferences: {}\nusers: null\n",
		base64.StdEncoding.EncodeToString(ca),
		server,
	)
}

func signedInfo(text string) map[string]string {
	return map[string]string{"kubeconfig": text, "jws-kubeconfig-" + tokenID: signature(text, tokenSecret)}
}

func signature(text, secret string) string {
	enc := base64.RawURLEncoding.EncodeToString
	head := enc([]byte(`{"alg":"HS256","kid":"` + tokenID + `"}`))
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(head + "." + enc([]byte(text))))
	return head + ".." + enc(m.Sum(nil))
}

func configMap(w http.ResponseWriter, namespace, name string, data map[string]string) {
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

func kubeStatus(w http.ResponseWriter, code int, reason, message string) {
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
	_ = json.NewEncoder(w).Encode(v) // a client that has closed its connection is not a failure
}

// faults are the rows of the matrix that are a server's, by name.
var faults = map[string]func(*apiserver){
	"good": func(*apiserver) {},
	"slow-loris": func(s *apiserver) {
		s.handle = raw("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", true)
	},
	"wrong-ca": func(s *apiserver) {
		s.TLS.Certificates = []tls.Certificate{
			newAuthority("evil").leaf(time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0)),
		}
	},
	"wrong-name": func(s *apiserver) {
		s.TLS.Certificates = []tls.Certificate{
			s.ca.leaf(time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0), "k8s.example"),
		}
	},
	"expired": func(s *apiserver) {
		s.TLS.Certificates = []tls.Certificate{s.ca.leaf(time.Now().AddDate(-1, 0, 0), time.Now().AddDate(0, -1, 0))}
	},
	"not-yet-valid": func(s *apiserver) {
		s.TLS.Certificates = []tls.Certificate{s.ca.leaf(time.Now().AddDate(1, 0, 0), time.Now().AddDate(2, 0, 0))}
	},
	"tls11": func(s *apiserver) { s.TLS.MinVersion, s.TLS.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 },
	"late": func(s *apiserver) { // each thing that is asked for comes a little later
		var configs atomic.Int32
		s.info = func(n int) map[string]string {
			data := signedInfo(s.infoText(s.ca.pem()))
			if n < 2 {
				delete(data, "jws-kubeconfig-"+tokenID)
			}
			return data
		}
		s.handle = func(w http.ResponseWriter, r *http.Request) {
			if s.requests.Load() == 1 {
				kubeStatus(w, 503, "ServiceUnavailable", "not yet")
				return
			}
			if r.URL.Path == configPath {
				switch configs.Add(1) {
				case 1:
					kubeStatus(w, 401, "Unauthorized", "Unauthorized")
					return
				case 2:
					kubeStatus(w, 404, "NotFound", "not yet")
					return
				}
			}
			s.answer(w, r)
		}
	},
	"config-401": func(s *apiserver) {
		s.handle = s.onlyConfig(
			func(w http.ResponseWriter, _ *http.Request) { kubeStatus(w, 401, "Unauthorized", "Unauthorized") },
		)
	},
	"config-403": func(s *apiserver) {
		s.handle = s.onlyConfig(func(w http.ResponseWriter, _ *http.Request) {
			kubeStatus(
				w,
				403,
				"Forbidden",
				`configmaps "kubelet-config" is forbidden: User "system:bootstrap:canary" cannot get resource "configmaps" in API group "" in the namespace "kube-system"`,
			)
		})
	},
	"echo": func(s *apiserver) { // returns the request to the caller
		s.handle = s.onlyConfig(func(w http.ResponseWriter, r *http.Request) {
			_, secret, _ := strings.Cut(r.Header.Get("Authorization"), ".")
			kubeStatus(w, 403, "Forbidden", "not with "+r.Header.Get("Authorization")+", whose secret is "+secret)
		})
	},
	"config-404": func(s *apiserver) {
		s.handle = s.onlyConfig(func(w http.ResponseWriter, _ *http.Request) {
			kubeStatus(w, 404, "NotFound", `configmaps "kubelet-config" not found`)
		})
	},
	"info-404": answers(404, "NotFound", `configmaps "cluster-info" not found`),
	"429": func(s *apiserver) {
		s.handle = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "20")
			kubeStatus(
				w,
				429,
				"TooManyRequests",
				"the server has received too many requests and has asked us to try again later",
			)
		}
	},
	"503": answers(503, "ServiceUnavailable", "etcdserver: no leader"),
	"big": func(s *apiserver) {
		s.handle = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte(" "), 8<<20+1)) }
	},
	"truncated": func(s *apiserver) {
		s.handle = raw("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"kind\":", false)
	},
	"gzip": func(s *apiserver) {
		s.handle = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 8<<20))
			_ = z.Close()
		}
	},
	"chatty": func(s *apiserver) { // goes on after its first answer, which a library may log
		s.handle = func(w http.ResponseWriter, r *http.Request) {
			if s.requests.Load() > 1 {
				s.answer(w, r)
				return
			}
			answer := httptest.NewRecorder()
			s.answer(answer, r)
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%sHTTP/1.1 200 OK\r\n\r\nand more",
				answer.Code, answer.Body.Len(), answer.Body)
		}
	},
	"redirect": func(s *apiserver) {
		s.handle = func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.example"+r.URL.Path, http.StatusTemporaryRedirect)
		}
	},
	"portal":    says("text/html", "<!DOCTYPE html>\n<html><title>Welcome to the Wi-Fi</title>"),
	"malformed": says("application/json", `{"kind": "ConfigMap", "data":`),
	"yaml-bomb": func(s *apiserver) {
		s.config["kubelet"] = servedConfig + "evictionHard: &a {x: \"1\"}\n" + bomb()
	},
	"duplicate-key": func(s *apiserver) { s.config["kubelet"] = servedConfig + "maxPods: 110\nmaxPods: 111\n" },
	"unknown-field": func(s *apiserver) {
		s.info = func(int) map[string]string {
			return signedInfo(strings.Replace(s.infoText(s.ca.pem()), "clusters:", "clusterz: []\nclusters:", 1))
		}
	},
	"no-signature": func(s *apiserver) {
		s.info = func(int) map[string]string { return map[string]string{"kubeconfig": s.infoText(s.ca.pem())} }
	},
	"bad-signature": func(s *apiserver) {
		s.info = func(int) map[string]string {
			text := s.infoText(s.ca.pem())
			return map[string]string{
				"kubeconfig":                text,
				"jws-kubeconfig-" + tokenID: signature(text, "another-secret-x"),
			}
		}
	},
	"two-faces": func(s *apiserver) {
		other := newAuthority("kubernetes")
		s.info = func(n int) map[string]string {
			if n%2 == 0 {
				return signedInfo(s.infoText(append(s.ca.pem(), other.pem()...)))
			}
			return signedInfo(s.infoText(s.ca.pem()))
		}
	},
	"second-ca": func(s *apiserver) {
		other := newAuthority("smuggled")
		s.info = func(int) map[string]string { return signedInfo(s.infoText(append(s.ca.pem(), other.pem()...))) }
	},
	"evil-url": func(s *apiserver) {
		s.info = func(int) map[string]string { return signedInfo(infoText("https://evil.example:6443", s.ca.pem())) }
	},
}

func bomb() string {
	b := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		b += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
	}
	return b
}

func answers(code int, reason, message string) func(*apiserver) {
	return func(s *apiserver) {
		s.handle = func(w http.ResponseWriter, _ *http.Request) { kubeStatus(w, code, reason, message) }
	}
}

func says(contentType, text string) func(*apiserver) {
	return func(s *apiserver) {
		s.handle = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(w, text)
		}
	}
}

// onlyConfig is well behaved but for the kubelet's ConfigMap.
func (s *apiserver) onlyConfig(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == configPath {
			h(w, r)
			return
		}
		configMap(w, "kube-public", "cluster-info", signedInfo(s.infoText(s.ca.pem())))
	}
}

// raw answers with bytes of its own, and then closes the connection or trickles for ever: slowness on a real
// connection is what that is for.
func raw(text string, trickle bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, err = io.WriteString(conn, text)
		for trickle && err == nil {
			time.Sleep(20 * time.Millisecond)
			_, err = io.WriteString(conn, " ")
		}
	}
}
