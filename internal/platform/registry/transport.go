package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	oras "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/secret"
)

const (
	maxHeaders   = 64 << 10 // bytes
	maxRedirects = 5
	maxRetries   = 3

	// IdentityToken is the user of an identity token, as in a docker config.json.
	IdentityToken = "<token>"
)

// session is one call to one registry or layout.
type session struct {
	repo      *remote.Repository // nil for a layout
	transport *http.Transport
	redactor  *secret.Redactor // hides the credentials that were sent

	passwords, authorities string // of Client

	isTokenRefused atomic.Bool // the last token was not valid for the registry, whatever it allows
}

func (s *session) close() { s.transport.CloseIdleConnections() }

// source returns where a reference is.
func (s *session) source(ref Reference) source {
	if ref.Layout != "" {
		return layout{ref.Layout}
	}

	return s.repo
}

// open returns a session for a reference. It sends nothing.
func (c *Client) open(ref Reference) (*session, error) {
	s := &session{
		redactor:    secret.NewRedactor(),
		transport:   &http.Transport{},
		passwords:   c.Passwords,
		authorities: c.Authorities,
	}
	if ref.Layout != "" {
		return s, nil
	}
	if c.PlainHTTP && !isLocal(ref.Host) {
		return nil, fault.Usage.Errorf("%s: only a registry on this machine is asked without TLS", ref)
	}

	patience := c.Patience
	if patience == 0 {
		patience = defaultPatience
	}
	s.transport = &http.Transport{
		Proxy:                  c.Proxy,
		DialContext:            c.Dial,
		TLSClientConfig:        &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12},
		MaxResponseHeaderBytes: maxHeaders,
		DisableCompression:     true, // a digest is that of the bytes on the line
		DisableKeepAlives:      true, // net/http prints unredacted bytes that a server sends on an idle connection
	}
	retries := &retry.Transport{
		Base: &patient{s.transport, patience, s.redactor, &s.isTokenRefused},
		Policy: func() retry.Policy {
			return &retry.GenericPolicy{
				Retryable: retry.DefaultPredicate,
				Backoff:   retry.DefaultBackoff,
				MaxWait:   patience / maxRetries, // a server does not choose how long a boot waits
				MaxRetry:  maxRetries,
			}
		},
	}
	s.repo = &remote.Repository{
		Reference: oras.Reference{Registry: ref.Host, Repository: ref.Repository},
		PlainHTTP: c.PlainHTTP,
		Client: &auth.Client{
			Client:     &http.Client{Transport: retries, CheckRedirect: checkRedirect},
			Header:     http.Header{"User-Agent": {"prelet"}},
			Cache:      auth.NewCache(),
			ClientID:   "prelet",
			Credential: c.credential(ref, s.redactor),
		},
		ManifestMediaTypes: []string{ocispec.MediaTypeImageManifest},
	}

	return s, nil
}

func (c *Client) credential(ref Reference, hide *secret.Redactor) auth.CredentialFunc {
	return func(ctx context.Context, host string) (auth.Credential, error) {
		if c.Credential == nil {
			return auth.EmptyCredential, nil
		}
		user, password, err := c.Credential(ctx, host, ref.Repository)
		hide.Add([]byte(password))
		if password == "" {
			return auth.EmptyCredential, err
		}
		if user == IdentityToken {
			return auth.Credential{RefreshToken: password}, err
		}

		return auth.Credential{Username: user, Password: password}, err
	}
}

// checkRedirect follows redirects of blobs, which are compared with their digest. Authorization was removed from a
// request to another host, by package auth.
func checkRedirect(next *http.Request, via []*http.Request) error {
	next.Header.Del("Referer") // the query of a URL may be a password
	first := via[0]
	isBlob := (first.Method == http.MethodGet || first.Method == http.MethodHead) &&
		strings.Contains(first.URL.Path, "/blobs/sha256:")
	isSame := next.URL.Scheme == first.URL.Scheme && next.URL.Host == first.URL.Host

	switch {
	case !isBlob:
		return refuse("it redirects to %s: only blobs may be elsewhere", next.URL.Host)
	case next.URL.Scheme != "https" && !isSame:
		return refuse("it redirects a blob to %s without TLS", next.URL.Host)
	case len(via) > maxRedirects:
		return refuse("it redirects a blob more than %d times", maxRedirects)
	case slices.ContainsFunc(via, func(r *http.Request) bool { return r.URL.String() == next.URL.String() }):
		return refuse("it redirects a blob in a circle")
	}

	return nil
}

// stalledError is the cause of the end of a call or request that took too long.
type stalledError struct{ after time.Duration }

func (e *stalledError) Error() string { return fmt.Sprintf("it did not answer within %s", e.after) }

// Timeout and Temporary make it a net.Error, after which a request is tried again.
func (e *stalledError) Timeout() bool   { return true }
func (e *stalledError) Temporary() bool { return true }

// patient ends a request for which nothing has arrived or been sent for a while, and notes its credential.
type patient struct {
	base  http.RoundTripper
	after time.Duration
	hide  *secret.Redactor

	isTokenRefused *atomic.Bool
}

func (p *patient) RoundTrip(req *http.Request) (*http.Response, error) {
	scheme, value, ok := strings.Cut(req.Header.Get("Authorization"), " ")
	if ok {
		p.hide.Add([]byte(value))
	}

	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(p.after, func() { cancel(&stalledError{p.after}) })
	watch := func(body io.ReadCloser, end func()) io.ReadCloser {
		return &watched{body, func() { timer.Reset(p.after) }, func() error { return context.Cause(ctx) }, end}
	}
	req = req.WithContext(ctx)
	if req.Body != nil && req.Body != http.NoBody {
		req.Body = watch(req.Body, func() {})
	}

	end := func() {
		timer.Stop()
		cancel(nil)
	}
	response, err := p.base.RoundTrip(req)
	if err != nil {
		cause := context.Cause(ctx)
		end()
		var stalled *stalledError
		if errors.As(cause, &stalled) {
			return nil, stalled
		}
		return nil, err
	}
	response.Body = watch(response.Body, end)
	if scheme == "Bearer" { // RFC 6750, section 3.1
		isInvalid := strings.Contains(response.Header.Get("Www-Authenticate"), `error="invalid_token"`)
		p.isTokenRefused.Store(isInvalid && response.StatusCode == http.StatusUnauthorized)
	}

	return response, nil
}

// watched is a body of which each read is a sign of life.
type watched struct {
	io.ReadCloser
	alive func()
	cause func() error
	end   func()
}

func (w *watched) Read(to []byte) (int, error) {
	n, err := w.ReadCloser.Read(to)
	if cause := w.cause(); err != nil && cause != nil {
		return n, cause
	}
	w.alive()

	return n, err
}

func (w *watched) Close() error {
	defer w.end()

	return w.ReadCloser.Close()
}
