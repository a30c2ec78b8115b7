package value

// hiddenText stands for the secret half of a bootstrap token. Its other half, the id, is no secret: it names the Secret
// kube-system/bootstrap-token-ID.
const hiddenText = "<hidden>"

const (
	tokenID   = 6                // characters before the dot of a bootstrap token
	tokenSize = tokenID + 1 + 16 // k8s.io/cluster-bootstrap: [a-z0-9]{6}\.[a-z0-9]{16}
)

// tokenAt says whether a bootstrap token begins at s[i], known or not: people put them into the wrong attribute, or on a
// command line. wait: what there is may be the beginning of one. It stands by itself; a part of a longer name, of an
// address of a stage (fetch-config.NAME) or of a host is none.
func tokenAt[T string | []byte](s T, i int, before byte, last bool) (is, wait bool) {
	if joins(before) || before == '-' || before == '.' {
		return false, false
	}
	for n := range tokenSize {
		if i+n >= len(s) {
			return false, !last
		}
		c := s[i+n]
		if n == tokenID && c != '.' || n != tokenID && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
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

// joins says whether a byte makes one word with those beside it.
func joins(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}

// anyToken says whether a text holds what looks like a bootstrap token.
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
