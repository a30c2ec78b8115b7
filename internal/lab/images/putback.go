package images

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/prelet/prelet/internal/lab/doctor/image"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/generation"
)

// The next machine would take a file of this one's plan for a file of the image, and start from it.
const whyWritten = "prelet wrote it for the machine that made the image, and the next one would take it for a file " +
	"of the image"

func (i *OpenedImage) storeOptions() generation.StoreConfig {
	return generation.StoreConfig{Root: i.where.Root, Dir: i.where.StateDir()}
}

// findWritten returns the files that the generation in place wrote and that are not as before prelet, and what seal
// does with each. During an interrupted commit they are not known: isInterrupted.
func (i *OpenedImage) findWritten() (out []image.Leftover, isInterrupted bool, err error) {
	store, err := generation.OpenReadOnly(i.storeOptions())
	if err != nil {
		return nil, false, ignoreDenied(err)
	}
	defer store.Close()

	if a := store.FindAside(); a != nil {
		return []image.Leftover{i.describeAside(a)}, false, nil
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

// describeAside returns that it is not known which files prelet wrote, until a person removes the state that could not
// be trusted: this says that they are as the image should have them.
func (i *OpenedImage) describeAside(a *generation.Aside) image.Leftover {
	l := newWritten(machine.StateFolder, image.ByHand)
	copied := machine.StateFolder
	if a.Path != "" {
		copied = path.Join(machine.StateFolder, path.Base(a.Path))
	}
	l.Why = "which files prelet wrote before is not known, because the state folder cannot be trusted: " + a.Why
	l.Do = "when the files that prelet wrote are as the image should have them: rm -r " + i.in.Root.Word(copied)

	return l
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
func (i *OpenedImage) describeWritten(e generation.Entry, made generation.FileState) (l image.Leftover, isLeft bool) {
	l = newWritten(e.Path, image.Restore)
	isNew := e.Original.Kind == generation.Absent
	switch {
	case e.HasChange():
		return l, true
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

// putBack restores the files from before prelet, as a rollback to 0 does, in one commit: after an interruption the next
// seal finishes it. It returns the files that are as before prelet now.
func (i *OpenedImage) putBack(ctx context.Context) (done []image.Leftover, err error) {
	if len(i.written) == 0 {
		return nil, nil
	}

	// First the files that were written only once: the generation that puts the others back does not know them.
	once, err := image.Remove(ctx, i.in.Root, i.written)
	if err != nil {
		return nil, err
	}
	restored := slices.DeleteFunc(slices.Clone(i.written), func(l image.Leftover) bool {
		return l.Action != image.Restore
	})
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
	ctx, cancel := context.WithTimeout(ctx, machine.LockTimeout)
	defer cancel()
	store, err := generation.Open(ctx, i.storeOptions())
	if err != nil {
		return err
	}
	defer store.Close()

	return f(store)
}
