package cluster

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/util/cert"
)

const maxCAs = 64 // certificates in one bundle

// CAHashes gives the pin of each certificate in a PEM bundle, in order: "sha256:" and the hex of SHA-256 over the DER
// of its SubjectPublicKeyInfo, as kubeadm's --discovery-token-ca-cert-hash.
func CAHashes(bundle []byte) ([]string, error) {
	certs, err := parseBundle(bundle)
	if err != nil {
		return nil, err
	}
	return hashes(certs), nil
}

// ParsePin checks one entry of ca_cert_hashes and gives its canonical form, in lower case.
func ParsePin(s string) (string, error) {
	algorithm, digest, ok := strings.Cut(s, ":")
	if !ok || !strings.EqualFold(algorithm, "sha256") {
		return "", fmt.Errorf("pin %q: write sha256: and 64 hex digits", quote(s))
	}
	if raw, err := hex.DecodeString(digest); err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("pin %q: sha256: is followed by 64 hex digits", quote(s))
	}
	return "sha256:" + strings.ToLower(digest), nil
}

// Covers says whether every certificate of the bundle has a pin. The error names the first that has none.
func Covers(bundle []byte, pins []string) error {
	certs, err := parseBundle(bundle)
	if err != nil {
		return err
	}
	set, err := parsePins(pins)
	if err != nil {
		return err
	}
	return set.covers(certs)
}

type pinSet map[string]bool

func parsePins(pins []string) (pinSet, error) {
	set := pinSet{}
	for _, p := range pins {
		canonical, err := ParsePin(p)
		if err != nil {
			return nil, err
		}
		set[canonical] = true
	}
	return set, nil
}

// covers is stricter than kubeadm, which is content when one of the CAs is pinned: whatever stands in the bundle will
// be trusted by this node, so each one is checked.
func (s pinSet) covers(certs []*x509.Certificate) error {
	for _, c := range certs {
		if h := hash(c); !s[h] {
			return fmt.Errorf("no pin covers the CA %q with key %s", quote(c.Subject.String()), h)
		}
	}
	return nil
}

func hash(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func hashes(certs []*x509.Certificate) []string {
	out := make([]string, len(certs))
	for i, c := range certs {
		out[i] = hash(c)
	}
	return out
}

// parseBundle reads a PEM bundle of certificates. Text between them is allowed, as in most bundles; a block of
// another type is not, since it is likely somebody's key.
func parseBundle(bundle []byte) ([]*x509.Certificate, error) {
	certs, err := cert.ParseCertsPEM(bundle)
	blocks := bytes.Count(bundle, []byte("-----BEGIN "))
	switch {
	case blocks == 0:
		return nil, errors.New("the CA bundle holds no certificate in PEM")
	case err != nil && blocks == 1 && bytes.Contains(bundle, []byte("PRIVATE KEY-----")):
		return nil, errors.New("the CA bundle holds a PRIVATE KEY, and no certificate")
	case err != nil:
		return nil, fmt.Errorf("certificate %d of the CA bundle cannot be parsed: %s", len(certs)+1, quote(err.Error()))
	case len(certs) != blocks:
		return nil, fmt.Errorf("the CA bundle holds %d blocks that are not certificates, such as keys", blocks-len(certs))
	case len(certs) > maxCAs:
		return nil, fmt.Errorf("the CA bundle holds more than %d certificates", maxCAs)
	}
	return certs, nil
}

// encodeBundle returns the one PEM form of a list of certificates, so that what is written does not depend on
// comments, line breaks and repetitions of what was read.
func encodeBundle(certs []*x509.Certificate) string {
	var once []*x509.Certificate
	for _, c := range certs {
		if !slices.ContainsFunc(once, c.Equal) {
			once = append(once, c)
		}
	}
	b, _ := cert.EncodeCertificates(once...) // into memory, which does not fail
	return string(b)
}
