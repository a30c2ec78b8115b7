package app

import (
	"context"
	"slices"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/generation"
)

// History lists the generations of this node, or of those below a root.
func (e *Env) History(ctx context.Context, root string) (Chronicle, error) {
	past := Chronicle{FormatVersion: 1, Generations: []Chapter{}}
	w := Where{Root: root}
	if err := w.Check(); err != nil {
		return past, err
	}

	o := generation.Options{Root: w.Root, Dir: w.StateDir()}
	if w.Root == "" {
		h := e.Host(ctx)
		defer h.Units.Close()
		o = h.StoreOptions()
	}
	store, err := generation.OpenReadOnly(o)
	if err != nil {
		return past, explained(err)
	}
	defer store.Close()

	all, err := store.List()
	if err != nil {
		return past, explained(err)
	}
	for _, g := range all {
		past.InPlace = g.Gen // the last
		past.Generations = append(past.Generations, chapterOf(g))
	}
	if gen, why, ok := store.Pinned(); ok {
		past.Pinned = &Pin{gen, why}
	}
	past.Held, err = store.HeldAll()

	return past, explained(err)
}

// Generation is the chapter of one generation.
func (c Chronicle) Generation(n int) (Chapter, error) {
	i := slices.IndexFunc(c.Generations, func(x Chapter) bool { return x.Generation == n })
	if i < 0 {
		return Chapter{}, failure(fault.Usage, "there is no generation %d; prelet history lists those that are kept", n)
	}
	return c.Generations[i], nil
}

// Chronicle is what `history -o json` prints.
type Chronicle struct {
	FormatVersion int               `json:"format_version"`
	InPlace       int               `json:"in_place"` // 0: there never was one
	Pinned        *Pin              `json:"pinned"`   // chosen by hand: no plan is applied
	Held          map[string]string `json:"held"`     // plan → why it is not tried again
	Generations   []Chapter         `json:"generations"`
}

// Pin is a generation that was chosen by hand.
type Pin struct {
	Generation int    `json:"generation"`
	Why        string `json:"why"`
}

// Chapter is one generation.
type Chapter struct {
	Generation int        `json:"generation"`
	Time       time.Time  `json:"time,omitzero"`
	Status     string     `json:"status"`
	Why        string     `json:"why,omitempty"`
	Restores   *int       `json:"restores,omitempty"` // it went back to the contents of this one; 0 is as before prelet
	Plan       string     `json:"plan"`
	Files      []FileLine `json:"files"`
}

// FileLine is what a generation did to one file.
type FileLine struct {
	Path   string `json:"path"`
	Action string `json:"action"`
	Drift  bool   `json:"drift,omitempty"` // somebody had changed it since the generation before
	Secret bool   `json:"sensitive,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Why    string `json:"why,omitempty"`
}

func chapterOf(g generation.Info) Chapter {
	out := Chapter{Generation: g.Gen, Time: g.Time.UTC(), Status: string(g.Status), Why: g.Why, Plan: g.PlanID, Files: []FileLine{}}
	if g.Restores >= 0 {
		out.Restores = &g.Restores
	}
	for _, e := range g.Entries {
		f := FileLine{Path: e.Path, Action: string(e.Action), Drift: e.Drift, Secret: e.Secret, Why: e.Why}
		if !e.Secret { // even a hash would let somebody guess
			f.SHA256 = e.New.SHA256
		}
		out.Files = append(out.Files, f)
	}
	return out
}
