package nodefile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestObserve(t *testing.T) {
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	err := errors.Join(
		os.WriteFile(in("file"), []byte("text"), 0o640),
		os.Chmod(in("file"), 0o640|os.ModeSetuid),
		os.WriteFile(in("large"), []byte("too much"), 0o600),
		os.Mkdir(in("empty"), 0o755),
		os.Mkdir(in("sticky"), 0o755),
		os.Chmod(in("sticky"), 0o777|os.ModeSticky),
		os.WriteFile(in("sticky/x"), nil, 0o600),
		os.Symlink("file", in("link")),
	)
	must(t, err)
	if os.Getuid() == 0 {
		must(t, os.Lchown(in("empty"), 998, 997))
	}

	uid, gid := os.Getuid(), os.Getgid()
	other := Observed{FileState: FileState{Kind: Dir, Mode: 0o755, UID: uid, GID: gid}, Empty: true, Public: true}
	if uid == 0 {
		other.UID, other.GID = 998, 997
	}
	sum := sha256.Sum256([]byte("text"))
	for path, want := range map[string]struct {
		is  Observed
		err string
	}{
		"/file":   {Observed{FileState: FileState{Kind: File, Mode: 0o4640, UID: uid, GID: gid, SHA256: hex.EncodeToString(sum[:]), Size: 4}, Content: []byte("text")}, ""},
		"/none":   {Observed{}, ""},
		"/empty":  {other, ""},
		"/sticky": {Observed{FileState: FileState{Kind: Dir, Mode: 0o1777, UID: uid, GID: gid}, Public: true}, ""},
		"/large":  {Observed{FileState: FileState{Kind: File, Mode: 0o600, UID: uid, GID: gid}}, "it has 8 bytes, more than"},
		"/link":   {Observed{FileState: FileState{Kind: File, Mode: 0o777, UID: uid, GID: gid}, Public: true}, "it is a link"},
		"/file/x": {Observed{}, "not a directory"},
	} {
		got, err := Root(root).Observe(path, 7)
		got.Xattrs = nil // those of the file system of the test
		if !reflect.DeepEqual(got, want.is) {
			t.Errorf("%s: got %+v, want %+v", path, got, want.is)
		}
		if (err == nil) != (want.err == "") || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%s: got error %v, want %q", path, err, want.err)
		}
	}
}
