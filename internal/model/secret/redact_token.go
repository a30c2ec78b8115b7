package secret

import (
	"strings"

	"github.com/prelet/prelet/internal/model/texts"
)

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
	before := strings.TrimRight(s[:start], "-") // as a flag has them, but no name begins with one
	n := len(before)
	isEscape := n > 1 && s[n-2] == '\\' && strings.IndexByte("nrt", s[n-1]) >= 0
	if n > 0 && !isEscape && (joins(s[n-1]) || s[n-1] == '.') {
		return false
	}
	for i := start; i < end; i++ {
		if i != start+tokenID && !isTokenByte(s[i]) {
			return false
		}
	}

	// With more text behind a dot it is the name of a host; at the end of a sentence it is a token.
	behind := strings.TrimPrefix(s[end:], ".")

	isWhole := behind == "" || !joins(behind[0]) && s[end] != '-'

	return isWhole && !isHost(s, start, end)
}

// hostWord matches the text before the name of a host, or before the value of a label.
var hostWord = texts.LazyRegexp(`(?i)(?:host|host[_-]?name|hostname-override|node|node[_-]?name|server|servers|` +
	`domain|zone|\bname|\.[a-z0-9-]+/[a-z0-9._-]+)["']?\s*[:=]\s*[\["']*$`)

// isHost reports whether a text in the form of a token is the name of a host by its context: a part of a URL or a path,
// with a port, or behind a word for a host.
func isHost(s string, start, end int) bool {
	before := s[max(start-len("kubernetes.io/hostname = ["), 0):start]
	hasPort := len(s) > end+1 && s[end] == ':' && s[end+1] >= '0' && s[end+1] <= '9'

	return hasPort || strings.HasSuffix(before, "/") || strings.HasSuffix(before, "@") ||
		strings.HasPrefix(s[end:], "/") || hostWord().MatchString(before)
}

// joins reports whether a byte is a part of a word.
func joins(c byte) bool {
	return isTokenByte(c) || c >= 'A' && c <= 'Z' || c == '_'
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

// isTokenByte reports whether a byte may be in a half of a bootstrap token.
func isTokenByte(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
