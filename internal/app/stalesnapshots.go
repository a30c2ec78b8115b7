package app

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/testfile"
)

// snapshotsFolder is the folder next to a test file that has the snapshots of its runs.
const snapshotsFolder = "snapshots"

// handleStale finds the snapshots that no run reads, and removes them where the command writes snapshots.
func (s *suite) handleStale() (err error) {
	if s.tests.Stale, err = s.listStale(); err != nil {
		return failure(fault.FileUnusable, "the folder of the snapshots: %s", err)
	}
	if !s.update {
		return nil
	}

	for _, path := range s.tests.Stale {
		if err := os.Remove(path); err != nil {
			return failure(fault.CannotWrite, "a snapshot that no run reads: %s", err)
		}
		_ = os.Remove(filepath.Dir(path)) // the folder of a run over several machines, if it is empty now
	}
	return nil
}

// listStale returns the snapshots that no run reads, by name. All test files of a folder share its snapshots, so a
// folder is checked only if all of them are part of the command. Runs that --run leaves out read theirs, too.
func (s *suite) listStale() ([]string, error) {
	read := map[string]bool{}
	byFolder := map[string][]string{}
	for _, f := range s.files {
		folder := filepath.Dir(f.Name)
		byFolder[folder] = append(byFolder[folder], filepath.Clean(f.Name))
		for _, path := range s.listSnapshots(f) {
			read[path] = true
		}
	}

	var stale []string
	for _, folder := range slices.Sorted(maps.Keys(byFolder)) {
		isLoaded := func(name string) bool { return slices.Contains(byFolder[folder], filepath.Clean(name)) }
		if len(slices.DeleteFunc(testsIn(folder), isLoaded)) > 0 {
			continue
		}
		found, err := findSnapshots(filepath.Join(folder, snapshotsFolder))
		if err != nil {
			return nil, err
		}
		isRead := func(path string) bool { return read[path] || read[filepath.Dir(path)] }
		stale = append(stale, slices.DeleteFunc(found, isRead)...)
	}

	return stale, nil
}

// listSnapshots returns the snapshots that the runs of a test file read, and the folders of runs whose machines are
// missing: these snapshots are of machines that may come back.
func (s *suite) listSnapshots(f *testfile.File) (paths []string) {
	for _, r := range f.Runs {
		if r.Snapshot == "" {
			continue
		}
		for _, c := range s.expand(r) {
			path := c.snapshotPath()
			if c.machine == "" {
				path = filepath.Join(filepath.Dir(f.Name), snapshotsFolder, r.Snapshot)
			}
			paths = append(paths, path)
		}
	}

	return paths
}

// findSnapshots returns the snapshots in a folder and in the folders of its runs; none without the folder.
func findSnapshots(folder string) (paths []string, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case entry.Type().IsRegular() && filepath.Ext(path) == ".txt":
			paths = append(paths, path)
		}
		return nil
	})

	return paths, err
}
