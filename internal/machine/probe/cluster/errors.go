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

// class determines how a search continues after a failure.
type class int

const (
	classFinal class = iota // this server is not asked again
	classRetry              // this server is asked again
	classDates              // a certificate is not valid at the current time
	classLocal              // the cause is on this node, so the search ends
)

// failure is the Fault of one attempt and its meaning for the search. The search adds the server and the object. A
// fault never contains a credential.
type failure struct {
	fault.Fault
	class       class
	retryAfter  time.Duration // the wait that the server demands; other servers may not
	notYetValid bool          // with classDates: the certificate is not valid yet, rather than expired
	noToken     bool          // the bootstrap token is missing
	starting    bool          // the refusal of a server that may have just started
}

// fail returns a failure. next is the next step; format and args are the reason.
func fail(code fault.Code, c class, next, format string, args ...any) *failure {
	why := fmt.Sprintf(format, args...)

	return &failure{
		Fault: fault.Fault{Code: code, Why: why, Next: next},
		class: c,
	}
}

// failUnreachable returns the failure of a server that could not be reached and is retried.
func failUnreachable(format string, args ...any) *failure {
	return fail(fault.ClusterUnreachable, classRetry, hintReach, format, args...)
}

// failUnusable returns the failure of a server whose response is not one of Kubernetes.
func failUnusable(format string, args ...any) *failure {
	return fail(fault.ClusterUnusable, classFinal, hintPortal, format, args...)
}

// failUntrusted returns the failure of a server that is not the site's cluster.
func failUntrusted(next, format string, args ...any) *failure {
	return fail(fault.ClusterUntrusted, classFinal, next, format, args...)
}

func (f *failure) withCause(err error) *failure {
	f.Err = err
	return f
}

// toFault returns the fault for the caller. object is the requested one, such as "configmap
// kube-system/kubelet-config". If the token is missing, the fault of its reader is returned unchanged.
func (f *failure) toFault(object string) *fault.Fault {
	var missing *fault.Fault
	if f.noToken && errors.As(f.Err, &missing) {
		return missing
	}

	out := f.Fault
	out.Summary = object

	return &out
}

// refuse returns the error of a request that cannot be sent.
func refuse(object, hint, format string, args ...any) error {
	return fail(fault.ClusterUnusable, classFinal, hint, format, args...).toFault(object)
}

const maxQuote = 200 // runes of untrusted text in a message

// quote makes untrusted text fit for a message: one line, printable, short.
func quote(s string) string {
	words := strings.FieldsFunc(s, func(r rune) bool {
		return r == ' ' || r == utf8.RuneError || !unicode.IsPrint(r)
	})
	s = strings.Join(words, " ")

	if runes := []rune(s); len(runes) > maxQuote {
		s = string(runes[:maxQuote]) + "…"
	}

	return s
}

// withhold removes a secret from a text, because a server can echo it into a message.
func withhold(s, secret string) string {
	const minSecret = 4
	if len(secret) < minSecret {
		return s
	}

	s = strings.ReplaceAll(s, secret, "(withheld)")

	// The second half of a bootstrap token is its secret, and may be echoed alone.
	_, half, _ := strings.Cut(secret, ".")
	if len(half) >= minSecret {
		s = strings.ReplaceAll(s, half, "(withheld)")
	}

	return s
}
