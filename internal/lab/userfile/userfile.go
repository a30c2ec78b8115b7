// Package userfile reads and writes the files that a user names on the command line. It limits the size of input, waits
// for no pipe or device, and replaces nothing but a regular file.
package userfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// ErrNotRegular is the error of a path that is not a regular file.
var ErrNotRegular = errors.New("not a regular file")

// Open opens a regular file for reading, and nothing else: opening a pipe would wait for its writer, and reading
// a file of /proc, such as kmsg, for what comes next. Each read of it ends within nodefile.Patience.
func Open(path string) (io.ReadCloser, error) {
	look, err := nodefile.Find(path, nodefile.FollowAll) // the user who typed the path may use links
	if err != nil {
		return nil, err
	}
	defer look.Close()
	if !look.Mode().IsRegular() {
		return nil, fmt.Errorf("it is a %s, %w", nodefile.KindOf(look.Mode()), ErrNotRegular)
	}

	f, err := look.Open()
	if err != nil {
		return nil, err
	}
	var mount unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &mount) == nil && mount.Type == unix.PROC_SUPER_MAGIC {
		_ = f.Close()
		return nil, ErrNotRegular
	}

	return boundedFile{f}, nil
}

// boundedFile is a file of which each read is bounded.
type boundedFile struct{ f *os.File }

func (b boundedFile) Close() error { return b.f.Close() }

// Read reads into a buffer of its own: a read that is given up may end later.
func (b boundedFile) Read(to []byte) (int, error) {
	text, err := nodefile.Within(b.f.Name(), func() ([]byte, error) {
		buffer := make([]byte, len(to))
		n, err := b.f.Read(buffer)

		return buffer[:n], err
	})

	return copy(to, text), err
}

// Kind returns the kind of a file for messages, as "a folder"; "" if it is unknown.
func Kind(path string) string {
	f, err := Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const head = 4096
	text, _ := io.ReadAll(io.LimitReader(f, head))

	return texts.KindOfNamed(path, text)
}

// MaxBytes bounds a file that a user gives as input, such as a --var-file, in bytes.
const MaxBytes = 1 << 20

// Read reads a regular file of at most limit bytes.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("it is larger than %d KiB", limit>>10)
	}

	return text, err
}

// ReadInput is Read with the error for a missing file that a user has named.
func ReadInput(path string, limit int64) ([]byte, error) {
	text, err := Read(path, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("no such file" + nodefile.SuggestBeside(path))
	}

	return text, err
}

// ReadSite reads a file of a site of at most limit bytes. why is set for a path that prelet does not read in a site:
// a symbolic link, or a file that is not regular, which might never end. A link to /dev/null masks a file of a later
// folder: it is empty.
func ReadSite(path string, limit int64) (src []byte, why string, err error) {
	st, err := nodefile.Lstat(path)
	if err != nil {
		return nil, "", err
	}
	if st.Mode()&fs.ModeSymlink != 0 {
		if to, err := nodefile.Readlink(path); err == nil && to == os.DevNull {
			return nil, "", nil
		}
		return nil, "is a link", nil
	}

	src, err = Read(path, limit)
	if errors.Is(err, ErrNotRegular) {
		return nil, "is not a regular file", nil
	}
	return src, "", err
}

// MakeFolder makes a folder and those above it. A file system that does not answer ends it: nothing waits for a write.
func MakeFolder(dir string) error {
	var hangs *nodefile.NoAnswerError
	if _, err := nodefile.Stat(dir); errors.As(err, &hangs) {
		return err
	}

	return os.MkdirAll(dir, 0o755)
}

// Create writes a new file, and the folders above it. For a file that exists already, the error is fs.ErrExist. A
// file that cannot be written to its end is removed, so that the next try can create it.
func Create(path string, content []byte) error {
	if err := MakeFolder(filepath.Dir(path)); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}

	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path) // the first error counts
	}
	return err
}

// WritePage writes a file that a user names, in one step and for its owner only, or to stdout for "-".
func WritePage(path string, stdout io.Writer, encode func(io.Writer) error) error {
	var err error
	if path == "-" {
		err = encode(stdout)
	} else {
		err = replaceNamed(path, 0o600, encode)
	}
	if errors.Is(err, ErrNotRegular) {
		err = fmt.Errorf("%w; standard output is -", err)
	}
	if err != nil {
		return &fault.Fault{Code: fault.CannotWrite, Summary: "Cannot write " + path, Err: err}
	}

	return nil
}

// replaceNamed writes a file that a user names, in one step. It replaces nothing but a file: as root, a report to
// /dev/null or /dev/stdout would break the machine for all programs.
func replaceNamed(path string, mode os.FileMode, write func(io.Writer) error) error {
	target, err := followNamed(path)
	if err != nil {
		return err
	}

	return atomicfile.With(target, mode, write)
}

// followNamed returns the file that a path names: behind a link, as shells follow it, the regular file at its end. The
// open files of a process, such as /dev/stdout, are not files that can be replaced.
func followNamed(path string) (string, error) {
	if _, err := nodefile.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	if leadsToProc(path) {
		return "", ErrNotRegular
	}
	look, err := nodefile.Find(path, nodefile.FollowTrusted)
	if err != nil {
		return "", fmt.Errorf("%w; name the file itself", err)
	}
	defer look.Close()

	target := look.Path()
	if !look.Mode().IsRegular() {
		return "", ErrNotRegular
	}
	mayWrite := func() (struct{}, error) { return struct{}{}, unix.Access(target, unix.W_OK) }
	if _, err := nodefile.Within(target, mayWrite); err != nil {
		return "", err
	}

	return target, nil
}

// leadsToProc reports whether a path is a link to a file of /proc, or to another such link.
func leadsToProc(path string) bool {
	const maxLinks = 40 // as the kernel's MAXSYMLINKS; nodefile.Find refuses a loop

	for range maxLinks {
		folder := filepath.Dir(path)
		mount, err := nodefile.Within(folder, func() (mount unix.Statfs_t, err error) {
			err = unix.Statfs(folder, &mount)
			return mount, err
		})
		if err == nil && mount.Type == unix.PROC_SUPER_MAGIC {
			return true
		}
		to, err := nodefile.Readlink(path)
		if err != nil {
			return false
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}

	return false
}

// WriteReport writes a file that the command line names for the results of a command, in one step.
func WriteReport(path string, content []byte) error {
	err := replaceNamed(path, 0o644, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
	if errors.Is(err, ErrNotRegular) {
		err = fmt.Errorf("%w; name a file, or leave it out", err)
	}
	if err != nil {
		return fault.CannotWrite.Errorf("%s: %s", path, err)
	}

	return nil
}
