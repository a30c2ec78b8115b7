package generation

import (
	"fmt"
	"slices"
)

// Entry returns the entry of a target; ok is false if the generation does not have the target.
func (i Info) Entry(path string) (e Entry, ok bool) {
	at := slices.IndexFunc(i.Entries, func(e Entry) bool { return e.Path == path })
	if at < 0 {
		return Entry{}, false
	}

	return i.Entries[at], true
}

// ListChanged returns the targets that the generation changed.
func ListChanged(all []Entry) []Entry {
	return slices.DeleteFunc(slices.Clone(all), func(e Entry) bool { return !e.HasChange() })
}

// ListOverwritten returns the targets that somebody had changed since the generation before, and that this one changes.
func ListOverwritten(all []Entry) (paths []string) {
	for _, e := range all {
		if e.Drift && e.HasChange() && !e.Old.IsUnreadable() {
			paths = append(paths, e.Path)
		}
	}

	return paths
}

// ListUnreadable returns the targets that this generation replaces because they could not be read, each with the
// reason.
func ListUnreadable(all []Entry) (damaged []string) {
	for _, e := range all {
		if e.HasChange() && e.Old.IsUnreadable() {
			damaged = append(damaged, e.Path+": "+e.Why)
		}
	}

	return damaged
}

// DescribeDrift returns how a target differs from the state that its generation gave it, or "". A target that is
// written only once, or that the generation no longer manages, never differs. Of now it reads Kind, SHA256, Mode, UID
// and GID.
func (e Entry) DescribeDrift(now FileState) string {
	made := e.New
	switch {
	case e.CreateOnly, e.Dropped, made.Kind == Absent && now.Kind == Absent:
		return ""
	case made.Kind == Absent:
		return "it came since"
	case now.IsUnreadable():
		return "its content cannot be read"
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
