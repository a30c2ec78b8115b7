package doctor

import (
	"context"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
)

// LimitSource returns a source for a plan that is only checked, and sends no secret. While the node has not joined, it
// asks the cluster for no object, because that takes the bootstrap token: the answer is Unread. (A node that has
// joined uses its own identity.) A credential is answered if given returns nil for its name, which means that its unit
// would get it. Everything else is asked of source.
func LimitSource(source tape.Source, isJoined bool, given func(name string) error) tape.Source {
	return tape.SourceFunc(func(ctx context.Context, q tape.Question) tape.Answer {
		switch q.Kind {
		case tape.KindObject:
			if !isJoined {
				return tape.Failure(fault.Unread, "the token is not sent for this", "")
			}
		case tape.KindCredential:
			r, err := tape.Credential.Request(q)
			if err == nil && given(r.Name) == nil {
				return tape.Credential.Answer(tape.CredentialAns{Source: "its unit's"})
			}
		}
		return source.Ask(ctx, q)
	})
}
