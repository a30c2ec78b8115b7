package detector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/plugins/contract"
)

// Reasons to stop a search for match.paths.
var (
	errTooLong = errors.New("the search for match.paths exceeded its deadline")
	errTooMany = fmt.Errorf("the search for match.paths exceeded %d folder entries", contract.MaxLookedAt)
)

// anyExists reports whether one of the paths of a match exists. It returns when ctx ends, even if a file system does
// not respond.
func (h *Host) anyExists(ctx context.Context, patterns []string) (bool, error) {
	if len(patterns) == 0 {
		return false, nil
	}
	ctx, cancel := tape.BeginWork(ctx, DefaultTimeout)
	defer cancel()

	type searched struct {
		found bool
		err   error
	}
	done := make(chan searched, 1) // buffered: the result may come too late
	go func() {
		found, err := h.searchAll(ctx, patterns)
		done <- searched{found, err}
	}()

	select {
	case r := <-done:
		return r.found, r.err
	case <-ctx.Done():
		return false, errTooLong
	}
}

func (h *Host) searchAll(ctx context.Context, patterns []string) (bool, error) {
	files := os.DirFS("/")
	if dir := cmp.Or(h.o.Tree, h.path("/")); dir != "/" { // no link may lead out of a recorded machine
		root, err := os.OpenRoot(dir)
		if err != nil {
			return false, nil // an empty machine
		}
		defer root.Close()
		files = root.FS()
	}

	s := search{ctx: ctx, files: files, left: contract.MaxLookedAt}
	for _, p := range patterns {
		found, err := s.exists(".", strings.Split(strings.TrimPrefix(p, "/"), "/"), fs.Stat)
		if found || err != nil {
			return found, err
		}
	}

	return false, nil
}

// search looks for paths, at a limited number of entries. All its names are relative to the root.
type search struct {
	ctx   context.Context
	files fs.FS
	left  int
}

func (s *search) count() error {
	s.left--
	switch {
	case s.ctx.Err() != nil:
		return errTooLong
	case s.left < 0:
		return errTooMany
	}

	return nil
}

// exists reports whether a path exists and the rest of a pattern matches below it. Links are followed before the first
// star only.
func (s *search) exists(name string, rest []string, stat func(fs.FS, string) (fs.FileInfo, error)) (bool, error) {
	if err := s.count(); err != nil {
		return false, err
	}

	info, err := stat(s.files, name)
	switch {
	case err != nil:
		return false, nil
	case len(rest) == 0:
		return true, nil
	case !info.IsDir(): // opening a device could have an effect
		return false, nil
	case !strings.Contains(rest[0], "*"):
		return s.exists(path.Join(name, rest[0]), rest[1:], stat)
	}

	f, err := s.files.Open(name)
	if err != nil {
		return false, nil // missing, or not readable
	}
	defer f.Close()
	folder, isFolder := f.(fs.ReadDirFile)
	for isFolder {
		entries, err := folder.ReadDir(256)
		for _, e := range entries {
			if err := s.count(); err != nil {
				return false, err
			}
			if !contract.MatchPath(rest[0], e.Name()) {
				continue
			}

			found, err := s.exists(path.Join(name, e.Name()), rest[1:], fs.Lstat)
			if found || err != nil {
				return found, err
			}
		}
		if err != nil || len(entries) == 0 {
			break
		}
	}

	return false, nil
}
