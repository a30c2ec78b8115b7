package value

// hiddenText replaces the secret half of a bootstrap token. The other half, the id, is not secret: it names the Secret
// kube-system/bootstrap-token-ID.
const hiddenText = "<hidden>"

const (
	tokenID   = 6                // characters before the dot of a bootstrap token
	tokenSize = tokenID + 1 + 16 // k8s.io/cluster-bootstrap: [a-z0-9]{6}\.[a-z0-9]{16}
)

// tokenAt reports whether a bootstrap token begins at s[i], known or not: people put them into the wrong attribute,
// or on a command line. wait: the rest of s may be the beginning of a token. A part of a longer name, of an address
// of a stage (fetch-config.NAME) or of a host is not a token.
func tokenAt[T string | []byte](
	s T,
	i int,
	before byte,
	last bool,
) (is, wait bool) {
	if joins(before) || before == '-' || before == '.' {
		return false, false
	}
	for n := range tokenSize {
		if i+n >= len(s) {
			return false, !last
		}
		c := s[i+n]
		if n == tokenID && c != '.' || n != tokenID && !isLowerAlphanumeric(rune(c)) {
			return false, false
		}
	}
	i += tokenSize
	switch {
	case i >= len(s):
		return last, !last
	case joins(s[i]) || s[i] == '-':
		return false, false
	case s[i] != '.':
		return true, false
	case i+1 >= len(s):
		return last, !last
	}
	return !joins(s[i+1]), false // else the name of a host; at the end of a sentence it is a token
}

// joins reports whether a byte is a part of a word.
func joins(c byte) bool {
	return isLowerAlphanumeric(rune(c)) || c >= 'A' && c <= 'Z' || c == '_'
}

// anyToken reports whether a text contains what looks like a bootstrap token.
func anyToken(s string) bool {
	for i := tokenID; i+16 < len(s); i++ {
		if s[i] != '.' {
			continue
		}
		before := byte(0)
		if i > tokenID {
			before = s[i-tokenID-1]
		}
		if is, _ := tokenAt(s, i-tokenID, before, true); is {
			return true
		}
	}
	return false
}
