package generation

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// syncRound collects files that were written and folders that got new names, to fsync them together: the file system
// commits them at once, and a disk that is far away is waited for once.
type syncRound struct {
	files   []*newFile
	folders []*folder
	inodes  []fingerprint // of folders: device and inode
	stay    []*folder     // of the store, which close leaves open
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

// write writes a new file, which sync makes durable. A run that was killed may have left one of this name.
func (r *syncRound) write(d *disk, in *folder, base string, parts ...[]byte) (*newFile, error) {
	f, err := d.create(in, base)
	if errors.Is(err, unix.EEXIST) {
		if err = d.remove(in, base); err == nil {
			f, err = d.create(in, base)
		}
	}
	if err != nil {
		return nil, err
	}
	r.files = append(r.files, f)
	for _, b := range parts {
		if err := f.write(b); err != nil {
			return f, err
		}
	}

	return f, nil
}

// sync makes all files and folders durable, and then closes them. A power cut may keep any of them without the others.
func (r *syncRound) sync(d *disk) error {
	var all []flush
	for _, f := range slices.Concat(r.folders, r.stay) {
		all = append(all, flush{fd: f.fd, name: f.path})
	}
	for _, f := range r.files {
		all = append(all, flush{fd: f.fd(), name: f.f.Name()})
	}
	if err := d.syncAll(all); err != nil {
		return err
	}
	for _, f := range r.files {
		if err := f.f.Close(); err != nil {
			return wrapIO(opFsync, f.f.Name(), err)
		}
	}
	r.close()

	return nil
}

// giveUp closes a file that could not be written, so that sync leaves it alone.
func (r *syncRound) giveUp(f *newFile) {
	f.close()
	r.files = slices.DeleteFunc(r.files, func(g *newFile) bool { return g == f })
}

// close closes everything but the folders of the store. It also gives up the files of a round that failed.
func (r *syncRound) close() {
	for _, f := range r.files {
		f.close()
	}
	for _, f := range r.folders {
		f.close()
	}
	*r = syncRound{}
}

// isNoFolder reports whether a folder does not exist, or was replaced by a link or a file. Then it contains no file of
// prelet.
func isNoFolder(err error) bool { return isAny(err, unix.ENOENT, unix.ELOOP, unix.ENOTDIR) }

// undoStaging removes everything that an uncommitted transaction has made: temporaries, then folders, and finally the
// generation, which lists them. Once it is removed, nothing is left.
func (s *Store) undoStaging(m *manifest) error {
	var r syncRound
	defer r.close()

	if err := s.sweepFolders(m); err != nil {
		return err
	}
	if err := s.removeFolders(&r, m.Making); err != nil {
		return err
	}
	if err := s.disk.unlink(s.dir, journalName+stagedSuffix); err != nil {
		return err
	}
	if err := r.sync(s.disk); err != nil {
		return err
	}
	if s.gens == nil {
		return nil
	}
	if err := s.disk.remove(s.gens, itoa(m.Gen)+stagedSuffix); err != nil {
		return err
	}

	return s.disk.sync(s.gens)
}
