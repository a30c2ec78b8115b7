package images

import (
	"cmp"
	"context"
	"errors"
	"io/fs"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/commit"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/doctor/image"
	"github.com/prelet/prelet/internal/platform/machineid"
)

// The next machine would take a file of this one's plan for a file of the image, and start from it.
const whyWritten = "prelet wrote it for the machine that made the image, and the next one would take it for a file " +
	"of the image"

// storeOptions returns the location of the generations of the image.
func (i *OpenedImage) storeOptions() generation.Options {
	return generation.Options{Root: i.where.Root, Dir: i.where.StateDir()}
}

// findWritten returns the files that the generation in place wrote and that are not as before prelet, and what seal
// does with each. During an interrupted commit they are not known: isInterrupted.
func (i *OpenedImage) findWritten() (out []image.Leftover, isInterrupted bool, err error) {
	store, err := generation.OpenReadOnly(i.storeOptions())
	if err != nil {
		return nil, false, ignoreDenied(err)
	}
	defer store.Close()

	if why, err := store.Lost(machineid.AcceptedFile, app.LastGoodFile); why != "" || err != nil {
		return i.describeLost(store, why), false, ignoreDenied(err)
	}
	j, err := store.Journal()
	if err != nil || j.IsUnfinished() {
		return nil, j.IsUnfinished(), ignoreDenied(err)
	}
	current, err := store.Current()
	if err != nil || current == nil {
		return nil, false, ignoreDenied(err)
	}
	c, err := store.Compare(generation.Proposal{})
	if err = cmp.Or(activation.Newer(store), err); err != nil {
		return nil, false, err
	}

	for _, e := range c.Entries {
		was, _ := current.Entry(e.Path)
		if l, isLeft := i.describeWritten(e, was.New); isLeft {
			out = append(out, l)
		}
	}

	return out, false, nil
}

// ignoreDenied returns nil for a state folder that this user may not read: the table of leftovers reports it.
func ignoreDenied(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}

	return err
}

func newWritten(file string, action image.Action) image.Leftover {
	return image.Leftover{
		Path:   file,
		Check:  "state",
		Why:    whyWritten,
		Action: action,
	}
}

// stateFolder is prelet's own folder.
const stateFolder = "/var/lib/prelet"

// describeLost returns what a person must change if it is not known what prelet wrote, or what was before it: the files
// that readable generations list, those that the site writes, and at last the state folder, whose removal says that the
// others are as the image should have them, which only a person knows. without says why it is not known; "" that it is.
func (i *OpenedImage) describeLost(store *generation.Store, without string) (out []image.Leftover) {
	if without == "" {
		return nil
	}

	isListed := map[string]bool{}
	for _, e := range store.ListWritten() {
		isListed[e.Path] = true
		now, _, err := store.Observe(e.Path)
		if err == nil && (now.Kind == generation.Absent || now.Equal(e.Original)) {
			continue
		}
		l := newWritten(e.Path, image.ByHand)
		l.Do = i.removalOf(e)
		if e.Original.Kind != generation.Absent {
			l.Why += "; what was before prelet cannot be put back: " + without
			l.Do = "make it as the image should have it"
		}
		out = append(out, l)
	}

	known := "which files prelet wrote is not known"
	if len(isListed) > 0 {
		known = "whether prelet wrote other files than those of the generations that can be read is not known"
	}
	for _, file := range i.usual {
		now, _, err := store.Observe(file)
		if isListed[file] || err == nil && now.Kind == generation.Absent {
			continue
		}
		l := newWritten(file, image.ByHand)
		l.Why = "the site may have written it: " + known
		l.Do = "if the image had none before prelet: rm " + i.in.Root.Word(file) +
			"; else make it as the image should have it"
		out = append(out, l)
	}
	last := newWritten(stateFolder, image.ByHand)
	last.Why = known + ": " + without
	last.Do = "when the files that prelet wrote are as the image should have them: rm -r " + i.in.Root.Word(stateFolder)

	return append(out, last)
}

// removalOf returns the command that removes what prelet made.
func (i *OpenedImage) removalOf(e generation.Entry) string {
	if e.New.Kind == generation.Dir {
		return "rmdir " + i.in.Root.Word(e.Path)
	}

	return "rm " + i.in.Root.Word(e.Path)
}

// describeWritten returns a file that is not as before prelet. e is its entry in a comparison without any target, and
// made is the state that the generation in place gave it.
func (i *OpenedImage) describeWritten(e generation.Entry, made generation.State) (l image.Leftover, isLeft bool) {
	l = newWritten(e.Path, image.Restore)
	isNew := e.Original.Kind == generation.Absent
	switch {
	case e.HasChange():
		return l, true
	case e.Adopted != 0 && !e.CreateOnly:
		l.Do = "make it as the image should have it, and then rm -r " + i.in.Root.Word(stateFolder)
	case e.Action != generation.ActionKeep, e.Old.Equal(e.Original), e.CreateOnly && !isNew:
		return l, false
	case e.CreateOnly && e.Old.Equal(made):
		l.Action = image.Delete
		return l, true
	case isNew:
		l.Do = i.removalOf(e)
	default:
		l.Do = "prelet run writes it again; then seal puts back what was before prelet"
	}
	l.Action = image.ByHand
	if e.Why != "" {
		l.Why += "; what was before prelet cannot be put back: " + e.Why
	}

	return l, true
}

// putBack restores what was before prelet, as a rollback to 0 does, in one commit: after an interruption the next seal
// finishes it. It returns the files that are as before prelet now.
func (i *OpenedImage) putBack(ctx context.Context) (done []image.Leftover, err error) {
	if len(i.written) == 0 {
		return nil, nil
	}

	// First the files that were written only once: the generation that puts the others back does not know them.
	once, err := image.Remove(ctx, i.in.Root, i.written)
	if err != nil {
		return nil, err
	}
	restored := selectActions(i.written, isRestored)
	if len(restored) > 0 {
		err = i.withStore(ctx, func(s *generation.Store) error {
			_, _, err := commit.RollBackBelowRoot(s, 0, "sealed")
			return err
		})
	}
	i.look()

	return append(once, restored...), err
}

// withStore calls f with the generations of the image, under their lock.
func (i *OpenedImage) withStore(ctx context.Context, f func(*generation.Store) error) error {
	ctx, cancel := context.WithTimeout(ctx, app.LockTimeout)
	defer cancel()
	store, err := generation.Open(ctx, i.storeOptions())
	if err != nil {
		return err
	}
	defer store.Close()

	return f(store)
}
