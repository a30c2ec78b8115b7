package generation

import (
	"errors"

	"golang.org/x/sys/unix"
)

// round collects files that were written and folders that got new names, to fsync them together: first every file, then
// every folder once.
type round struct {
	files   []*newFile
	folders []*folder
	ids     []fingerprint // of folders: device and inode
}

// folder takes an open folder into the round, which closes it. The same folder twice is one.
func (r *round) folder(f *folder) *folder {
	var st unix.Stat_t
	var id fingerprint
	if unix.Fstat(f.fd, &st) == nil {
		id = fingerprint{dev: uint64(st.Dev), ino: st.Ino}
		for i, have := range r.ids {
			if have == id {
				f.close()
				return r.folders[i]
			}
		}
	}
	r.folders, r.ids = append(r.folders, f), append(r.ids, id)
	return f
}

// file writes a file, which becomes durable in sync. s is what it shall be, or nil for one of our own (0600).
func (r *round) file(d *disk, in *folder, base string, b []byte, s *State) error {
	f, err := d.create(in, base)
	if err != nil {
		return err
	}
	r.files = append(r.files, f)
	if err := f.write(b); err != nil {
		return err
	}
	if s != nil {
		if err := f.dress(*s); err != nil {
			return err
		}
	}
	return nil
}

// sync makes all of it durable.
func (r *round) sync(d *disk) error {
	for _, f := range r.files {
		if err := f.sync(); err != nil {
			return err
		}
	}
	r.files = nil
	for _, f := range r.folders {
		if err := d.sync(f); err != nil {
			return err
		}
	}
	return nil
}

func (r *round) close() {
	for _, f := range r.files {
		_ = f.close() // left over from a round that failed: its error was told, and the temporaries go
	}
	for _, f := range r.folders {
		f.close()
	}
	r.files, r.folders, r.ids = nil, nil, nil
}

// undoStaging removes what a commit that was never recorded has made: temporaries, then folders, and the generation last,
// which tells of them, so that one that is gone means that nothing is left.
func (s *Store) undoStaging(m *manifest) error {
	var r round
	defer r.close()
	for _, t := range m.temps() {
		dir, base, err := s.tree.parent(t)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
			continue // a folder that we never made, or that somebody replaced: nothing of ours is there
		}
		if err != nil {
			return err
		}
		if err := s.disk.unlink(r.folder(dir), base); err != nil {
			return err
		}
	}
	if err := s.removeFolders(&r, m.Making); err != nil {
		return err
	}
	if err := r.sync(s.disk); err != nil {
		return err
	}
	if s.gens == nil {
		return nil
	}
	if err := s.disk.unlink(s.gens, itoa(m.Gen)+stagedSuffix); err != nil {
		return err
	}
	return s.disk.sync(s.gens)
}
