package cluster

import (
	"context"
	"errors"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/texts"
)

// Token reads a bootstrap token, "id.secret". It is called late and only if needed.
type Token func(ctx context.Context) (string, error)

// errMalformedToken does not contain the text, which may be a secret.
var errMalformedToken = errors.New(
	"not a bootstrap token: want six characters, a dot and sixteen characters, " +
		"all of a-z and 0-9, without a byte order mark, a carriage return or a second line",
)

// errEmptyToken is the error for a credential without content.
var errEmptyToken = errors.New("the token is empty")

var tokenPattern = texts.LazyRegexp(`^([a-z0-9]{6})\.([a-z0-9]{16})\n?$`)

// ParseToken splits a bootstrap token, [a-z0-9]{6}.[a-z0-9]{16}. One newline at the end is allowed, as in files. The
// error does not contain the text.
func ParseToken(s string) (id, secret string, err error) {
	parts := tokenPattern().FindStringSubmatch(s)
	switch {
	case parts != nil:
	case strings.TrimSpace(s) == "":
		return "", "", errEmptyToken
	default:
		return "", "", errMalformedToken
	}

	return parts[1], parts[2], nil
}

// bootstrapToken is a well-formed token.
type bootstrapToken struct{ id, secret string }

// String returns the id only, so that no message shows the secret.
func (t bootstrapToken) String() string { return t.id + ".…" }

// CheckToken returns an error for a malformed token, before it is needed. A missing token is accepted.
func CheckToken(ctx context.Context, read Token) error {
	_, f := readToken(ctx, read)
	if f == nil || f.noToken {
		return nil
	}

	return f.toFault(clusterInfo)
}

func readToken(ctx context.Context, read Token) (bootstrapToken, *failure) {
	const hint = "Put a valid bootstrap token into the credential that `token` names; " +
		"`kubeadm token create` makes one"

	text, err := read(ctx)
	if err != nil {
		why := err.Error()

		var missing *fault.Fault
		if errors.As(err, &missing) {
			why = missing.Why
		}

		f := fail(fault.ClusterDenied, classLocal, hint, "the bootstrap token cannot be read: %s", why)
		f.noToken = true

		return bootstrapToken{}, f.withCause(err)
	}

	id, secret, err := ParseToken(text)
	if err != nil {
		f := fail(fault.CredentialMissing, classLocal, hint, "the bootstrap token is malformed: %v", err)
		return bootstrapToken{}, f.withCause(err)
	}

	return bootstrapToken{id, secret}, nil
}
