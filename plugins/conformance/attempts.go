package conformance

import "slices"

// attempt is a kind of thing that a detector tried beyond what it declares.
type attempt int

const (
	wrote attempt = iota
	read
	executed
	network
	connected
	dialled // over a network
	called
)

// attempts are what was tried, each once, in the order of the first time.
type attempts [called + 1][]string

func (a *attempts) add(kind attempt, what string) {
	const most = 100
	if len(a[kind]) < most && !slices.Contains(a[kind], what) {
		a[kind] = append(a[kind], what)
	}
}

func (a *attempts) merge(b attempts) {
	for kind := range b {
		for _, what := range b[kind] {
			a.add(attempt(kind), what)
		}
	}
}
