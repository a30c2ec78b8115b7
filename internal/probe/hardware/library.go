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

// libraryOptions make ghw read below root only, start no program and log into log.
func libraryOptions(root string, log slog.Handler) []any {
	return []any{
		context.Background(), // keeps ghw from taking options from the environment
		ghw.WithChroot(root), ghw.WithDisableTools(), ghw.WithDisableTopology(), ghw.WithLogger(slog.New(log)),
	}
}

// within calls f, and leaves it behind after the patience or when the context ends. A panic of it is an error.
func within[T any](d *detection, who string, f func() (T, error)) (T, error) {
	type answer struct {
		result T
		err    error
	}

	answers := make(chan answer, 1)

	go func() {
		var a answer
		defer func() {
			if p := recover(); p != nil {
				a.err = fmt.Errorf("%s panicked: %v", who, p)
			}
			answers <- a
		}()
		a.result, a.err = f()
	}()

	timer := time.NewTimer(d.patience)
	defer timer.Stop()

	var none T

	select {
	case a := <-answers:
		return a.result, a.err
	case <-timer.C:
		return none, fmt.Errorf("%s did not answer within %v", who, d.patience)
	case <-d.ctx.Done():
		return none, fmt.Errorf("%s did not answer in time: %w", who, context.Cause(d.ctx))
	}
}

// ask calls a function of ghw, and returns its result and its warnings. On a recorded machine ghw reads copies of the
// files that patterns name. ghw takes no context, so a call that hangs is left behind; its result is then nil.
func ask[T any](
	d *detection, call func(...any) (*T, error), patterns ...string,
) (result *T, warnings []string, err error) {
	d.lend(patterns...)
	if d.copyErr != nil {
		return nil, nil, d.copyErr
	}

	// What is left behind may log later, so warnings are handed over with the result.
	type answer struct {
		result   *T
		warnings []string
	}

	root := d.libraryRoot()

	a, err := within(d, "ghw", func() (answer, error) {
		log := &warningLog{}
		result, err := call(libraryOptions(root, log)...)
		return answer{result, log.unexpected(root)}, err
	})

	return a.result, a.warnings, err
}

// noteWarnings notes what ghw has warned of while it read a fact.
func (d *detection) noteWarnings(fact string, warnings []string) {
	for _, warning := range warnings {
		d.note(fact, "ghw: "+warning)
	}
}

// expectedWarnings are how messages of ghw begin that are not noted.
var expectedWarnings = []string{
	"topology detection disabled",              // as libraryOptions wants it
	"Could not determine total physical bytes", // as totalMemory wants it
	"Unable to read ",                          // firmwareReason notes the file
	"failed to read int from file: ",           // blockDevice notes the file
}

// warningLog keeps the messages that ghw logs, which it prints to standard error otherwise.
type warningLog struct{ messages []string }

// unexpected returns the messages but those of expectedWarnings, with names of files as they are below root.
func (w *warningLog) unexpected(root string) []string {
	var list []string

	for _, message := range w.messages {
		if !slices.ContainsFunc(expectedWarnings, func(begin string) bool { return strings.HasPrefix(message, begin) }) {
			list = append(list, strings.ReplaceAll(message, strings.TrimSuffix(root, "/")+"/", "/"))
		}
	}

	return list
}

// Enabled implements slog.Handler.
func (*warningLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements slog.Handler.
func (w *warningLog) Handle(_ context.Context, record slog.Record) error {
	w.messages = append(w.messages, record.Message)
	return nil
}

// WithAttrs implements slog.Handler.
func (w *warningLog) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup implements slog.Handler.
func (w *warningLog) WithGroup(string) slog.Handler { return w }

// libraryRoot is where ghw reads: the root of this machine, or the copy of a recorded one.
func (d *detection) libraryRoot() string {
	if d.live {
		return "/"
	}
	return d.copy.Name()
}

// scratchParent is where files of a recorded machine are written: TMPDIR. If that is not set, it is /dev/shm, which is
// memory and twice as fast as a disk, or /tmp on a system without it.
func scratchParent() string {
	const memory = "/dev/shm"

	if info, err := os.Stat(memory); os.Getenv("TMPDIR") == "" && err == nil && info.IsDir() {
		return memory
	}

	return os.TempDir()
}

// scratchFolder makes a folder in scratchParent.
func scratchFolder() (string, error) {
	folder, err := os.MkdirTemp(scratchParent(), "prelet-hardware-")

	return folder, copyFailed(err)
}

// copyFailed is an error of writing files of a recorded machine. It has the place and the next step, and not the name of
// the file, which is another each time.
func copyFailed(err error) error {
	if err == nil {
		return nil
	}

	next := ""
	if slices.ContainsFunc(failuresOfPlace, func(e syscall.Errno) bool { return errors.Is(err, e) }) {
		next = "; set TMPDIR to a folder with room"
	}

	return fmt.Errorf("the recorded hardware cannot be copied to %s (%w%s)", scratchParent(), withoutName(err), next)
}

// failuresOfPlace are errors that another folder does not have.
var failuresOfPlace = []syscall.Errno{
	syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.ENOENT, syscall.ENOTDIR,
}

// withoutName returns the cause of an error that names files.
func withoutName(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return withoutName(path.Err)
	}

	if link := (*os.LinkError)(nil); errors.As(err, &link) {
		return withoutName(link.Err)
	}

	if err.Error() == "path escapes from parent" { // what os.Root reports; the package os does not export the error
		return errEscapes
	}

	return err
}

// openCopy makes an empty folder for the files that ghw reads of a recorded machine.
func (d *detection) openCopy() {
	if d.live || d.copyErr != nil {
		return
	}

	folder, err := os.MkdirTemp(d.scratch, "")
	if err == nil {
		d.copy, err = os.OpenRoot(folder)
	}
	d.copyErr = copyFailed(err)
}

func (d *detection) closeCopy() {
	if d.copy != nil {
		_ = d.copy.Close()
	}
}

// lend copies files of a recorded machine for ghw, which takes folders only and follows links out of them. The copy has
// no link but the drivers'. In a pattern, * stands for each name in a folder. A file that cannot be read is left out, as if
// the machine did not have it, and so is a driver whose name is too long for a folder. The device's folder is there, so
// that ghw lists it. What fails to be written is copyErr, and so are more files or bytes than an archive may have.
func (d *detection) lend(patterns ...string) {
	if d.live {
		return
	}

	for _, pattern := range patterns {
		for _, name := range d.expand(pattern) {
			switch d.lent++; {
			case d.copyErr != nil || d.ctx.Err() != nil:
				return
			case d.lent > maxArchiveEntries:
				d.copyErr = fmt.Errorf("the recorded hardware has more than %d files for ghw", maxArchiveEntries)
				return
			}

			d.copyErr = copyFailed(d.copy.MkdirAll(path.Dir(name), 0o700))
			d.lendFile(name, name)
		}
	}
}

// lendLimit is the most that is copied of one file. Attributes of sysfs are at most a page; meminfo and the entries of
// udev may have more.
func lendLimit(to string) int {
	if strings.HasPrefix(to, "sys/") {
		return sysfsLimit
	}

	return 64 << 10
}

// lendFile copies one file to a name in the copy.
func (d *detection) lendFile(name, to string) {
	if d.live || d.copyErr != nil {
		return
	}

	if path.Base(name) == "driver" {
		d.lendDriver(name, to)
		return
	}

	data, err := d.ReadFile(name, lendLimit(to))
	if err != nil {
		return
	}

	// Many links of a tree may lead to one file, so a small tree can be a large copy.
	if d.lentBytes += len(data); d.lentBytes > maxArchiveBytes {
		d.copyErr = fmt.Errorf("the recorded hardware has more than %d MiB for ghw", maxArchiveBytes>>20)
		return
	}

	d.copyErr = copyFailed(errors.Join(d.copy.MkdirAll(path.Dir(to), 0o700), d.copy.WriteFile(to, data, 0o600)))
}

// lendDriver makes the link to a driver. ghw takes the last element of the target's name, and only if the target exists.
func (d *detection) lendDriver(name, to string) {
	driver, err := linkBase(d, name)
	if err != nil {
		return
	}

	err = d.copy.MkdirAll("sys/bus/pci/drivers/"+driver, 0o700)
	if errors.Is(err, syscall.ENAMETOOLONG) {
		return
	}

	d.copyErr = copyFailed(errors.Join(err, d.copy.Symlink("../../drivers/"+driver, to)))
}

// expand lists the paths that a pattern names.
func (d *detection) expand(pattern string) []string {
	folder, rest, hasStar := strings.Cut(pattern, "*")
	if !hasStar {
		return []string{pattern}
	}

	var list []string

	names, _ := d.names(path.Clean(folder))
	for _, name := range names {
		if fs.ValidPath(name) && !strings.Contains(name, "*") {
			list = append(list, d.expand(folder+name+rest)...)
		}
	}

	return list
}
