package hardware

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jaypipes/ghw"
)

// libraryOptions restrict ghw to reading below root, without starting programs. It logs into log.
func libraryOptions(root string, log slog.Handler) []any {
	return []any{
		context.Background(), // keeps ghw from reading options from the environment
		ghw.WithChroot(root),
		ghw.WithDisableTools(),
		ghw.WithDisableTopology(),
		ghw.WithLogger(slog.New(log)),
	}
}

// callWithin calls f, and abandons it after the patience or when the context ends. A panic of f is returned as an
// error.
func callWithin[T any](d *detection, name string, f func() (T, error)) (T, error) {
	type response struct {
		result T
		err    error
	}

	responses := make(chan response, 1)

	go func() {
		var r response

		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("%s panicked: %v", name, p)
			}

			responses <- r
		}()

		r.result, r.err = f()
	}()

	timer := time.NewTimer(d.patience)
	defer timer.Stop()

	var none T

	select {
	case r := <-responses:
		return r.result, r.err
	case <-timer.C:
		return none, fmt.Errorf("%s did not answer within %v", name, d.patience)
	case <-d.ctx.Done():
		return none, fmt.Errorf("%s did not answer in time: %w", name, context.Cause(d.ctx))
	}
}

// callLibrary calls a function of ghw, and returns its result and its warnings. On a recorded machine ghw reads
// copies of the files that match the patterns. ghw takes no context, so a call that hangs is abandoned; its
// result is nil then.
func callLibrary[T any](
	d *detection, call func(...any) (*T, error), patterns ...string,
) (result *T, warnings []string, err error) {
	root := "/"

	if !d.live {
		d.copyFiles(patterns...)
		if d.copyErr != nil {
			return nil, nil, d.copyErr
		}

		root = d.copy.Name()
	}

	// An abandoned call may log later, so the warnings are passed with the result.
	type response struct {
		result   *T
		warnings []string
	}

	r, err := callWithin(d, "ghw", func() (response, error) {
		log := &warningLog{}
		result, err := call(libraryOptions(root, log)...)

		return response{result, log.unexpected(root)}, err
	})

	return r.result, r.warnings, err
}

// noteWarnings notes the warnings of ghw while it read a fact.
func (d *detection) noteWarnings(fact string, warnings []string) {
	for _, warning := range warnings {
		d.note(fact, "ghw: "+warning)
	}
}

// expectedWarnings are the beginnings of messages of ghw that are not noted.
var expectedWarnings = []string{
	"topology detection disabled",    // libraryOptions disables it
	"Unable to read ",                // noteFirmware notes the file
	"failed to read int from file: ", // blockDevice notes the file
}

// warningLog is a slog.Handler that collects the messages of ghw, which it would otherwise print to standard error.
type warningLog struct{ messages []string }

// unexpected returns all messages but expectedWarnings, with file names below root.
func (w *warningLog) unexpected(root string) []string {
	var list []string

	prefix := strings.TrimSuffix(root, "/") + "/"

	for _, message := range w.messages {
		isExpected := slices.ContainsFunc(expectedWarnings, func(beginning string) bool {
			return strings.HasPrefix(message, beginning)
		})
		if !isExpected {
			list = append(list, strings.ReplaceAll(message, prefix, "/"))
		}
	}

	return list
}

// Enabled implements slog.Handler.
func (*warningLog) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// Handle implements slog.Handler.
func (w *warningLog) Handle(_ context.Context, record slog.Record) error {
	w.messages = append(w.messages, record.Message)
	return nil
}

// WithAttrs implements slog.Handler.
func (w *warningLog) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup implements slog.Handler.
func (w *warningLog) WithGroup(string) slog.Handler { return w }

// scratchParent returns the folder for copies of a recorded machine: TMPDIR. If that is not set, it is /dev/shm,
// which is memory and twice as fast as a disk, or /tmp if /dev/shm does not exist.
func scratchParent() string {
	const memory = "/dev/shm"

	info, err := os.Stat(memory)
	if os.Getenv("TMPDIR") == "" && err == nil && info.IsDir() {
		return memory
	}

	return os.TempDir()
}

// Limits of the copy of a recorded machine that ghw reads.
const (
	maxCopyBytes = 64 << 20
	maxCopyFiles = 100_000
)

func makeScratchFolder() (string, error) {
	folder, err := os.MkdirTemp(scratchParent(), "prelet-hardware-")
	return folder, copyError(err)
}

// copyError returns the error of writing files of a recorded machine. It contains the folder and the next step,
// without the name of the file, which is random.
func copyError(err error) error {
	if err == nil {
		return nil
	}

	next := ""

	var errno syscall.Errno
	if errors.As(err, &errno) && slices.Contains(folderErrors, errno) {
		next = "; set TMPDIR to a folder with room"
	}

	return fmt.Errorf("the recorded hardware cannot be copied to %s (%w%s)", scratchParent(), withoutName(err), next)
}

// folderErrors are errors that another folder may not have.
var folderErrors = []syscall.Errno{
	syscall.ENOSPC,
	syscall.EDQUOT,
	syscall.EROFS,
	syscall.EACCES,
	syscall.EPERM,
	syscall.ENOENT,
	syscall.ENOTDIR,
}

// withoutName returns the cause of an error that names files.
func withoutName(err error) error {
	var path *fs.PathError
	var link *os.LinkError

	switch {
	case errors.As(err, &path):
		return withoutName(path.Err)
	case errors.As(err, &link):
		return withoutName(link.Err)
	case err.Error() == "path escapes from parent": // an error of os.Root that the package os does not export
		return errEscapes
	}

	return err
}

// openCopy makes an empty folder for the files of a recorded machine that ghw reads.
func (d *detection) openCopy() {
	if d.live || d.copyErr != nil {
		return
	}

	folder, err := os.MkdirTemp(d.scratch, "")
	if err == nil {
		d.copy, err = os.OpenRoot(folder)
	}

	d.copyErr = copyError(err)
}

func (d *detection) closeCopy() {
	if d.copy != nil {
		_ = d.copy.Close()
	}
}

// copyFiles copies files of a recorded machine for ghw, which reads folders only and follows links out of them.
// The copy contains no links. In a pattern, * matches each name in a folder. A file that cannot be read is omitted;
// the device's folder is made, so that ghw lists it. An error of writing is stored in copyErr, and so are more files
// or bytes than the limits of an archive.
func (d *detection) copyFiles(patterns ...string) {
	if d.live {
		return
	}

	for _, pattern := range patterns {
		for _, name := range d.expandPattern(pattern) {
			if d.copyErr != nil || d.ctx.Err() != nil {
				return
			}

			d.copied++
			if d.copied > maxCopyFiles {
				d.copyErr = fmt.Errorf("the recorded hardware has more than %d files for ghw", maxCopyFiles)
				return
			}

			d.copyErr = copyError(d.copy.MkdirAll(path.Dir(name), 0o700))
			d.copyFile(name, name)
		}
	}
}

// copyLimit returns the maximum of bytes that are copied of one file. Attributes of sysfs have at most a page;
// meminfo and the entries of udev may have more.
func copyLimit(to string) int {
	if strings.HasPrefix(to, "sys/") {
		return sysfsLimit
	}

	return 64 << 10
}

func (d *detection) copyFile(name, to string) {
	if d.live || d.copyErr != nil {
		return
	}

	data, err := d.ReadFile(name, copyLimit(to))
	if err != nil {
		return
	}

	// Many links of a tree may lead to one file, so a small tree can have a large copy.
	d.copiedBytes += len(data)
	if d.copiedBytes > maxCopyBytes {
		d.copyErr = fmt.Errorf("the recorded hardware has more than %d MiB for ghw", maxCopyBytes>>20)
		return
	}

	d.copyErr = copyError(errors.Join(
		d.copy.MkdirAll(path.Dir(to), 0o700),
		d.copy.WriteFile(to, data, 0o600),
	))
}

func (d *detection) expandPattern(pattern string) []string {
	folder, rest, hasStar := strings.Cut(pattern, "*")
	if !hasStar {
		return []string{pattern}
	}

	var list []string

	names, _ := d.list(path.Clean(folder))
	for _, name := range names {
		if fs.ValidPath(name) && !strings.Contains(name, "*") {
			list = append(list, d.expandPattern(folder+name+rest)...)
		}
	}

	return list
}
