package texts

import (
	"strings"
	"testing"
)

func TestKindOf(t *testing.T) {
	for text, want := range map[string]string{
		"": "empty", " \n": "empty",
		"\x1f\x8b\x08":                                "a compressed file",
		"PK\x03\x04":                                  "an archive",
		strings.Repeat("a", 257) + "ustar\x0000":      "an archive",
		"-----BEGIN CERTIFICATE-----\nMII":            KindCertificate,
		"-----BEGIN OPENSSH PRIVATE KEY-----\nb":      "a private key",
		"{\n \"format\": 1,\n \"prelet\": \"0.2.0\",": KindRecording,
		"apiVersion: v1\nkind: Config\n":              KindKubeconfig,
		`{"kind": "Config", "apiVersion": "v1"}`:      KindKubeconfig,
		`{"id": "host", "class": "system"}`:           "the output of lshw",
		"apiVersion: v1\nkind: Node\n":                "a Node of Kubernetes",
		"# a site\ncluster {}\n":                      "",
		`{"facts": {}}`:                               "",
	} {
		if got := KindOf([]byte(text)); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
