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
func LimitSource(source world.Source, isJoined bool, given func(name string) error) world.Source {
	return world.SourceFunc(func(ctx context.Context, q world.Question) world.Answer {
		switch q.Kind {
		case world.KindObject:
			if !isJoined {
				return world.Failure(fault.Unread, "the token is not sent for this", "")
			}
		case world.KindCredential:
			r, err := world.Credential.Request(q)
			if err == nil && given(r.Name) == nil {
				return world.Credential.Answer(world.CredentialAns{Source: "its unit's"})
			}
		}
		return source.Ask(ctx, q)
	})
}
