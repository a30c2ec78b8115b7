package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/compare"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// InPlace is the generation in place, as an argument of HistoryDiff.
const InPlace = 0

// HistoryDiff compares two generations of this node, or of those below a root: what differs, and why. to may be
// InPlace. A part that a generation does not have, or that cannot be read while another process changes the store, is
// named, and the others are compared. A damaged store has no generation.
func HistoryDiff(
	ctx context.Context, e *machine.Env,
	root string,
	from, to int,
) (compare.Difference, error) {
	store, err := openHistory(ctx, e, root)
	if err != nil {
		return compare.Difference{}, err
	}
	defer store.Close()

	all, err := store.List()
	if err != nil {
		return compare.Difference{}, err
	}
	if to == InPlace && len(all) > 0 {
		to = all[len(all)-1].Gen
	}

	r := historyReader{env: e, store: store, all: all}
	for _, number := range []int{from, to} {
		i, err := findGeneration(all, number)
		if err != nil {
			return compare.Difference{}, err
		}
		r.addPaths(all[i])
		r.places = append(r.places, i)
	}

	before := r.read(ctx, r.places[0])
	after := r.read(ctx, r.places[1])
	after.Known = r.listOverwritten(r.places[0], r.places[1])

	return compare.Generations(before, after), nil
}

func findGeneration(all []generation.Info, number int) (int, error) {
	i := slices.IndexFunc(all, func(g generation.Info) bool { return g.Gen == number })
	if i < 0 {
		return 0, fault.Usage.Errorf("generation %d does not exist; prelet history lists the kept ones", number)
	}

	return i, nil
}

// openHistory opens the generations of this node, or of those below a root, for reading. The caller closes the store.
func openHistory(ctx context.Context, e *machine.Env, root string) (*generation.Store, error) {
	h, err := e.HostOf(root, false)
	if err != nil {
		return nil, err
	}
	defer h.Units.Close()
	store, err := generation.OpenReadOnly(h.StoreOptions())
	if err == nil {
		e.SayError(activation.Newer(store))
		if over := store.StartsOver(); over != nil {
			e.Say(over.String())
		}
	}

	return store, err
}

// historyReader reads generations for a comparison.
type historyReader struct {
	env    *machine.Env
	store  *generation.Store
	all    []generation.Info
	places []int    // of the compared generations in all
	paths  []string // that one of them manages
}

func (r *historyReader) addPaths(g generation.Info) {
	for _, e := range g.Entries {
		if isManaged(g, e) && !slices.Contains(r.paths, e.Path) {
			r.paths = append(r.paths, e.Path)
		}
	}
}

func isManaged(g generation.Info, e generation.Entry) bool {
	return !e.Dropped && e.New.Kind != generation.Absent && !slices.Contains(g.Retired, e.Path)
}

// reportFunc takes what cannot be compared.
type reportFunc = func(format string, args ...any)

// read reads the kept files of the generation at a place.
func (r *historyReader) read(ctx context.Context, place int) compare.Generation {
	g := r.all[place]
	out := compare.Generation{Number: g.Gen, Time: g.Time.UTC()}
	report := func(format string, args ...any) {
		problem := fmt.Sprintf(format, args...)
		out.Problems = append(out.Problems, fmt.Sprintf("generation %d: %s", g.Gen, problem))
	}
	switch {
	case g.Restores == 0:
		report("it has the files as before prelet, so it has no plan")
		out.Rollback = "the rollback to the state before prelet"
	case g.Restores > 0:
		out.Rollback = fmt.Sprintf("the rollback to generation %d", g.Restores)
	}

	out.Files = map[string]*compare.FileView{}
	for _, path := range r.paths {
		if f := r.readFile(place, path, report); f != nil {
			out.Files[path] = f
		}
	}
	if g.Restores != 0 {
		plan, err := desired.ReadStoredPlan(r.store, g.Gen)
		if err == nil {
			out.Items = compare.ItemsOf(plan.Node)
			for _, f := range plan.Node.Flags {
				r.env.HideFlag(f[0], f[1])
			}
		} else {
			report("its plan cannot be read: %s", err)
		}
		if out.Recording, err = tape.ReadKept(r.store, g.Gen); err != nil {
			why := strings.TrimSuffix(err.Error(), ".")
			report("its recording cannot be read, so the causes are not known: %s", why)
		} else {
			out.Run = replay(ctx, r.env, out.Recording)
		}
	}

	return out
}

// listOverwritten returns how somebody had changed the files that the generations behind one place, up to a later one,
// wrote over.
func (r *historyReader) listOverwritten(from, to int) map[string]evaluate.FileChange {
	out := map[string]evaluate.FileChange{}
	for place := from + 1; place <= to; place++ {
		for _, e := range r.all[place].Entries {
			if !e.Drift || !e.HasChange() {
				continue
			}
			_, made, _ := r.findState(place-1, e.Path)
			drift := cmp.Or(made.DescribeDrift(e.Old), "somebody had changed it")
			out[e.Path] = evaluate.FileChange{Drift: drift}
		}
	}

	return out
}

// readFile reads a file as a generation wrote or left it; nil if it did not exist then.
func (r *historyReader) readFile(place int, path string, report reportFunc) *compare.FileView {
	s, e, left := r.findState(place, path)
	if left == "release" {
		return &compare.FileView{Left: left, Hidden: compare.Foreign}
	}
	if s.Kind == generation.Absent {
		return nil
	}

	f := &compare.FileView{
		Left:    left,
		Meta:    compare.DescribeMeta(uint32(s.Mode), fmt.Sprintf("%d:%d", s.UID, s.GID)),
		Content: s.SHA256,
	}
	switch {
	case s.Kind == generation.Dir:
		f.Meta = "directory " + f.Meta
	case e.Secret:
		f.Hidden = compare.Secret
	case !r.store.IsPublic(path, s):
		f.Hidden = compare.Private
	case left != "":
		f.Hidden = compare.Foreign
	default:
		text, err := r.store.Content(s.SHA256)
		if err != nil {
			report("%s: %s", path, err)
			f.Hidden = compare.Lost
			break
		}
		f.Content = string(text)
		r.env.Redactor.HideEvident(f.Content) // a diff may begin in the middle of a key
		r.env.HideFlagsOf(f.Content)
		r.env.HideHeadersOf(f.Content)
	}

	return f
}

// findState returns the state of a file in the generation at a place, and the entry that has it. left is "" for a file
// that the generation manages, else what prelet did with it, as in compare.FileView. A file is released by the last
// earlier entry of its path; before the first one it is as that one found it.
func (r *historyReader) findState(place int, path string) (s generation.FileState, e generation.Entry, left string) {
	absent := generation.FileState{Kind: generation.Absent}
	for i := place; i >= 0; i-- {
		e, ok := r.all[i].Entry(path)
		switch {
		case !ok:
		case slices.Contains(r.all[i].Retired, path):
			return absent, e, "delete"
		case e.Dropped && e.Action == generation.ActionRestore:
			return e.New, e, "restore"
		case e.Dropped:
			return e.New, e, "keep"
		case i == place:
			return e.New, e, ""
		default:
			return absent, e, "release" // by a generation that is not kept
		}
	}
	for _, g := range r.all[place+1:] {
		if e, ok := g.Entry(path); ok {
			return e.Old, e, "restore"
		}
	}

	return absent, e, "release"
}

// replay plans a recording again; nil if its site is not valid for this version.
func replay(ctx context.Context, e *machine.Env, r *tape.Recording) *evaluate.Plan {
	n := lab.OpenWorld(e, &lab.Given{}, r, nil)
	if n.Found.HasErrors() {
		return nil
	}
	n.Options.Explains = true

	return n.Plan(ctx, nil)
}
