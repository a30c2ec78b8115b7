package generation

import "testing"

func TestDescribeDrift(t *testing.T) {
	file := State{Kind: File, SHA256: "a", Mode: 0o640, UID: 998, GID: 997}
	dir := State{Kind: Dir, Mode: 0o755}
	owned := func(s State, mode uint32, uid, gid int) State {
		s.Mode, s.UID, s.GID = mode, uid, gid
		return s
	}
	other := file
	other.SHA256 = "b"

	for name, c := range map[string]struct {
		made Entry
		now  State
		want string
	}{
		"same file":        {Entry{New: file}, file, ""},
		"same folder":      {Entry{New: dir}, dir, ""},
		"still absent":     {Entry{}, State{}, ""},
		"created":          {Entry{}, file, "it came since"},
		"removed":          {Entry{New: file}, State{}, "it is gone"},
		"written":          {Entry{New: file}, other, "its content was changed"},
		"file to folder":   {Entry{New: file}, dir, "its content was changed"},
		"mode of a file":   {Entry{New: file}, owned(file, 0o4600, 998, 997), "its mode was changed from 0640 to 4600"},
		"mode of a folder": {Entry{New: dir}, owned(dir, 0o700, 0, 0), "its mode was changed from 0755 to 0700"},
		"user": {Entry{New: file}, owned(file, 0o640, 0, 997), "its owner was changed from 998:997 " +
			"to 0:997"},
		"group":        {Entry{New: dir}, owned(dir, 0o755, 0, 5), "its owner was changed from 0:0 to 0:5"},
		"written once": {Entry{New: file, CreateOnly: true}, State{}, ""},
		"dropped":      {Entry{New: file, Dropped: true}, dir, ""},
	} {
		if got := c.made.DescribeDrift(c.now); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
