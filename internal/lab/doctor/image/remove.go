package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe/kubeletbin"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// generations is removed after all others, and at once: any other leftover shows that prelet has run, and only the
// generations list the files that it wrote.
const generations = "/var/lib/prelet/generations"

// Cache is the only file of prelet's folder that an image may have.
const Cache = "/var/lib/prelet/" + kubeletbin.CacheFile

// Remove removes leftovers, in their order but for the generations, and makes each durable before the next. It returns
// those that it removed, also with an error, whose fault has the code CannotWrite or Interrupted. A leftover that is
// missing is not an error, so that a second call completes an interrupted one.
func Remove(
	ctx context.Context,
	root nodefile.Root,
	all []Leftover,
) (done []Leftover, err error) {
	dir, err := openRoot(root)
	if err != nil {
		return nil, err
	}
	defer dir.Close()

	all = slices.SortedStableFunc(slices.Values(all), func(a, b Leftover) int {
		return cmp.Compare(strings.Count(a.Path, generations), strings.Count(b.Path, generations))
	})
	for _, l := range all {
		if !l.Action.IsRemoved() {
			continue
		}
		if ctx.Err() != nil {
			return done, &fault.Fault{
				Code:    fault.Interrupted,
				Summary: fmt.Sprintf("stopped by a signal before %s was removed", l.Path),
				Next:    "Run the command again: it removes the rest",
			}
		}
		if err := removeOne(dir, l); err != nil {
			return done, cannotWrite(root, l.Path, err)
		}
		done = append(done, l)
	}

	return done, nil
}

func openRoot(root nodefile.Root) (*os.Root, error) {
	dir, err := os.OpenRoot(root.Path("/"))
	if err != nil {
		return nil, &fault.Fault{Code: fault.CannotWrite, Summary: "the root of the image cannot be opened", Err: err}
	}

	return dir, nil
}

// removeOne removes or empties one file or folder, and syncs the folder above it.
func removeOne(dir *os.Root, l Leftover) error {
	name := strings.TrimPrefix(l.Path, "/")
	if l.Action == Empty {
		return emptyFile(dir, name)
	}
	if l.Path == generations {
		aside := name + ".removed"
		err := errors.Join(dir.RemoveAll(aside), dir.Rename(name, aside), syncFolder(dir, path.Dir(name)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		name = aside
	}
	if err := dir.RemoveAll(name); err != nil {
		return err
	}

	return syncFolder(dir, path.Dir(name))
}

// emptyFile empties a file in place, which keeps its labels. A file with other names, as in an image that is a copy of
// another by hard links, is replaced, so that those keep their content.
func emptyFile(dir *os.Root, name string) error {
	st, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if s, ok := st.Sys().(*syscall.Stat_t); ok && s.Nlink > 1 {
		return replaceFile(dir, name, st.Mode().Perm(), nil)
	}

	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}

	return errors.Join(f.Sync(), f.Close())
}

// WriteFile replaces a file of the image with mode 0644, durably. Its folder is made with mode 0755 if it is missing.
func WriteFile(root nodefile.Root, file string, text []byte) error {
	dir, err := openRoot(root)
	if err != nil {
		return err
	}
	defer dir.Close()

	name := strings.TrimPrefix(file, "/")
	err = makeFolder(dir, path.Dir(name))
	if err == nil {
		err = replaceFile(dir, name, 0o644, text)
	}
	if err != nil {
		return cannotWrite(root, file, err)
	}

	return nil
}

// makeFolder makes a folder with mode 0755, whatever the umask, unless it exists.
func makeFolder(dir *os.Root, name string) error {
	err := dir.Mkdir(name, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = dir.Chmod(name, 0o755)
	}
	if err == nil {
		err = syncFolder(dir, path.Dir(name))
	}

	return err
}

// replaceFile replaces a file durably, with this mode, whatever the umask. A temporary file that an earlier call has
// left is removed.
func replaceFile(dir *os.Root, name string, mode fs.FileMode, text []byte) error {
	temporary := name + ".tmp"
	if err := dir.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}

	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = dir.Rename(temporary, name)
	}
	if err == nil {
		err = syncFolder(dir, path.Dir(name))
	}

	return err
}

func syncFolder(dir *os.Root, name string) error {
	f, err := dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}

	return errors.Join(f.Sync(), f.Close())
}

// cannotWrite returns the fault of a path that cannot be changed, with the next step.
func cannotWrite(root nodefile.Root, file string, err error) error {
	f := &fault.Fault{
		Code:    fault.CannotWrite,
		Summary: file + " cannot be changed",
		Err:     errors.New(nodefile.Reason(err)), // without the path on this machine
	}
	f.Next = "Repair this path, and run the command again, which completes what this one began"
	switch {
	case errors.Is(err, unix.EROFS):
		f.Next = "Mount the image read-write, and run the command again"
	case errors.Is(err, unix.EPERM) && os.Geteuid() == 0:
		f.Next = "It may be immutable: lsattr " + root.Word(file) + ", chattr -i; then run the command again"
	case errors.Is(err, fs.ErrPermission):
		f.Next = "Run the command as root"
	}

	return f
}
