package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/texts"
)

// maxText bounds a text of a server in a message, in characters.
const maxText = 300

// describe returns the fault of a call that failed.
func (s *session) describe(verb string, ref Reference, err error) error {
	var known *fault.Fault
	if err == nil || errors.As(err, &known) {
		return err
	}

	f := &fault.Fault{
		Code:    fault.Registry,
		Summary: fmt.Sprintf("Cannot %s %s", verb, ref),
		Err:     errors.New(s.clean(reasonOf(err))),
	}
	var response *errcode.ErrorResponse
	isResponse := errors.As(err, &response)
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.Is(err, context.Canceled):
		f.Code, f.Err = fault.Interrupted, errors.New("it was stopped")
	case isResponse && s.isTokenRefused.Load():
		f.Code = fault.RegistryDenied
		f.Next = "It refuses a token of its own token server: compare their clocks and keys"
	case errors.Is(err, auth.ErrBasicCredentialNotFound),
		isResponse && (response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden):
		f.Code = fault.RegistryDenied
		f.Next = "Give a password that may " + verb + " there: " + s.passwords
	case errors.As(err, &untrusted):
		f.Next = "Name the CA of this registry: " + s.authorities
		f.Err = cause{f.Err.Error(), err}
	}

	return f
}

// cause is an error with a text for people. A caller finds out whether a certificate is not valid yet.
type cause struct {
	text string
	err  error
}

func (c cause) Error() string { return c.text }
func (c cause) Unwrap() error { return c.err }

// reasonOf returns why a call failed, without what its summary has.
func reasonOf(err error) string {
	var response *errcode.ErrorResponse
	var request *url.Error
	switch {
	case errors.As(err, &response):
		text := http.StatusText(response.StatusCode)
		if len(response.Errors) > 0 {
			text = response.Errors.Error()
		}
		return fmt.Sprintf("HTTP %d from %s: %s", response.StatusCode, response.URL.Host, text)
	case errors.Is(err, errdef.ErrNotFound):
		return "it does not exist there (HTTP 404)"
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return "it asks for a password, and none is known for it"
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData):
		return "its content is not that of its digest: " + err.Error()
	case errors.As(err, &request):
		return request.Err.Error()
	}

	return err.Error()
}

// urlParts finds the user and the query of a URL, which may be credentials.
var urlParts = texts.LazyRegexp(`(://)[^/@\s"]*@|\?[^\s"]*`)

// clean returns a text that a server may have written for a message: in one line, short, and without credentials.
func (s *session) clean(text string) string {
	text = urlParts().ReplaceAllString(s.redactor.String(text), "$1")
	text = strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return ' '
	}, text)
	if short := []rune(text); len(short) > maxText {
		text = string(short[:maxText]) + "…"
	}

	return text
}
