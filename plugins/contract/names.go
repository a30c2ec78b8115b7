package contract

import "strings"

// Checked by hand: a regular expression that is compiled when a program starts costs every start of prelet.

// made tells whether a text has 1 to most bytes, all of which are allowed, and the first a letter where that is asked.
func made(s string, most int, letterFirst bool, allowed func(byte) bool) bool {
	if s == "" || len(s) > most || letterFirst && !lower(s[0]) {
		return false
	}
	for i := range len(s) {
		if !allowed(s[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) bool    { return c >= 'a' && c <= 'z' }
func digit(c byte) bool    { return c >= '0' && c <= '9' }
func alnum(c byte) bool    { return lower(c) || digit(c) || c >= 'A' && c <= 'Z' }
func hexDigit(c byte) bool { return digit(c) || c >= 'a' && c <= 'f' }

func isName(s string) bool {
	return made(s, MaxName, true, func(c byte) bool { return lower(c) || digit(c) || c == '-' })
}

func isAttribute(s string) bool {
	return made(s, MaxName, true, func(c byte) bool { return lower(c) || digit(c) || c == '_' })
}

func isVersion(s string) bool {
	return made(s, MaxName, false, func(c byte) bool { return alnum(c) || strings.IndexByte(".+_~-", c) >= 0 }) && alnum(s[0])
}

func isGroup(s string) bool {
	return made(s, 32, false, func(c byte) bool { return lower(c) || digit(c) || c == '_' || c == '-' }) && (lower(s[0]) || s[0] == '_')
}

// isFree is for keys of maps without a schema.
func isFree(s string) bool {
	return made(s, MaxName, false, func(c byte) bool { return alnum(c) || strings.IndexByte("._/-", c) >= 0 }) && alnum(s[0])
}

// isLabel is for a label's value, and for its key behind the slash, which must not be empty.
func isLabel(s string) bool {
	return s == "" || made(s, MaxName, false, func(c byte) bool { return alnum(c) || strings.IndexByte("._-", c) >= 0 }) && alnum(s[0]) && alnum(s[len(s)-1])
}

func isDomain(s string) bool {
	if len(s) > 253 {
		return false
	}
	for part := range strings.SplitSeq(s, ".") {
		if !made(part, MaxName, false, func(c byte) bool { return lower(c) || digit(c) || c == '-' }) || part[0] == '-' || part[len(part)-1] == '-' {
			return false
		}
	}
	return true
}

func isHex(s string, lengths ...int) bool {
	for _, n := range lengths {
		if len(s) == n {
			return made(s, n, false, hexDigit)
		}
	}
	return false
}

// isPCIID is for 10de:2330, 10de:*, 10de:*:03, 10de:*:0302.
func isPCIID(s string) bool {
	parts := strings.Split(s, ":")
	return (len(parts) == 2 || len(parts) == 3) && isHex(parts[0], 4) && (parts[1] == "*" || isHex(parts[1], 4)) && (len(parts) == 2 || isHex(parts[2], 2, 4))
}

// isPCIAddress is for 0000:17:00.0; domains above ffff exist, behind Intel's VMD.
func isPCIAddress(s string) bool {
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return false
	}
	slot, function, _ := strings.Cut(parts[2], ".")
	return isHex(parts[0], 4, 5, 6, 7, 8) && isHex(parts[1], 2) && isHex(slot, 2) && len(function) == 1 && function[0] >= '0' && function[0] <= '7'
}
