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
	if err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		if err := os.Lchown(in("empty"), 998, 997); err != nil {
			t.Fatal(err)
		}
	}

	uid, gid := os.Getuid(), os.Getgid()
	other := State{Exists: true, Dir: true, Empty: true, Public: true, Mode: 0o755, UID: uid, GID: gid}
	if uid == 0 {
		other.UID, other.GID = 998, 997
	}
	sum := sha256.Sum256([]byte("text"))
	for path, want := range map[string]struct {
		state State
		text  string
		err   string
	}{
		"/file":   {State{Exists: true, Mode: 0o4640, UID: uid, GID: gid, SHA256: hex.EncodeToString(sum[:])}, "text", ""},
		"/none":   {State{}, "", ""},
		"/empty":  {other, "", ""},
		"/sticky": {State{Exists: true, Dir: true, Public: true, Mode: 0o1777, UID: uid, GID: gid}, "", ""},
		"/large":  {State{Exists: true, Mode: 0o600, UID: uid, GID: gid}, "", "it has 8 bytes, more than"},
		"/link":   {State{Exists: true, Public: true, Mode: 0o777, UID: uid, GID: gid}, "", "it is a link"},
		"/file/x": {State{}, "", "not a directory"},
	} {
		state, text, err := Root(root).Observe(path, 7)
		if !reflect.DeepEqual(state, want.state) || string(text) != want.text {
			t.Errorf("%s: got %+v, %q; want %+v, %q", path, state, text, want.state, want.text)
		}
		if (err == nil) != (want.err == "") || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%s: got error %v, want %q", path, err, want.err)
		}
	}
}
