package demo

import (
	"crypto"
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
	"encoding/pem"
	"fmt"
	"io/fs"
	"net"
	"time"
)

// Authority is a CA. Its functions panic where they fail: what they sign is a program's, and not a user's.
type Authority struct {
	Cert *x509.Certificate
	Key  crypto.Signer
	Now  time.Time // certificates are valid from an hour before
}

// NewAuthority makes a CA of a name.
func NewAuthority(name string) *Authority {
	a := &Authority{Key: newKey(), Now: time.Now()}
	a.Cert = &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotAfter:              a.Now.AddDate(10, 0, 0),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	a.Cert = a.Sign(a.Cert, a.Key)

	return a
}

func newKey() crypto.Signer {
	return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}

	return v
}

// Sign completes a template, signs it for a key, and returns the certificate. It panics on an invalid template.
func (a *Authority) Sign(template *x509.Certificate, key crypto.Signer) *x509.Certificate {
	template.NotBefore = a.Now.Add(-time.Hour)
	der := must(x509.CreateCertificate(rand.Reader, template, a.Cert, key.Public(), a.Key))

	return must(x509.ParseCertificate(der))
}

// At returns the CA as it issues certificates at another time.
func (a *Authority) At(now time.Time) *Authority {
	return &Authority{Cert: a.Cert, Key: a.Key, Now: now}
}

// CAPEM returns the CA's certificate.
func (a *Authority) CAPEM() []byte {
	return encodePEM("CERTIFICATE", a.Cert.Raw)
}

func encodePEM(kind string, der []byte) []byte {
	block := &pem.Block{Type: kind, Bytes: der}
	return pem.EncodeToMemory(block)
}

// CAHash returns the pin of the CA, sha256:HEX.
func (a *Authority) CAHash() string {
	sum := sha256.Sum256(a.Cert.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Issue issues a certificate for a year, with a new key.
func (a *Authority) Issue(template *x509.Certificate) tls.Certificate {
	template.NotAfter = a.Now.AddDate(1, 0, 0)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	key := newKey()
	cert := a.Sign(template, key)

	return tls.Certificate{
		Certificate: [][]byte{cert.Raw},
		PrivateKey:  key,
	}
}

// IssueServer issues a serving certificate for names and addresses; by default, for this machine.
func (a *Authority) IssueServer(names ...string) tls.Certificate {
	if len(names) == 0 {
		names = []string{"localhost", "127.0.0.1", "::1", "kubernetes"}
	}
	t := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, n := range names {
		ip := net.ParseIP(n)
		if ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, n)
		}
	}

	return a.Issue(t)
}

// IssueNode returns the client certificate and key of a node that has joined, in PEM, as the kubelet keeps them in
// kubelet-client-current.pem: user system:node:NAME of group system:nodes.
func (a *Authority) IssueNode(name string) (cert, key []byte) {
	subject := pkix.Name{
		CommonName:   "system:node:" + name,
		Organization: []string{"system:nodes"},
	}
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	template := &x509.Certificate{Subject: subject, ExtKeyUsage: usage}
	c := a.Issue(template)
	der := must(x509.MarshalPKCS8PrivateKey(c.PrivateKey))

	return encodePEM("CERTIFICATE", c.Certificate[0]), encodePEM("PRIVATE KEY", der)
}

// NodeKubeconfig returns a kubelet.conf of a node that has joined, with its certificate and key.
func (s *Server) NodeKubeconfig(name string) []byte {
	return s.Kubeconfig(s.IssueNode(name))
}

// Kubeconfig returns a kubelet.conf with a certificate and a key.
func (s *Server) Kubeconfig(cert, key []byte) []byte {
	const format = `apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority-data: %s
    server: %s
  name: default-cluster
contexts:
- context:
    cluster: default-cluster
    namespace: default
    user: default-auth
  name: default-context
current-context: default-context
users:
- name: default-auth
  user:
    client-certificate-data: %s
    client-key-data: %s
`
	b64 := base64.StdEncoding.EncodeToString

	return fmt.Appendf(nil, format, b64(s.CAPEM()), s.URL, b64(cert), b64(key))
}

// ClusterInfo returns the kubeconfig in cluster-info, in the format of kubeadm.
func ClusterInfo(server string, ca []byte) string {
	const format = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: %s
    server: %s
  name: ""
contexts: null
current-context: ""
kind: Config
preferences: {}
users: null
`

	return fmt.Sprintf(format, base64.StdEncoding.EncodeToString(ca), server)
}

// SignInfo returns the data of cluster-info, signed with the token as the bootstrap signer does.
func SignInfo(kubeconfig string) map[string]string {
	return map[string]string{
		"kubeconfig":                kubeconfig,
		"jws-kubeconfig-" + TokenID: SignText(kubeconfig, TokenID, TokenSecret),
	}
}

// SignText returns the detached signature of the bootstrap signer: HS256 over the text, by the token's secret.
func SignText(text, id, secret string) string {
	encode := base64.RawURLEncoding.EncodeToString
	header := encode([]byte(`{"alg":"HS256","kid":"` + id + `"}`))
	payload := encode([]byte(text))

	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(header + "." + payload)) // does not fail
	signature := encode(mac.Sum(nil))

	return header + ".." + signature
}

// Credentials are those of a node, by their names. Each ends with a new line, as its file does.
type Credentials map[string]string

func (c Credentials) Read(name string) ([]byte, error) {
	text, isThere := c[name]
	if !isThere {
		return nil, fs.ErrNotExist
	}

	return []byte(text + "\n"), nil
}
