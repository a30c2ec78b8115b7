package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/tape"
)

// ReadHistory lists the generations of this node, or of those below a root.
func ReadHistory(ctx context.Context, e *machine.Env, root string) (History, error) {
	past := History{FormatVersion: 1, Generations: []HistoryEntry{}}
	store, err := openHistory(ctx, e, root)
	if err != nil {
		return past, err
	}
	defer store.Close()

	all, err := store.List()
	if err != nil {
		return past, err
	}
	for _, g := range all {
		past.InPlace = g.Gen // the last
		past.Generations = append(past.Generations, newHistoryEntry(g))
	}
	if n := len(past.Generations); n > 0 {
		past.Generations[n-1].addVerdict(e, root)
	}
	if gen, why, ok := store.Pinned(); ok {
		past.Pinned = &Pin{gen, why}
	}
	past.Held, err = store.HeldAll()

	return past, err
}

// Generation returns one generation of this node, or of those below a root.
func Generation(ctx context.Context, e *machine.Env, root string, n int) (HistoryEntry, error) {
	store, err := openHistory(ctx, e, root)
	if err != nil {
		return HistoryEntry{}, err
	}
	defer store.Close()

	all, err := store.List()
	if err != nil {
		return HistoryEntry{}, err
	}
	i, err := findGeneration(all, n)
	if err != nil {
		return HistoryEntry{}, err
	}

	out := newHistoryEntry(all[i])
	if recording, err := tape.ReadKept(store, n); err == nil {
		out.Pulled = recording.Header.Pulled
	}

	return out, nil
}

// History is the document of `history -o json`.
type History struct {
	FormatVersion int               `json:"format_version"`
	InPlace       int               `json:"in_place"` // 0: there is none
	Pinned        *Pin              `json:"pinned"`   // by prelet rollback: no plan is applied
	Held          map[string]string `json:"held"`     // plan → why it is not tried again
	Generations   []HistoryEntry    `json:"generations"`
}

// Pin is a pinned generation.
type Pin struct {
	Generation int    `json:"generation"`
	Why        string `json:"why"`
}

// HistoryEntry is one generation in the documents of `history`.
type HistoryEntry struct {
	Generation int        `json:"generation"`
	Time       time.Time  `json:"time,omitzero"`
	Status     string     `json:"status"`
	Unjudged   bool       `json:"unjudged,omitempty"` // good, and made below a root, where no kubelet is judged
	Why        string     `json:"why,omitempty"`
	Restores   *int       `json:"restores,omitempty"` // the generation whose contents it has again; 0: as before prelet
	Plan       string     `json:"plan"`
	Files      []FileLine `json:"files"`
	// Pulled is the pulled layer of its site; nil if it has none, or if its recording cannot be read, and in a list.
	Pulled *tape.Pulled `json:"pulled,omitempty"`

	IsBad bool `json:"-"` // judged bad in this boot, and judged again: the status is pending
}

// FileLine is the change of one file by a generation.
type FileLine struct {
	Path   string `json:"path"`
	Action string `json:"action"`
	Drift  bool   `json:"drift,omitempty"` // it was changed since the generation before
	Secret bool   `json:"sensitive,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Why    string `json:"why,omitempty"`
}

func newHistoryEntry(g generation.Info) HistoryEntry {
	out := HistoryEntry{
		Generation: g.Gen,
		Time:       g.Time.UTC(),
		Status:     string(g.Status),
		Unjudged:   g.Unjudged,
		Why:        g.Why,
		Plan:       g.PlanID,
		Files:      ListFiles(g.Entries),
	}
	if g.Restores >= 0 {
		out.Restores = &g.Restores
	}

	return out
}

// addVerdict adds that the generation in place was judged bad in this boot. Where it stays, it is judged again, so that
// only the report has the verdict.
func (c *HistoryEntry) addVerdict(e *machine.Env, root string) {
	h, err := e.HostOf(root, false)
	if err != nil {
		return
	}
	defer h.Units.Close()
	s, err := h.LoadReport()
	isJudged := err == nil && s.BootID == h.BootID && s.Generation == c.Generation
	if isJudged && s.Verdict == activation.Bad && c.Status == string(generation.StatusPending) {
		c.IsBad = true
		c.Why = s.Why
	}
}

// ListFiles returns the changes of files by a generation.
func ListFiles(entries []generation.Entry) []FileLine {
	out := []FileLine{}
	for _, e := range entries {
		f := FileLine{
			Path:   e.Path,
			Action: string(e.Action),
			Drift:  e.Drift && !e.Old.IsUnreadable(),
			Secret: e.Secret,
			Why:    e.Why,
		}
		if !e.Secret { // a hash would allow guessing
			f.SHA256 = e.New.SHA256
		}
		out = append(out, f)
	}
	return out
}

// Newest returns the generations, the newest first.
func (h History) Newest() []HistoryEntry {
	out := slices.Clone(h.Generations)
	slices.Reverse(out)

	return out
}

// Words returns the status for people.
func (c HistoryEntry) Words() string {
	switch {
	case c.Status == string(generation.StatusRolledBack):
		return "rolled back"
	case c.Unjudged:
		return "not judged"
	case c.IsBad:
		return "bad"
	}

	return c.Status
}

// Changed returns the number of files that a generation changed.
func (c HistoryEntry) Changed() (n int) {
	for _, f := range c.Files {
		if f.Action != string(generation.ActionNone) && f.Action != string(generation.ActionKeep) {
			n++
		}
	}

	return n
}

// Origin returns why a generation was made or left; "" for an ordinary one.
func (c HistoryEntry) Origin() string {
	var out []string
	if c.Restores != nil && *c.Restores == 0 {
		out = append(out, "as before prelet")
	} else if c.Restores != nil {
		out = append(out, fmt.Sprintf("contents of %d", *c.Restores))
	}
	if c.Why != "" {
		out = append(out, c.Why)
	}

	return strings.Join(out, "; ")
}
