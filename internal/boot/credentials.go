package boot

import (
	"context"
	"slices"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// Credentials returns the names of the credentials that the site reads and of the token that it names, sorted.
func (p *Plan) Credentials() (names []string) {
	if p.Access.Token != "" {
		names = append(names, p.Access.Token)
	}
	if p.Tape != nil {
		for _, e := range p.Tape.Entries() {
			if e.Kind != world.KindCredential {
				continue
			}
			if r, err := world.Credential.Request(e.Question); err == nil {
				names = append(names, r.Name)
			}
		}
	}
	slices.Sort(names)

	return slices.Compact(names)
}

// reportUnreadToken names the credential of the token if a file needs it, and a recording was never asked for it. A
// node that has joined needs no token.
func reportUnreadToken(
	ctx context.Context, s *lang.Site, a world.Access, n node.Node, tape *world.Tape,
) (found Findings) {
	isNeeded := func(f node.File) bool {
		return slices.Contains(f.Text.Secrets(), a.Token)
	}
	usesToken := s.Cluster != nil && a.Token != ""
	if tape == nil || !usesToken || !slices.ContainsFunc(n.Files, isNeeded) {
		return found
	}

	_, ans, _ := world.Credential.Ask(ctx, tape, world.CredentialReq{Name: a.Token})
	if ans.Code() == fault.Unread {
		question := "credential " + a.Token
		found.reportUnread(s.Cluster.SrcRange, "the token of the cluster block", question, partAccess)
	}

	return found
}
