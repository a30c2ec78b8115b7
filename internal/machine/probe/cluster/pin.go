package cluster

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
)

const maxCAs = 64 // certificates in one bundle

// CAHashes returns the pin of each certificate in a PEM bundle, in order: "sha256:" and the hex of SHA-256 over
// the DER of its SubjectPublicKeyInfo, as for kubeadm's --discovery-token-ca-cert-hash.
func CAHashes(bundle []byte) ([]string, error) {
	certs, err := parseBundle(bundle)
	if err != nil {
		return nil, err
	}

	out := make([]string, len(certs))
	for i, c := range certs {
		out[i] = hashCert(c)
	}

	return out, nil
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

// Choose returns the CAs of a bundle that have one of the pins. Without pins it returns all of them. The result depends
// on the certificates only, and not on their order, repetitions, and the text between them.
func Choose(bundle []byte, pins []string) (Trust, error) {
	certs, err := parseBundle(bundle)
	if err != nil {
		return Trust{}, err
	}

	set, err := parsePins(pins)
	if err != nil {
		return Trust{}, err
	}

	sortCerts(certs)
	certs = slices.CompactFunc(certs, (*x509.Certificate).Equal)
	chosen, err := set.choose(certs)
	if err != nil {
		return Trust{}, err
	}

	return newTrust(chosen, nil, ByPins), nil
}

// GivenTrust returns the CAs of a text that replaces a cluster, as its identity. If there are pins, only CAs with one
// count; otherwise the CAs are assumed. name is that of the text in messages, and next the next step if no CA has a
// pin. The error is a *fault.Fault.
func GivenTrust(name string, text []byte, a tape.Access, next string) (Trust, error) {
	if _, err := parseBundle(text); err != nil {
		why, next := name+" contains no certificate", ""
		if kind := texts.KindOf(text); kind != "" && kind != texts.KindCertificate {
			why, next = name+" is "+kind, needCA
		}
		return Trust{}, &fault.Fault{Code: fault.ClusterUnusable, Why: why, Next: next}
	}

	t, err := Choose(text, a.CACertHashes)
	if err != nil {
		return Trust{}, &fault.Fault{
			Code: fault.ClusterUntrusted,
			Why:  name + ": " + err.Error(),
			Next: next,
		}
	}

	t.Servers = a.Servers
	t.VerifiedBy = nameAnchor(a)
	t.Assumed = len(a.CACertHashes) == 0

	return t, nil
}

// nameAnchor returns what verifies a cluster, as in Trust.VerifiedBy.
func nameAnchor(a tape.Access) string {
	switch {
	case len(a.CACertHashes) > 0:
		return ByPins
	case a.DiscoveryFile != "":
		return ByDiscoveryFile
	case a.TrustToken:
		return ByToken
	}

	return ByCAFile
}

// DescribeExpired describes the certificates of a bundle that have expired at a time. hasValid is whether it has
// another one.
func DescribeExpired(bundle string, now time.Time) (expired []string, hasValid bool) {
	certs, err := parseBundle([]byte(bundle))
	if err != nil {
		return nil, true // another check refuses it
	}
	for _, c := range certs {
		if !now.After(c.NotAfter) {
			hasValid = true
			continue
		}
		text := fmt.Sprintf(
			"%q, at %s",
			quote(c.Subject.String()),
			formatTime(c.NotAfter),
		)
		expired = append(expired, text)
	}

	return expired, hasValid
}

// HaveSameCAs reports whether two bundles have the same certificates, in any order.
func HaveSameCAs(a, b string) bool {
	first, errFirst := Choose([]byte(a), nil)
	second, errSecond := Choose([]byte(b), nil)

	return errFirst == nil && errSecond == nil && first.PEM == second.PEM
}

// ShareCA reports whether two bundles have a certificate in common.
func ShareCA(a, b string) bool {
	first, errFirst := parseBundle([]byte(a))
	second, errSecond := parseBundle([]byte(b))

	return errFirst == nil && errSecond == nil && slices.ContainsFunc(first, func(c *x509.Certificate) bool {
		return slices.ContainsFunc(second, c.Equal)
	})
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

// choice has the certificates that pins select from a bundle.
type choice struct {
	certs     []*x509.Certificate
	leftOut   []*x509.Certificate // without a pin
	unmatched []string            // pins that no certificate has, sorted
}

// choose returns the certificates with a pin, because the node will trust each of them. kubeadm trusts all of a bundle
// if one of them has a pin. It fails if none has; the empty set chooses all.
func (s pinSet) choose(certs []*x509.Certificate) (choice, error) {
	if len(s) == 0 {
		return choice{certs: certs}, nil
	}

	out := choice{}
	unmatched := maps.Clone(s)

	for _, c := range certs {
		pin := hashCert(c)
		delete(unmatched, pin)

		if s[pin] {
			out.certs = append(out.certs, c)
		} else {
			out.leftOut = append(out.leftOut, c)
		}
	}

	if len(out.certs) == 0 {
		c := certs[0]
		return out, fmt.Errorf(
			"no pin covers the CA %q with key %s",
			quote(c.Subject.String()),
			hashCert(c),
		)
	}

	out.unmatched = slices.Sorted(maps.Keys(unmatched))

	return out, nil
}

// sortCerts sorts certificates, the oldest first, so that the order of a response does not matter.
func sortCerts(certs []*x509.Certificate) {
	slices.SortStableFunc(certs, func(a, b *x509.Certificate) int {
		return cmp.Or(a.NotBefore.Compare(b.NotBefore), bytes.Compare(a.Raw, b.Raw))
	})
}

func hashCert(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

const needCA = "Give the cluster's CA, which is /etc/kubernetes/pki/ca.crt on a control-plane node"

// parseBundle parses a PEM bundle of certificates. Text between them is allowed, as in most bundles. A block of
// another type is refused, because it may be a private key.
func parseBundle(bundle []byte) ([]*x509.Certificate, error) {
	certs, err := cert.ParseCertsPEM(bundle)
	blocks := bytes.Count(bundle, []byte("-----BEGIN "))
	kind := texts.KindOf(bundle)

	switch {
	case blocks == 0 && kind != "":
		return nil, fmt.Errorf("it is %s. %s", kind, needCA)
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
