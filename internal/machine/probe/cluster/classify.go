package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/plugins/contract"
)

// The next steps for failures that have the same cause everywhere.
const (
	hintReach  = "Check that `servers` in the cluster block is right and that this node reaches it"
	hintProxy  = "Check `proxy_url` and `servers` in the cluster block, and that the proxy reaches them"
	hintPortal = "The server at this address is not an API server: check `servers`, a load balancer or a captive " +
		"portal on the way"
	hintCA = "Either the CA in the site is not this cluster's, or the connection is intercepted; compare with " +
		"the CA on a control-plane node"
	hintClock = "Set the clock of this node, or renew the server's certificate, whichever is wrong"
	hintTLS   = "Configure the server, or the proxy in front of it, for TLS 1.2 or newer"
)

// classifyError returns the failure of a request without a complete response. err may contain text of the server,
// which may echo the credential.
func classifyError(err error, now time.Time, secret string) *failure {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err // without the method and the URL, which the caller reports
	}

	text := withhold(err.Error(), secret)
	f := classifyCause(err, now, text)

	why := withhold(f.Why, secret)
	if why == f.Why && text == err.Error() {
		f.Err = err
	}
	f.Why = why

	return f
}

func classifyCause(err error, now time.Time, text string) *failure {
	var proxy proxyError
	var dial *net.OpError
	isConnect := errors.As(err, &dial) && dial.Op == "proxyconnect"

	if isConnect || errors.As(err, &proxy) {
		return fail(fault.ClusterUnreachable, classRetry, "Check `proxy_url` in the cluster block",
			"the proxy: %s", quote(text))
	}

	var verification *tls.CertificateVerificationError
	if errors.As(err, &verification) {
		return classifyChain(verification.Err, now)
	}

	var large *http.MaxBytesError

	switch {
	case errors.Is(err, context.Canceled):
		return fail(fault.ClusterUnreachable, classRetry, "Run again", "the run was interrupted")
	case errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, os.ErrDeadlineExceeded):
		return failUnreachable("no response before the deadline")
	case errors.As(err, &large):
		return failUnusable("the response is larger than %d MiB", maxBody>>20)
	case strings.Contains(text, "response headers exceeded"):
		return failUnusable("the head of the response is larger than %d KiB", maxHead>>10)
	case errors.Is(err, errCompressed):
		return failUnusable("%v", err)
	case errors.Is(err, errCredential):
		return failUntrusted(hintCA, "%v", err)
	case errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, io.EOF):
		return failUnreachable("the connection ended before a complete response")
	}

	if f := classifyHandshake(err); f != nil {
		return f
	}

	var dns *net.DNSError

	switch {
	case errors.As(err, &dns):
		return fail(fault.ClusterUnreachable, classRetry, hintReach+" and its name resolves",
			"the name %q cannot be resolved: %s", quote(dns.Name), quote(dns.Err))
	case errors.Is(err, syscall.ECONNREFUSED):
		return failUnreachable("connection refused")
	case strings.Contains(text, "malformed MIME"):
		return failUnreachable("the head of the response is incomplete or malformed")
	case strings.Contains(text, "malformed HTTP"):
		return failUnusable("the response is not HTTP: %s", quote(text))
	}

	return failUnreachable("%s", quote(text))
}

// classifyHandshake returns the failure of a TLS handshake that has another reason than the server's certificate, nil
// for other errors.
func classifyHandshake(err error) *failure {
	var record tls.RecordHeaderError
	if errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch) {
		return failUnusable("the server does not speak TLS")
	}

	text := err.Error()

	switch {
	case isRemoteAlert(err, 70),
		strings.Contains(text, "tls: server selected unsupported protocol version"):
		return failUntrusted(hintTLS, "the server offers no TLS version from 1.2 on")
	case isRemoteAlert(err, 40, 47, 71): // handshake_failure, illegal_parameter, insufficient_security
		return failUntrusted(hintTLS+" with a common cipher suite", "no common TLS parameters: %s", quote(text))
	case isRemoteAlert(err, 42, 43, 44, 45, 46, 48, 116): // bad, unsupported, revoked, …; unknown_ca; required
		return fail(fault.ClusterDenied, classFinal,
			"Renew the node's client certificate, or let the node join again",
			"the server refuses the client certificate: %s", quote(text))
	}

	return nil
}

// isRemoteAlert reports whether the peer sent one of these TLS alerts. crypto/tls returns tls.AlertError for QUIC
// only; for TCP the text is the same.
func isRemoteAlert(err error, alerts ...tls.AlertError) bool {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return false
	}

	return slices.ContainsFunc(alerts, func(a tls.AlertError) bool {
		return op.Err.Error() == a.Error()
	})
}

// classifyChain returns the failure of a certificate chain. Dates have a class of their own.
func classifyChain(err error, now time.Time) *failure {
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var unknown x509.UnknownAuthorityError

	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		c := invalid.Cert
		f := fail(fault.ClusterUntrusted, classDates, hintClock,
			"the certificate %q is valid from %s to %s, and the clock of this node shows %s",
			quote(c.Subject.String()),
			formatTime(c.NotBefore),
			formatTime(c.NotAfter),
			formatTime(now),
		)
		f.notYetValid = now.Before(c.NotBefore)

		return f.withCause(err)
	case errors.As(err, &host):
		names := host.Certificate.DNSNames
		for _, ip := range host.Certificate.IPAddresses {
			names = append(slices.Clip(names), ip.String())
		}

		return failUntrusted(
			"Write one of those names in `servers`, or add this one to the API server's certificate "+
				"(kubeadm: certSANs)",
			"the certificate is not for %q but for %s",
			host.Host,
			quote(cmp.Or(strings.Join(names, ", "), "no name at all")),
		).withCause(err)
	case errors.As(err, &unknown):
		return failUntrusted(hintCA, "the server's certificate is not signed by the cluster's CA").withCause(err)
	}

	return failUntrusted(hintCA, "the server's certificate is refused: %s", quote(err.Error())).withCause(err)
}

func formatTime(t time.Time) string {
	return t.UTC().Format(time.RFC3339)
}

// classifyStatus returns the failure of any status but 200, for which it returns nil. Callers add the next step for
// Denied and Absent.
func classifyStatus(r *reply) *failure {
	if r.status == http.StatusOK {
		return nil
	}

	code, c, next := explainStatus(r)
	f := fail(code, c, next, "%s", describeStatus(r))
	f.starting = r.notReady != 0
	f.retryAfter = max(retryAfter(r.header), r.notReadyAfter)

	if r.isStarting() {
		f.Why += "; and the API server is not ready yet (/readyz)"
	}

	return f
}

// explainStatus returns the code, class and next step of a status.
func explainStatus(r *reply) (code fault.Code, c class, next string) {
	switch s := r.status; {
	case r.isStarting():
		return fault.ClusterUnreachable, classRetry,
			"Look at `kubectl get --raw /readyz?verbose`, and at the API server's own log"
	case r.notReady != 0, s == http.StatusUnauthorized: // a token may come late
		return fault.ClusterDenied, classRetry, ""
	case s == http.StatusForbidden:
		return fault.ClusterDenied, classFinal, ""
	case s == http.StatusNotFound:
		return fault.Absent, classRetry, ""
	case s == http.StatusTooManyRequests:
		return fault.ClusterUnreachable, classRetry,
			"The API server is overloaded; look at its priority and fairness"
	case s >= 500 || s == http.StatusRequestTimeout:
		return fault.ClusterUnreachable, classRetry, "Look at the API server's own log"
	}

	return fault.ClusterUnusable, classFinal, hintPortal
}

// maxRetryAfter limits the wait that a server may demand. API Priority and Fairness demands at most 32 s.
const maxRetryAfter = 32 * time.Second

// retryAfter returns the wait that a server demands, 0 if it demands none. A date is compared with the Date header,
// because the clock of this node may not be set yet.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")

	n, err := strconv.ParseUint(text, 10, 31)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}

	until, errUntil := http.ParseTime(text)
	now, errNow := http.ParseTime(h.Get("Date"))

	if errUntil != nil || errNow != nil {
		return 0
	}

	return min(max(until.Sub(now), 0), maxRetryAfter)
}

// status contains the reason of a Kubernetes Status object.
type status struct {
	Kind    string `json:"kind"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// parseStatus returns the Kubernetes Status in a response; empty and false if it is something else.
func parseStatus(r *reply) (status, bool) {
	var s status

	err := json.Unmarshal(r.body, &s)
	if err != nil || s.Kind != "Status" {
		return status{}, false
	}

	s.Message = withhold(s.Message, r.secret)
	s.Reason = withhold(s.Reason, r.secret)

	return s, true
}

func describeStatus(r *reply) string {
	head := "HTTP " + strconv.Itoa(r.status)

	s, isStatus := parseStatus(r)
	isRedirect := r.status >= 300 && r.status < 400

	switch {
	case isRedirect:
		location := withhold(r.header.Get("Location"), r.secret)
		return fmt.Sprintf("%s: a redirect, to %q, which is not followed", head, quote(location))
	case !isStatus:
		return head + " with " + describeBody(r)
	case s.Message != "":
		return head + ": " + s.Message
	}

	return head + ": " + s.Reason
}

// describeBody describes a body that is not the expected object.
func describeBody(r *reply) string {
	const maxText, maxWords = 1024, 40

	body := withhold(string(r.body), r.secret)
	text := contract.Shorten(strings.TrimSpace(body), maxText)
	lower := strings.ToLower(strings.TrimPrefix(text, "\ufeff"))

	switch {
	case text == "":
		return "an empty body"
	case strings.HasPrefix(lower, "<!doctype html"),
		strings.Contains(lower, "<html"),
		strings.Contains(lower, "<head"):
		return "an HTML page, as a captive portal sends"
	case strings.HasPrefix(lower, "<"):
		return "an XML document"
	case json.Valid([]byte(body)):
		return "JSON that is not the requested Kubernetes object"
	case strings.HasPrefix(lower, "{"), strings.HasPrefix(lower, "["):
		return "JSON that is incomplete or malformed"
	}

	return "a text that begins with " + strconv.Quote(contract.Shorten(quote(text), maxWords))
}
