package generation

import "golang.org/x/sys/unix"

// StateFile returns the text of a small file next to the generations. The error of a missing one is unix.ENOENT. A file
// that another user may change is refused.
func (s *Store) StateFile(name string) ([]byte, error) {
	if s.dir == nil {
		return nil, unix.ENOENT
	}

	return readOwned(s.dir, name)
}

// PutStateFile replaces a small file next to the generations, and syncs it to disk.
func (s *Store) PutStateFile(name string, text []byte) error {
	return s.replaceAnyway(s.dir, name, text)
}
