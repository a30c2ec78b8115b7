package value

import "strings"

// hiddenText replaces the secret half of a bootstrap token. The other half, the id, is not secret: it names the Secret
// kube-system/bootstrap-token-ID.
const hiddenText = "<hidden>"

const (
	tokenID   = 6                // characters before the dot of a bootstrap token
	tokenSize = tokenID + 1 + 16 // k8s.io/cluster-bootstrap: [a-z0-9]{6}\.[a-z0-9]{16}
)

// isToken reports whether a bootstrap token begins at s[start], known or not: people put them into the wrong attribute,
// or on a command line. A part of a longer name, of an address of a stage (fetch-config.NAME) or of a host is not a
// token.
func isToken(s string, start int) bool {
	end := start + tokenSize
	if end > len(s) || s[start+tokenID] != '.' {
		return false
	}
	if start > 0 && (joins(s[start-1]) || strings.IndexByte("-.", s[start-1]) >= 0) {
		return false
	}
	for i := start; i < end; i++ {
		if i != start+tokenID && !isLowerAlphanumeric(rune(s[i])) {
			return false
		}
	}

	// With more text behind a dot it is the name of a host; at the end of a sentence it is a token.
	behind := strings.TrimPrefix(s[end:], ".")

	return behind == "" || !joins(behind[0]) && s[end] != '-'
}

// joins reports whether a byte is a part of a word.
func joins(c byte) bool {
	return isLowerAlphanumeric(rune(c)) || c >= 'A' && c <= 'Z' || c == '_'
}

// HoldsToken reports whether a text contains what looks like a bootstrap token.
func HoldsToken(s string) bool {
	for i := range len(s) {
		if isToken(s, i) {
			return true
		}
	}

	return false
}
