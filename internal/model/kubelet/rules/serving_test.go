package rules

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"
)

// The names in the table are those of crypto/tls, which the kubelet accepts, and two older ones.
func TestCipherSuites(t *testing.T) {
	want := []string{"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"}
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		want = append(want, s.Name)
	}
	_, words, _ := strings.Cut(table, "\nif     isNoCipher ")
	words, _, _ = strings.Cut(words, "\nat ")
	got := strings.Fields(words)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
