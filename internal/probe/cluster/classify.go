package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prelet/prelet/internal/fault"
)

// What to do next, for failures that have one cause wherever they happen.
const (
	hintReach  = "Check that `servers` in the cluster block is right and that this node reaches it"
	hintPortal = "Something other than an API server answers there: check `servers`, a load balancer or a captive " +
		"portal on the way"
	hintCA = "Either the CA that this node was given is not this cluster's, or somebody stands between; compare with " +
		"the CA on a control-plane node"
	hintClock = "Set the clock of this node, or renew the server's certificate, whichever is wrong"
)

// classifyError turns an error of a request that got no whole response into a failure. The error may hold what the
// server sent, which may be the credential that was sent to it.
func classifyError(err error, now time.Time, secret string) *failure {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err // without the method and the URL, which the caller reports
	}
	f := classifyCause(err, now, withhold(err.Error(), secret))
	if withhold(f.Why, secret) == f.Why && withhold(err.Error(), secret) == err.Error() {
		f.Err = err
	}
	f.Why = withhold(f.Why, secret)
	return f
}

func classifyCause(err error, now time.Time, text string) *failure {
	var proxy proxyError
	var dial *net.OpError
	if errors.As(err, &proxy) || errors.As(err, &dial) && dial.Op == "proxyconnect" {
		return fail(fault.ClusterUnreachable, again, "Check `proxy_url` in the cluster block",
			"the proxy: %s", quote(text))
	}
	var verification *tls.CertificateVerificationError
	if errors.As(err, &verification) {
		return classifyChain(verification.Err, now)
	}

	var large *http.MaxBytesError
	switch {
	case errors.Is(err, context.Canceled):
		return fail(fault.ClusterUnreachable, again, "Run again", "the run was interrupted")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return fail(fault.ClusterUnreachable, again, hintReach, "no answer before the deadline")
	case errors.As(err, &large):
		return fail(fault.ClusterUnusable, final, hintPortal, "the answer is larger than %d MiB", maxBody>>20)
	case strings.Contains(text, "response headers exceeded"):
		return fail(fault.ClusterUnusable, final, hintPortal,
			"the head of the answer is larger than %d KiB", maxHead>>10)
	case errors.Is(err, errCompressed):
		return fail(fault.ClusterUnusable, final, hintPortal, "%v", err)
	case errors.Is(err, errCredential):
		return fail(fault.ClusterUntrusted, final, hintCA, "%v", err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fail(fault.ClusterUnreachable, again, hintReach, "the connection ended before a whole answer")
	}
	if f := classifyTLS(err); f != nil {
		return f
	}

	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return fail(fault.ClusterUnreachable, again, hintReach+" and its name resolves",
			"the name %q cannot be resolved: %s", quote(dns.Name), quote(dns.Err))
	case errors.Is(err, syscall.ECONNREFUSED):
		return fail(fault.ClusterUnreachable, again, hintReach, "connection refused")
	case strings.Contains(text, "malformed MIME"):
		return fail(fault.ClusterUnreachable, again, hintReach,
			"the head of the answer ended in the middle, or is malformed")
	case strings.Contains(text, "malformed HTTP"):
		return fail(fault.ClusterUnusable, final, hintPortal, "the answer is not HTTP: %s", quote(text))
	}
	return fail(fault.ClusterUnreachable, again, hintReach, "%s", quote(text))
}

// classifyTLS knows the failures of a handshake that are not about a chain.
func classifyTLS(err error) *failure {
	var record tls.RecordHeaderError
	if errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch) {
		return fail(fault.ClusterUnusable, final, hintPortal, "the server does not speak TLS")
	}
	const newer = "Let the server, or what stands before it, speak TLS 1.2 or newer"
	switch alert := remoteAlert(err); {
	case alert == 70, strings.Contains(err.Error(), "tls: server selected unsupported protocol version"):
		return fail(fault.ClusterUntrusted, final, newer, "the server offers no TLS version from 1.2 on")
	case alert == 40, alert == 47, alert == 71: // handshake_failure, illegal_parameter, insufficient_security
		return fail(fault.ClusterUntrusted, final, newer+" with a common cipher suite",
			"no common TLS parameters: %s", quote(err.Error()))
	case alert >= 42 && alert <= 46, alert == 48, alert == 116: // bad, unsupported, revoked, …; unknown_ca; required
		return fail(fault.ClusterDenied, final, "Renew the node's client certificate, or let the node join again",
			"the server refuses the client certificate: %s", quote(err.Error()))
	}
	return nil
}

// remoteAlert is the number of the TLS alert that the peer sent, or 0. crypto/tls has a type for it over QUIC only;
// over TCP the text is the same.
func remoteAlert(err error) tls.AlertError {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return 0
	}
	for _, a := range []tls.AlertError{40, 42, 43, 44, 45, 46, 47, 48, 70, 71, 116} {
		if op.Err.Error() == a.Error() {
			return a
		}
	}
	return 0
}

// classifyChain turns the refusal of a certificate chain into a failure, dates apart from the rest.
func classifyChain(err error, now time.Time) *failure {
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		f := fail(fault.ClusterUntrusted, dates, hintClock,
			"the certificate %q is valid from %s to %s, and the clock here says %s",
			quote(invalid.Cert.Subject.String()), stamp(invalid.Cert.NotBefore), stamp(invalid.Cert.NotAfter), stamp(now))
		f.future = now.Before(invalid.Cert.NotBefore)
		return f.because(err)
	case errors.As(err, &host):
		return fail(fault.ClusterUntrusted, final,
			"Write one of those names in `servers`, or add this one to the API server's certificate (kubeadm: certSANs)",
			"the certificate is not for %q but for %s", host.Host, quote(names(host.Certificate))).because(err)
	case errors.As(err, &unknown):
		return fail(fault.ClusterUntrusted, final, hintCA,
			"the server's certificate is not signed by the cluster's CA").because(err)
	}
	return fail(fault.ClusterUntrusted, final, hintCA,
		"the server's certificate is refused: %s", quote(err.Error())).because(err)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func names(c *x509.Certificate) string {
	all := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	if len(all) == 0 {
		return "no name at all"
	}
	return strings.Join(all, ", ")
}

// classifyStatus turns any response but 200 into a failure; nil for 200. It does not know who asked: callers refine
// Denied and Absent.
func classifyStatus(r *reply) *failure {
	says := describeStatus(r)
	var f *failure
	switch s := r.status; {
	case s == http.StatusOK:
		return nil
	case r.isStarting():
		f = fail(fault.ClusterUnreachable, again, "Look at `kubectl get --raw /readyz?verbose`, and at the API server's own log",
			"%s; and the API server is not ready yet (/readyz)", says)
		f.starting = true
	case r.notReady != 0:
		f = fail(fault.ClusterDenied, again, "", "%s", says)
		f.starting = true
	case s >= 300 && s < 400:
		location := withhold(r.header.Get("Location"), r.secret)
		return fail(fault.ClusterUnusable, final, hintPortal,
			"HTTP %d: a redirect, to %q, which is not followed", s, quote(location))
	case s == http.StatusUnauthorized:
		f = fail(fault.ClusterDenied, again, "", "%s", says) // a token may come late
	case s == http.StatusForbidden:
		f = fail(fault.ClusterDenied, final, "", "%s", says)
	case s == http.StatusNotFound:
		f = fail(fault.Absent, again, "", "%s", says)
	case s == http.StatusTooManyRequests:
		f = fail(fault.ClusterUnreachable, again, "The API server is overloaded; look at its priority and fairness",
			"%s", says)
	case s >= 500 || s == http.StatusRequestTimeout:
		f = fail(fault.ClusterUnreachable, again, "Look at the API server's own log", "%s", says)
	default:
		return fail(fault.ClusterUnusable, final, hintPortal, "%s", says)
	}
	f.after = max(retryAfter(r.header), r.notReadyAfter)
	return f
}

// maxRetryAfter is what a server may ask us to wait. API Priority and Fairness asks for 32 s at most.
const maxRetryAfter = 32 * time.Second

// retryAfter is how long a server asks us to wait, 0 if it does not. A date is compared with the server's own,
// because our clock may not be set yet; without one beside it, it says nothing.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return min(max(until.Sub(now), 0), maxRetryAfter)
}

// status is the part of a Kubernetes Status object that says why.
type status struct {
	Kind    string `json:"kind"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// statusOf gives the Kubernetes Status in a reply, if it is one.
func statusOf(r *reply) (status, bool) {
	var s status
	err := json.Unmarshal(r.body, &s)
	s.Message, s.Reason = withhold(s.Message, r.secret), withhold(s.Reason, r.secret)
	return s, err == nil && s.Kind == "Status"
}

func describeStatus(r *reply) string {
	head := "HTTP " + strconv.Itoa(r.status)
	if s, ok := statusOf(r); ok {
		if s.Message != "" {
			return head + ": " + s.Message
		}
		return head + ": " + s.Reason
	}
	return head + " with " + looksLike(r)
}

// looksLike says what a body is that is not what it should be.
func looksLike(r *reply) string {
	body := []byte(withhold(string(r.body), r.secret))
	text := strings.TrimSpace(string(body[:min(len(body), 1024)]))
	lower := strings.ToLower(strings.TrimPrefix(text, "\ufeff"))
	switch {
	case text == "":
		return "an empty body"
	case strings.HasPrefix(lower, "<!doctype html"), strings.Contains(lower, "<html"), strings.Contains(lower, "<head"):
		return "an HTML page, as a captive portal sends"
	case strings.HasPrefix(lower, "<"):
		return "an XML document"
	case json.Valid(body):
		return "JSON that is not a Kubernetes object of the kind asked for"
	case strings.HasPrefix(lower, "{"), strings.HasPrefix(lower, "["):
		return "JSON that breaks off or is malformed"
	}
	return "a text that begins " + strconv.Quote(firstWords(text))
}

func firstWords(s string) string {
	r := []rune(quote(s))
	return string(r[:min(len(r), 40)])
}
