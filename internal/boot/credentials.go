package boot

import (
	"slices"

	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages"
)

// checkCredentials warns of credentials that are gone, and have the value of the generation in place.
func checkCredentials(tape *world.Tape) (found Findings) {
	for _, e := range tape.Entries() {
		if e.Kind != world.KindCredential || e.Answer.Stale == 0 {
			continue
		}
		if r, err := world.Credential.Request(e.Question); err == nil {
			found.Report(stages.WarnKeptCredential(r.Name, e.Answer))
		}
	}
	found.degradeFor(found.Diags)

	return found
}

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
