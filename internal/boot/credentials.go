package boot

import (
	"slices"

	"github.com/prelet/prelet/internal/world"
)

// Credentials are the names of those that the plan came upon, sorted: what the site reads, and the token that it names.
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
