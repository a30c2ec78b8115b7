package kubelet

import (
	"crypto/sha256"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

// HowToJoinAgain is the next step with an identity that the cluster does not accept. A kubelet that finds a certificate
// in its folder uses it until it expires, whatever kubelet.conf and the bootstrap kubeconfig are
// (k8s.io/kubernetes/cmd/kubelet/app, buildClientCertificateManager).
const HowToJoinAgain = "remove /etc/kubernetes/kubelet.conf and /var/lib/kubelet/pki/kubelet-client-*, " +
	"and run prelet run with a valid token"

// BootstrapKubeconfig returns the kubeconfig that a kubelet joins with, like kubeadm's bootstrap-kubelet.conf. server
// and proxy are URLs, "" for no proxy; caPEM is the cluster's CA certificates. The token is quoted, because one of
// digits alone would be a number; it may be a placeholder.
func BootstrapKubeconfig(server, proxy, caPEM, token string) string {
	if proxy != "" {
		proxy = "    proxy-url: " + quoteYAML(proxy) + "\n"
	}

	return `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: ` + base64.StdEncoding.EncodeToString([]byte(caPEM)) + `
` + proxy + `    server: ` + quoteYAML(server) + `
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    user: tls-bootstrap-token-user
  name: tls-bootstrap-token-user@kubernetes
current-context: tls-bootstrap-token-user@kubernetes
kind: Config
users:
- name: tls-bootstrap-token-user
  user:
    token: ` + quoteYAML(token) + `
`
}

// IsBootstrapKubeconfig reports whether BootstrapKubeconfig made a text. kubeadm does not quote the token.
func IsBootstrapKubeconfig(text string) bool {
	_, form, _ := strings.Cut(strings.TrimSuffix(BootstrapKubeconfig("", "", "", ""), "\"\n"), "  name: kubernetes\n")

	return strings.Contains(text, form)
}

// CAChange is the difference between two sets of CAs, each described by its subject, the hash of its key and its end.
type CAChange struct {
	Added, Removed []string
}

// CompareCAs returns the difference between two PEM texts of CAs. Their order does not matter. A certificate that
// cannot be parsed counts as none, and a plan without any changes nothing.
func CompareCAs(old, planned string) CAChange {
	before, after := parseCAs(old), parseCAs(planned)
	if len(after) == 0 {
		return CAChange{}
	}

	return CAChange{Added: describeMissing(after, before), Removed: describeMissing(before, after)}
}

// IsEmpty reports whether both sets are the same.
func (c CAChange) IsEmpty() bool { return len(c.Added)+len(c.Removed) == 0 }

// Sentence returns the added and the removed CAs in words.
func (c CAChange) Sentence() string {
	var out []string
	if len(c.Added) > 0 {
		out = append(out, "added: "+strings.Join(c.Added, ", "))
	}
	if len(c.Removed) > 0 {
		out = append(out, "removed: "+strings.Join(c.Removed, ", "))
	}

	return strings.Join(out, "; ")
}

// certificate is an X.509 certificate, as far as it is described. Package crypto/x509 can open connections, so
// a package that only computes does not use it.
type certificate struct {
	raw  string
	body struct {
		Version   int `asn1:"optional,explicit,default:0,tag:0"`
		Serial    *big.Int
		Algorithm pkix.AlgorithmIdentifier
		Issuer    asn1.RawValue
		Validity  struct{ NotBefore, NotAfter time.Time }
		Subject   pkix.RDNSequence
		Key       asn1.RawValue
	}
}

func parseCAs(text string) (out []certificate) {
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		c := certificate{raw: string(block.Bytes)}
		var signed struct{ Body asn1.RawValue }
		if _, err := asn1.Unmarshal(block.Bytes, &signed); err != nil {
			continue
		}
		if _, err := asn1.Unmarshal(signed.Body.FullBytes, &c.body); err == nil {
			out = append(out, c)
		}
	}

	return out
}

// describeMissing describes the certificates of all that others does not have.
func describeMissing(all, others []certificate) (out []string) {
	for _, c := range all {
		if slices.ContainsFunc(others, func(o certificate) bool { return o.raw == c.raw }) {
			continue
		}
		sum := sha256.Sum256(c.body.Key.FullBytes)
		end := c.body.Validity.NotAfter.UTC().Format(time.RFC3339)
		out = append(out, fmt.Sprintf("%s with key sha256:%s, valid until %s",
			c.body.Subject, hex.EncodeToString(sum[:]), end))
	}

	return out
}

// ReplaceCA returns a kubeconfig with other CAs in certificate-authority-data, and nothing else changed. ok is false if
// the old CAs are not in it as one word, as each Kubernetes program writes them.
func ReplaceCA(conf, old, planned string) (text string, ok bool) {
	was := base64.StdEncoding.EncodeToString([]byte(old))
	if old == "" || !strings.Contains(conf, was) {
		return conf, false
	}

	return strings.ReplaceAll(
		conf,
		was,
		base64.StdEncoding.EncodeToString([]byte(planned)),
	), true
}
