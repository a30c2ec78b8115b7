package texts

import (
	"bytes"
	"strings"
)

// The kinds that messages have a next step for.
const (
	KindCertificate = "a certificate"
	KindCompressed  = "a compressed file" // a bundle, too
	KindKubeconfig  = "a kubeconfig"
	KindRecording   = "a recording of prelet"
)

// head is as much of a file as its kind needs.
const head = 4096

// KindOf returns the kind of a text, as "a private key"; "" if it is unknown.
func KindOf(text []byte) string {
	text = bytes.TrimSpace(text[:min(len(text), head)])
	has := func(part string) bool { return bytes.Contains(text, []byte(part)) }
	begins := func(magic string) bool { return bytes.HasPrefix(text, []byte(magic)) }
	switch {
	case len(text) == 0:
		return "empty"
	case begins("\x1f\x8b"), begins("\x28\xb5\x2f\xfd"), begins("\xfd7zXZ"), begins("BZh"):
		return KindCompressed
	case begins("PK\x03\x04"), len(text) > 262 && string(text[257:262]) == "ustar":
		return "an archive"
	case has("PRIVATE KEY-----"):
		return "a private key"
	case has("-----BEGIN CERTIFICATE-----"):
		return KindCertificate
	case begins("{") && has(`"format":`) && has(`"prelet":`):
		return KindRecording
	case kubeconfig().Match(text):
		return KindKubeconfig
	case lshw().Match(text):
		return "the output of lshw"
	}
	if kind := kubernetes().FindSubmatch(text); kind != nil {
		return "a " + string(kind[1]) + " of Kubernetes"
	}

	return ""
}

// IsRecording reports whether a name ends as a recording's: .prelet or .prelet.gz.
func IsRecording(name string) bool {
	return strings.HasSuffix(name, ".prelet") || strings.HasSuffix(name, ".prelet.gz")
}

// KindOfNamed is KindOf for the beginning of a file, of which the name may say more.
func KindOfNamed(name string, text []byte) string {
	if len(text) > 0 && IsRecording(name) {
		return KindRecording
	}

	return KindOf(text)
}

var (
	kubeconfig = LazyRegexp(`(?m)(^|[{,])\s*"?kind"?: "?Config\b`)
	lshw       = LazyRegexp(`^(\[\s*)?\{\s*"id"\s*:\s*"[^"]*",\s*"class"`)
	kubernetes = LazyRegexp(`(?m)^"?kind"?: "?([A-Z][A-Za-z]+)"?,?$`)
)
