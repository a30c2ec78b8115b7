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

// CAHashes returns the pin of each certificate in a PEM bundle, in order: "sha256:" and the hex of SHA-256 over
// the DER of its SubjectPublicKeyInfo, as for kubeadm's --discovery-token-ca-cert-hash.
func CAHashes(bundle []byte) ([]string, error) {
	certs, err := parseBundle(bundle)
	if err != nil {
		return nil, err
	}

	return hashCerts(certs), nil
}

// ParsePin checks one entry of ca_cert_hashes and returns its canonical form, in lower case.
func ParsePin(s string) (string, error) {
	algorithm, digest, _ := strings.Cut(s, ":")
	raw, err := hex.DecodeString(digest)
	isSHA256 := strings.EqualFold(algorithm, "sha256") && len(raw) == sha256.Size

	if err != nil || !isSHA256 {
		return "", fmt.Errorf("pin %q: want sha256: and 64 hex digits", quote(s))
	}

	return "sha256:" + strings.ToLower(digest), nil
}

// Covers returns an error that names the first certificate of a bundle without a pin.
func Covers(bundle []byte, pins []string) error {
	certs, err := parseBundle(bundle)
	if err != nil {
		return err
	}

	set, err := parsePins(pins)
	if err != nil {
		return err
	}

	return set.checkCerts(certs)
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

// checkCerts returns an error for a certificate without a pin. kubeadm accepts a bundle if one of the CAs has a pin;
// here each CA needs one, because the node will trust all of them.
func (s pinSet) checkCerts(certs []*x509.Certificate) error {
	for _, c := range certs {
		if pin := hashCert(c); !s[pin] {
			return fmt.Errorf("no pin covers the CA %q with key %s", quote(c.Subject.String()), pin)
		}
	}

	return nil
}

func hashCert(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func hashCerts(certs []*x509.Certificate) []string {
	out := make([]string, len(certs))
	for i, c := range certs {
		out[i] = hashCert(c)
	}

	return out
}

// parseBundle parses a PEM bundle of certificates. Text between them is allowed, as in most bundles. A block of
// another type is refused, because it may be a private key.
func parseBundle(bundle []byte) ([]*x509.Certificate, error) {
	certs, err := cert.ParseCertsPEM(bundle)
	blocks := bytes.Count(bundle, []byte("-----BEGIN "))

	switch {
	case blocks == 0:
		return nil, errors.New("the CA bundle contains no certificate in PEM")
	case err != nil && blocks == 1 && bytes.Contains(bundle, []byte("PRIVATE KEY-----")):
		return nil, errors.New("the CA bundle contains a PRIVATE KEY instead of a certificate")
	case err != nil:
		return nil, fmt.Errorf("certificate %d of the CA bundle cannot be parsed: %s",
			len(certs)+1, quote(err.Error()))
	case len(certs) != blocks:
		return nil, fmt.Errorf(
			"the CA bundle contains %d blocks that are not certificates, such as keys",
			blocks-len(certs),
		)
	case len(certs) > maxCAs:
		return nil, fmt.Errorf("the CA bundle contains more than %d certificates", maxCAs)
	}

	return certs, nil
}

// encodeBundle returns certificates as PEM, each once. The result does not depend on comments, line breaks and
// repetitions in the source.
func encodeBundle(certs []*x509.Certificate) string {
	var unique []*x509.Certificate
	for _, c := range certs {
		if !slices.ContainsFunc(unique, c.Equal) {
			unique = append(unique, c)
		}
	}

	b, _ := cert.EncodeCertificates(unique...) // into memory, which does not fail

	return string(b)
}
