package cluster

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Kind is the sort of a failure. The words are those of a recording's answers.
type Kind string

// The five ways in which a read fails.
const (
	Unreachable Kind = "unreachable" // no whole answer before the deadline
	Untrusted   Kind = "untrusted"   // not provably the cluster: TLS, pin, signature, dates
	Denied      Kind = "denied"      // the cluster does not accept our credential, or has none of our token
	Absent      Kind = "absent"      // the object is not there
	Unusable    Kind = "unusable"    // an answer, or a request, that makes no sense
)

// Error is every failure of this package. No part of it ever holds a credential.
type Error struct {
	Kind    Kind
	Server  string // URL of the server that failed; empty when none was asked, or several, which Detail lists
	Object  string // what was read, such as "configmap kube-system/kubelet-config"
	Detail  string // what happened
	Hint    string // what to do next
	Err     error  // the cause, where there is one
	Retries int    // attempts that were made before the last one
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Object)
	if e.Server != "" {
		b.WriteString(" at " + e.Server)
	}
	fmt.Fprintf(&b, ": %s: %s", e.Kind, e.Detail)
	switch {
	case e.Retries == 1:
		b.WriteString(" (after 1 retry)")
	case e.Retries > 1:
		fmt.Fprintf(&b, " (after %d retries)", e.Retries)
	}
	if e.Hint != "" {
		b.WriteString(". " + e.Hint)
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// class is what search.try does about a failure.
type class int

const (
	final class = iota // this server is left out
	again              // this server is asked again
	dates              // a certificate's dates do not fit the clock
	local              // no server can help: the cause is on this node
)

// failure is an Error on its way to search.try, which fills in the server and the object.
type failure struct {
	kind   Kind
	class  class
	detail string
	hint   string
	err    error
	after  time.Duration // the server asks us to wait, and perhaps others do not
	future bool          // with class dates: not yet valid, rather than expired

	noToken  bool // there is no bootstrap token
	starting bool // a refusal of a server that may have just started
}

func fail(kind Kind, cl class, hint, format string, args ...any) *failure {
	return &failure{kind: kind, class: cl, hint: hint, detail: fmt.Sprintf(format, args...)}
}

func (f *failure) because(err error) *failure {
	f.err = err
	return f
}

const maxQuote = 200 // runes of a stranger's text in a message

// quote makes a stranger's text fit for a message: one line, printable, short.
func quote(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n == maxQuote {
			b.WriteString("…")
			break
		}
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			r = ' '
		}
		b.WriteRune(r)
		n++
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// withhold takes a secret out of a text. A server can echo what we sent into what we print.
func withhold(s, secret string) string {
	if len(secret) < 4 {
		return s
	}
	// The second half of a bootstrap token is its secret, and may be echoed alone.
	_, half, isToken := strings.Cut(secret, ".")
	s = strings.ReplaceAll(s, secret, "(withheld)")
	if isToken && len(half) >= 4 {
		s = strings.ReplaceAll(s, half, "(withheld)")
	}
	return s
}

// bearer is the token in an Authorization header.
func bearer(header string) string { return strings.TrimPrefix(header, "Bearer ") }
