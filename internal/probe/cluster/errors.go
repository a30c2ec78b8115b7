package cluster

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/fault"
)

// class is what search.try does about a failure.
type class int

const (
	final class = iota // this server is left out
	again              // this server is asked again
	dates              // a certificate's dates do not fit the clock
	local              // no server can help: the cause is on this node
)

// failure is a Fault on its way to search.try, which adds the server and the object, and what try does about it. No
// part of a fault ever holds a credential.
type failure struct {
	fault.Fault
	class  class
	after  time.Duration // the server asks us to wait, and perhaps others do not
	future bool          // with class dates: not yet valid, rather than expired

	noToken  bool // there is no bootstrap token
	starting bool // a refusal of a server that may have just started
}

// fail makes a failure. Next is the next step, the rest the reason.
func fail(code fault.Code, cl class, next, format string, args ...any) *failure {
	return &failure{Fault: fault.Fault{Code: code, Why: fmt.Sprintf(format, args...), Next: next}, class: cl}
}

func (f *failure) because(err error) *failure {
	f.Err = err
	return f
}

// about is the fault for a caller: object is what was read, such as "configmap kube-system/kubelet-config". A fault of
// whoever was to give the token passes as it is.
func (f *failure) about(object string) *fault.Fault {
	var missing *fault.Fault
	if f.noToken && errors.As(f.Err, &missing) {
		return missing
	}

	out := f.Fault
	out.Summary = object

	return &out
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
