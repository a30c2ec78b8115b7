package generation

import "fmt"

// CurrentEntry returns what the generation in place made of a target; ok is false if it does not have the target, or if
// it cannot be read.
func (s *Store) CurrentEntry(path string) (e Entry, ok bool) {
	cur, err := s.Current()
	if err != nil || cur == nil {
		return Entry{}, false
	}

	for _, e := range cur.Entries {
		if e.Path == path {
			return e, true
		}
	}
	return Entry{}, false
}

// DescribeDrift returns how a target differs from what its generation made of it, "" if it does not. A target that is
// written only once, or that the generation no longer manages, never differs. Only the Kind, SHA256, Mode, UID and GID
// of now are read.
func (e Entry) DescribeDrift(now State) string {
	made := e.New
	switch {
	case e.CreateOnly || e.Dropped:
		return ""
	case made.Kind == Absent && now.Kind == Absent:
		return ""
	case made.Kind == Absent:
		return "it came since"
	case now.Kind == Absent:
		return "it is gone"
	case made.Kind == File && now.SHA256 != made.SHA256:
		return "its content was changed"
	case now.Mode != made.Mode:
		return fmt.Sprintf("its mode was changed from %04o to %04o", made.Mode, now.Mode)
	case now.UID != made.UID || now.GID != made.GID:
		return fmt.Sprintf("its owner was changed from %d:%d to %d:%d", made.UID, made.GID, now.UID, now.GID)
	}
	return ""
}
