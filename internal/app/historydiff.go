package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/app/compare"
	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// planBlob is the name of the plan in a generation.
const planBlob = "plan.json"

// InPlace is the generation in place, as an argument of HistoryDiff.
const InPlace = 0

// HistoryDiff compares two generations of this node, or of those below a root: what differs, and why. to may be
// InPlace. A part of a generation that is missing or damaged is named, and the others are compared.
func (e *Env) HistoryDiff(ctx context.Context, root string, from, to int) (compare.Difference, error) {
	store, err := e.openHistory(ctx, root)
	if err != nil {
		return compare.Difference{}, err
	}
	defer store.Close()

	all, err := store.List()
	if err != nil {
		return compare.Difference{}, addMessages(err)
	}
	if to == InPlace && len(all) > 0 {
		to = all[len(all)-1].Gen
	}

	var found [2]compare.Generation
	for n, number := range []int{from, to} {
		i := slices.IndexFunc(all, func(g generation.Info) bool { return g.Gen == number })
		if i < 0 {
			return compare.Difference{}, failure(fault.Usage,
				"generation %d does not exist; prelet history lists the kept ones", number)
		}
		found[n] = e.readGeneration(ctx, store, all[i])
	}

	return compare.Generations(found[0], found[1]), nil
}

// openHistory opens the generations of this node, or of those below a root, for reading. The caller closes the store.
func (e *Env) openHistory(ctx context.Context, root string) (*generation.Store, error) {
	w := Where{Root: root}
	if err := w.check(); err != nil {
		return nil, err
	}

	o := generation.Options{Root: w.Root, Dir: w.stateDir()}
	if w.Root == "" {
		h := e.host(ctx)
		defer h.Units.Close()
		o = h.storeOptions()
	}
	store, err := generation.OpenReadOnly(o)

	return store, addMessages(err)
}

// readGeneration reads what is kept of a generation.
func (e *Env) readGeneration(ctx context.Context, store *generation.Store, g generation.Info) compare.Generation {
	out := compare.Generation{Number: g.Gen, Time: g.Time.UTC()}
	report := func(format string, args ...any) {
		out.Problems = append(out.Problems, fmt.Sprintf("generation %d: ", g.Gen)+fmt.Sprintf(format, args...))
	}
	if g.Status == generation.StatusDamaged {
		report("%s", g.Why)
		out.IsDamaged = true
		return out
	}
	if g.Restores == 0 {
		report("it has the files as before prelet, so it has no plan")
	}

	for _, entry := range g.Entries {
		if f, ok := readManagedFile(store, g, entry, report); ok {
			out.Files = append(out.Files, f)
		}
	}
	if g.Restores != 0 {
		out.Node = readStoredNode(store, g.Gen, report)
		out.Recording = readStoredRecording(store, g.Gen, report)
	}
	if out.Recording != nil {
		out.Run = e.replay(ctx, out.Recording)
	}

	return out
}

// readManagedFile reads a file as a generation wrote it; ok is false if the generation does not have it.
func readManagedFile(
	store *generation.Store, g generation.Info, e generation.Entry, report func(string, ...any),
) (f compare.File, ok bool) {
	if e.Dropped || e.New.Kind == generation.Absent || slices.Contains(g.Retired, e.Path) {
		return f, false
	}

	const forOthers = 0o044
	f = compare.File{
		Path:      e.Path,
		IsDir:     e.New.Kind == generation.Dir,
		Mode:      uint32(e.New.Mode),
		UID:       e.New.UID,
		GID:       e.New.GID,
		SHA256:    e.New.SHA256,
		Sensitive: e.Secret,
		Private:   e.New.Mode&forOthers == 0,
	}
	if f.IsDir || f.Sensitive || f.Private {
		return f, true
	}

	text, err := store.Content(e.New.SHA256)
	if err != nil {
		report("%s: %s", e.Path, err)
		return f, true
	}
	f.Content = append([]byte{}, text...)

	return f, true
}

// readStoredNode reads the plan of a generation; nil if it cannot be read.
func readStoredNode(store *generation.Store, gen int, report func(string, ...any)) *node.Stored {
	text, err := store.Blob(gen, planBlob)
	if err != nil {
		report("its plan cannot be read: %s", err)
		return nil
	}

	var doc struct {
		Node json.RawMessage `json:"node"`
	}
	err = json.Unmarshal(text, &doc)
	if err == nil {
		var n node.Stored
		if n, err = node.ParseCanonical(doc.Node); err == nil {
			return &n
		}
	}
	report("its plan is damaged: %s", err)

	return nil
}

// readStoredRecording reads the recording of a generation; nil if it cannot be read.
func readStoredRecording(store *generation.Store, gen int, report func(string, ...any)) *world.Recording {
	text, err := store.Blob(gen, world.RecordingBlob)
	if err != nil {
		report("its recording cannot be read, so the causes are not known: %s", err)
		return nil
	}

	r, err := world.Decode(bytes.NewReader(text))
	if err != nil {
		report("its recording is damaged, so the causes are not known: %s", strings.TrimSuffix(err.Error(), "."))
		return nil
	}

	return r
}

// replay plans a recording again; nil if its site is not valid for this version.
func (e *Env) replay(ctx context.Context, r *world.Recording) *boot.Plan {
	site, diags := lang.Parse(r.Header.Site, siteOptions(e.Version))
	if diags.HasErrors() {
		return nil
	}
	o := boot.Options{Source: r.Source()}
	if e.Redactor != nil {
		o.Redact = e.Redactor.String
	}

	return boot.Run(ctx, site, o)
}
