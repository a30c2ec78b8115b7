package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prelet/prelet/plugins/contract"
)

// A path that is looked for in vain for too long, and patterns that lead to too much.
var (
	errTooLong = errors.New("match.paths could not be looked for in its time")
	errTooMany = fmt.Errorf("match.paths leads to more than %d entries of folders", contract.MaxLookedAt)
)

// anyExists reports whether one of the paths of a match is there. It returns when ctx ends, also while a file system does not
// answer.
func (h *Host) anyExists(ctx context.Context, patterns []string) (bool, error) {
	if len(patterns) == 0 {
		return false, nil
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultTimeout)
		defer cancel()
	}

	type result struct {
		found bool
		err   error
	}
	done := make(chan result, 1) // with room, so that one that comes late can go
	go func() {
		found, err := h.lookFor(ctx, patterns)
		done <- result{found, err}
	}()

	select {
	case r := <-done:
		return r.found, r.err
	case <-ctx.Done():
		return false, errTooLong
	}
}

func (h *Host) lookFor(ctx context.Context, patterns []string) (bool, error) {
	var files folder = machine{}
	if dir := h.lookedAt(); dir != "/" {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return false, nil // nothing is there
		}
		defer root.Close()
		files = below{root}
	}

	l := looker{ctx: ctx, files: files, left: contract.MaxLookedAt}
	for _, p := range patterns {
		found, err := l.exists(p)
		if found || err != nil {
			return found, err
		}
	}

	return false, nil
}

// lookedAt is the folder that stands for "/".
func (h *Host) lookedAt() string {
	if h.o.Tree != "" {
		return h.o.Tree
	}

	return h.path("/")
}

// folder is the part of a file system that is needed here. Names are absolute.
type folder interface {
	stat(name string) (os.FileInfo, error)
	lstat(name string) (os.FileInfo, error)
	open(name string) (*os.File, error)
}

const openFolder = os.O_RDONLY | syscall.O_DIRECTORY | syscall.O_NONBLOCK

// machine is this machine.
type machine struct{}

func (machine) stat(name string) (os.FileInfo, error)  { return os.Stat(name) }
func (machine) lstat(name string) (os.FileInfo, error) { return os.Lstat(name) }
func (machine) open(name string) (*os.File, error)     { return os.OpenFile(name, openFolder, 0) }

// below is a recorded machine: no link leads out of it.
type below struct{ root *os.Root }

func inside(name string) string { return filepath.Join(".", name) }

func (b below) stat(name string) (os.FileInfo, error)  { return b.root.Stat(inside(name)) }
func (b below) lstat(name string) (os.FileInfo, error) { return b.root.Lstat(inside(name)) }
func (b below) open(name string) (*os.File, error) {
	return b.root.OpenFile(inside(name), openFolder, 0)
}

// looker looks for paths, at no more entries than it has left.
type looker struct {
	ctx   context.Context
	files folder
	left  int
}

func (l *looker) count() error {
	if l.ctx.Err() != nil {
		return errTooLong
	}
	if l.left--; l.left < 0 {
		return errTooMany
	}

	return nil
}

// exists follows links in what comes before the first star.
func (l *looker) exists(pattern string) (bool, error) {
	star := strings.Index(pattern, "*")
	if star < 0 {
		if err := l.count(); err != nil {
			return false, err
		}
		_, err := l.files.stat(pattern)

		return err == nil, nil
	}
	slash := strings.LastIndex(pattern[:star], "/")

	return l.matches(pattern[:slash+1], strings.Split(pattern[slash+1:], "/"))
}

// matches reports whether a folder has what the parts of a pattern name. It follows no link.
func (l *looker) matches(dir string, parts []string) (bool, error) {
	if !strings.Contains(parts[0], "*") {
		return l.entry(filepath.Join(dir, parts[0]), parts[1:])
	}

	f, err := l.files.open(dir)
	if err != nil {
		return false, nil // it is not there, or nobody may look
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(256)
		for _, name := range names {
			if err := l.count(); err != nil {
				return false, err
			}
			if !contract.MatchName(parts[0], name) {
				continue
			}
			if found, err := l.entry(filepath.Join(dir, name), parts[1:]); found || err != nil {
				return found, err
			}
		}
		switch {
		case errors.Is(err, io.EOF), err != nil, len(names) == 0:
			return false, nil
		}
	}
}

// entry reports whether a path is there, and has below it what the rest of a pattern names.
func (l *looker) entry(path string, rest []string) (bool, error) {
	if err := l.count(); err != nil {
		return false, err
	}
	info, err := l.files.lstat(path)
	if err != nil || len(rest) == 0 {
		return err == nil, nil
	}
	if !info.IsDir() {
		return false, nil
	}

	return l.matches(path, rest)
}

// lookTime bounds one look where nobody waits for a detector.
func lookTime(timeout time.Duration) time.Duration {
	if timeout > 0 {
		return timeout
	}

	return DefaultTimeout
}
