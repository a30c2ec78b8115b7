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
	"math/big"
	"net"
	"time"
)

// authority is the cluster's CA.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	now  time.Time
}

func newAuthority(now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: "kubernetes"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(10, 0, 0),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, now: now}, nil
}

func serial() *big.Int {
	var b [8]byte
	_, _ = rand.Read(b[:]) // does not fail
	return new(big.Int).SetBytes(b[:])
}

func (a *authority) pem() []byte {
	return encodePEM("CERTIFICATE", a.cert.Raw)
}

func encodePEM(kind string, der []byte) []byte {
	block := &pem.Block{Type: kind, Bytes: der}
	return pem.EncodeToMemory(block)
}

func (a *authority) hash() string {
	sum := sha256.Sum256(a.cert.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (a *authority) issue(template *x509.Certificate) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template.SerialNumber = serial()
	template.NotBefore = a.now.Add(-time.Hour)
	template.NotAfter = a.now.AddDate(1, 0, 0)
	template.KeyUsage = x509.KeyUsageDigitalSignature

	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return tls.Certificate{}, err
	}

	return tls.Certificate{
		Certificate: [][]byte{der},
		PrivateKey:  key,
	}, nil
}

func (a *authority) issueServer(names []string) (tls.Certificate, error) {
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

	return a.issue(t)
}

// IssueNode returns the client certificate and key of a node that has joined, in PEM, as the kubelet keeps them in
// kubelet-client-current.pem: user system:node:NAME of group system:nodes.
func (s *Server) IssueNode(name string) (cert, key []byte, err error) {
	subject := pkix.Name{
		CommonName:   "system:node:" + name,
		Organization: []string{"system:nodes"},
	}
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	template := &x509.Certificate{Subject: subject, ExtKeyUsage: usage}
	c, err := s.ca.issue(template)
	if err != nil {
		return nil, nil, fmt.Errorf("demo: issuing a certificate for node %s: %w", name, err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return nil, nil, fmt.Errorf("demo: encoding the key of node %s: %w", name, err)
	}
	cert = encodePEM("CERTIFICATE", c.Certificate[0])
	key = encodePEM("PRIVATE KEY", der)

	return cert, key, nil
}

// NodeKubeconfig returns a kubelet.conf of a node that has joined, with its certificate and key.
func (s *Server) NodeKubeconfig(name string) ([]byte, error) {
	cert, key, err := s.IssueNode(name)
	if err != nil {
		return nil, err
	}
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
	text := fmt.Sprintf(
		format,
		b64(s.CAPEM()),
		s.URL(),
		b64(cert),
		b64(key),
	)

	return []byte(text), nil
}

// clusterInfo returns the kubeconfig in cluster-info, in the format of kubeadm.
func (s *Server) clusterInfo() string {
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
	ca := base64.StdEncoding.EncodeToString(s.CAPEM())

	return fmt.Sprintf(format, ca, s.URL())
}

// sign returns the detached signature of the bootstrap signer: HS256 over the text, by the token's secret.
func sign(text, id, secret string) string {
	encode := base64.RawURLEncoding.EncodeToString
	header := encode([]byte(`{"alg":"HS256","kid":"` + id + `"}`))
	payload := encode([]byte(text))

	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(header + "." + payload)) // does not fail
	signature := encode(mac.Sum(nil))

	return header + ".." + signature
}

func randomToken() string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, 22)
	_, _ = rand.Read(b) // does not fail
	for i, random := range b {
		b[i] = letters[int(random)%len(letters)]
	}
	token := string(b)

	return token[:6] + "." + token[6:]
}
