package kube

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestKubeletReplaced: the answers of a real kubelet are kept for its path, size, times and inode. After a link is
// made to it the answers are the same with another change time; a patch release of the same size and modification
// time has its own.
func TestKubeletReplaced(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	mine := filepath.Join(t.TempDir(), "kubelet")
	from, err := os.Open(programs(t).of("kubelet"))
	must(t, err)
	to, err := os.OpenFile(mine, os.O_WRONLY|os.O_CREATE, 0o755)
	must(t, err)
	_, err = io.Copy(to, from)
	image := time.Unix(1, 0) // as in every reproducible one
	must(t, errors.Join(err, to.Close(), from.Close(), os.Chtimes(mine, image, image)))

	m := newMember(t, c, NodeOptions{Kubelet: mine}, quick)
	kept := func() (text string, st os.FileInfo) {
		text, err := m.Read("/var/lib/prelet/kubelet.json")
		must(t, err)
		st, err = os.Stat(m.Root() + "/var/lib/prelet/kubelet.json")
		must(t, err)
		return text, st
	}
	version, err := Version("go.mod")
	must(t, err)
	m.run(0) // the first may have had no time to keep it
	first, at := kept()
	if !strings.Contains(first, `"version":"`+version+`"`) || !strings.Contains(first, `"flags":["`) {
		t.Fatalf("what is kept: got %s; want text with %q and text with `\"flags\":[\"`",
			first, `"version":"`+version+`"`)
	}
	m.run(0)
	if again, now := kept(); again != first || !os.SameFile(at, now) {
		t.Errorf("the kubelet did not change, and its output was written again: got %s; want again %s", again, first)
	}

	must(t, os.Link(mine, mine+".link"))
	m.run(0)
	linked, at := kept()
	if linked == first || strings.ReplaceAll(first, changed(t, first), changed(t, linked)) != linked {
		t.Errorf(
			"a link changes more than the change time: got %s, then %s; want linked other than %s and ReplaceAll %v",
			first,
			linked,
			first,
			linked,
		)
	}
	m.run(0)
	if again, now := kept(); again != linked || !os.SameFile(at, now) {
		t.Errorf("it is written again: got %s; want again %s", again, linked)
	}

	must(t, m.StopKubelet(t.Context()))
	text, err := os.ReadFile(mine)
	must(t, err)
	next := version[:len(version)-1] + string(rune(version[len(version)-1]^1))
	to, err = os.OpenFile(mine, os.O_WRONLY, 0)
	must(t, err)
	_, err = to.Write(bytes.ReplaceAll(text, []byte(version), []byte(next)))
	must(t, errors.Join(err, to.Close(), os.Chtimes(mine, image, image)))
	m.run(0)
	if replaced, _ := kept(); !strings.Contains(replaced, `"version":"`+next+`"`) {
		t.Errorf("another kubelet was put in its place, and what is kept is %s; want text with %q",
			replaced, `"version":"`+next+`"`)
	}
}

// changed is the change time in what is kept.
func changed(t *testing.T, text string) string {
	t.Helper()
	_, after, ok := strings.Cut(text, `"ctime_ns":`)
	if !ok {
		t.Fatalf("no change time in %s", text)
	}
	ctime, _, _ := strings.Cut(after, ",")
	return ctime
}
