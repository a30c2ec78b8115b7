package generation

import (
	"errors"

	"golang.org/x/sys/unix"
)

// syncRound collects files that were written and folders that got new names, to fsync them together: first every file,
// then every folder once.
type syncRound struct {
	files   []*newFile
	folders []*folder
	inodes  []fingerprint // of folders: device and inode
}

// addFolder adds an open folder, which close closes. If the same folder was added before, that one is returned.
func (r *syncRound) addFolder(f *folder) *folder {
	var st unix.Stat_t
	if unix.Fstat(f.fd, &st) != nil {
		st = unix.Stat_t{}
	}

	inode := fingerprint{dev: uint64(st.Dev), ino: st.Ino}
	for i, known := range r.inodes {
		if known == inode && known.ino != 0 {
			f.close()
			return r.folders[i]
		}
	}
	r.folders = append(r.folders, f)
	r.inodes = append(r.inodes, inode)

	return f
}

// write writes a new file, which sync makes durable.
func (r *syncRound) write(
	d *disk,
	in *folder,
	base string,
	b []byte,
	s State,
) error {
	f, err := d.create(in, base)
	if err != nil {
		return err
	}
	r.files = append(r.files, f)
	if err := f.write(b); err != nil {
		return err
	}

	return f.setMetadata(s)
}

// sync makes all files and folders durable.
func (r *syncRound) sync(d *disk) error {
	for _, f := range r.files {
		if err := f.sync(); err != nil {
			return err
		}
	}
	for _, f := range r.folders {
		if err := d.sync(f); err != nil {
			return err
		}
	}

	return nil
}

// close closes everything. It also gives up the files of a round that failed.
func (r *syncRound) close() {
	for _, f := range r.files {
		f.close()
	}
	for _, f := range r.folders {
		f.close()
	}
}

// isNoFolder reports whether a folder does not exist, or was replaced by a link or a file. Then it contains no file of
// prelet.
func isNoFolder(err error) bool {
	return errors.Is(err, unix.ENOENT) ||
		errors.Is(err, unix.ELOOP) ||
		errors.Is(err, unix.ENOTDIR)
}

// undoStaging removes everything that an uncommitted transaction has made: temporaries, then folders, and finally the
// generation, which lists them. Once it is removed, nothing is left.
func (s *Store) undoStaging(m *manifest) error {
	var r syncRound
	defer r.close()

	for _, t := range m.listTemps() {
		dir, base, err := s.openParent(t)
		if isNoFolder(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := s.disk.unlink(r.addFolder(dir), base); err != nil {
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

	return s.removeDurably(s.gens, itoa(m.Gen)+stagedSuffix)
}
