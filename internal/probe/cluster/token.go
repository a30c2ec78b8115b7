package cluster

import (
	"context"
	"errors"
	"strings"
	"unicode"

	"github.com/prelet/prelet/internal/fault"
)

// Token reads a bootstrap token, "id.secret". It is called late and only if needed.
type Token func(ctx context.Context) (string, error)

// ParseToken splits a bootstrap token, [a-z0-9]{6}.[a-z0-9]{16}. One newline at the end is allowed, as files have it.
// The error does not show what was given.
func ParseToken(s string) (id, secret string, err error) {
	s = strings.TrimSuffix(s, "\n")
	id, secret, ok := strings.Cut(s, ".")
	if !ok || len(id) != 6 || len(secret) != 16 || strings.ContainsFunc(id+secret, notTokenRune) {
		return "", "", errors.New("not a bootstrap token: " + describeToken(id+"."+secret))
	}
	return id, secret, nil
}

// describeToken says what is wrong with a token where that cannot be seen, else what a token is.
func describeToken(s string) string {
	switch {
	case s == ".":
		return "it is empty"
	case strings.HasPrefix(s, "\ufeff"):
		return "it begins with a byte order mark"
	case strings.ContainsRune(s, '\r'):
		return "it has a carriage return, as a file of Windows does"
	case strings.ContainsFunc(s, unicode.IsSpace):
		return "it has a blank, a tab or another line"
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "it has a character that is not seen"
	}
	return "six characters, a dot, sixteen characters, all of a-z and 0-9"
}

func notTokenRune(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9') }

// bootstrapToken is a token that was read and is well formed.
type bootstrapToken struct{ id, secret string }

func (t bootstrapToken) String() string { return t.id + ".…" } // so that no %v ever shows the secret

func (t bootstrapToken) bearer() string { return t.id + "." + t.secret }

// CheckToken refuses what would be refused before it is sent: a token that is there and is none.
func CheckToken(ctx context.Context, read Token) error {
	_, f := readToken(ctx, read)
	if f == nil || f.noToken {
		return nil
	}

	return f.about(clusterInfo)
}

func readToken(ctx context.Context, read Token) (bootstrapToken, *failure) {
	const hint = "Put a valid bootstrap token into the credential that `token` names; `kubeadm token create` makes one"
	s, err := read(ctx)
	if err != nil {
		why := err.Error()
		var missing *fault.Fault
		if errors.As(err, &missing) {
			why = missing.Why
		}

		f := fail(fault.ClusterDenied, local, hint, "the bootstrap token cannot be read: %s", why).because(err)
		f.noToken = true
		return bootstrapToken{}, f
	}
	id, secret, err := ParseToken(s)
	if err != nil {
		return bootstrapToken{}, fail(fault.CredentialMissing, local, hint,
			"the bootstrap token is malformed: %v", err).because(err)
	}
	return bootstrapToken{id, secret}, nil
}
