package generation

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/sample"
)

// flipState is a store at rest or in the middle of something, with what each command makes of it when no bit is
// flipped.
type flipState struct {
	name  string
	box   *box
	nodes []map[string]node // that a command may leave behind: each is one generation's
}

// flipNext is a site. 2 declares a file that 3 drops; 3 adds one, and takes one over; 4 declares all of them.
func flipNext(content string) Proposal {
	const dir = "/etc/kubernetes/"
	var more []Target
	for _, name := range map[string][]string{"2": {"old"}, "3": {"taken", "new"}, "4": {"old", "taken", "new"}}[content] {
		more = append(more, file(dir+name, content))
	}
	secret := with(file(dir+"pki/b", content+" b"), func(t *Target) { t.Mode = 0o600 })

	return plan("plan "+content, append(more, file(dir+"a", content), secret)...)
}

// flipCommands are what a person or a boot does, each after Recover.
var flipCommands = []struct {
	name string
	do   func(s *Store) error
}{
	{"recover", func(*Store) error { return nil }},
	{"rollback", func(s *Store) error {
		cur, err := s.Current()
		if err != nil || cur == nil || cur.Gen == 1 {
			return err
		}
		_, err = s.Rollback(cur.Gen, 1, ByHand, true, nil)
		return err
	}},
	{"run", func(s *Store) error {
		n, err := apply(s, flipNext("4"))
		if err != nil {
			return err
		}
		return s.Good(n, nil)
	}},
}

func flipCommand(s *Store, do func(s *Store) error) error {
	if _, err := s.Recover(); err != nil {
		return err
	}
	return do(s)
}

// flipStates are two good generations and a held plan; then the same with a third that was staged, one that was killed
// while it was published, also as the first or on a node as before prelet, one of which a file was edited then, and a
// way back that was killed.
func flipStates(t *testing.T) (all []flipState) {
	for _, name := range []string{
		"settled", "awaits a verdict", "staged", "mid-publish", "mid-publish and edited",
		"mid-publish of the first", "mid-publish as before prelet", "mid-rollback", "mid-rollback and edited",
	} {
		b := newBox(t)
		for _, path := range []string{"a", "old", "taken"} {
			b.write("/etc/kubernetes/"+path, "before", 0o644)
		}
		s, hook := b.openHooked()
		before := []string{"1", "2"}
		if strings.HasSuffix(name, "of the first") {
			before = nil
		}
		for _, content := range before {
			n := b.apply(s, flipNext(content))
			if name == "awaits a verdict" && n == 2 {
				continue
			}
			must(t, s.Good(n, []byte(`{"ok":true}`)))
		}
		if strings.HasSuffix(name, "as before prelet") {
			_, err := s.Rollback(2, 0, ByHand, false, nil)
			must(t, err)
			must(t, s.Release())
		}
		if before != nil {
			must(t, s.Hold("bad plan", "the kubelet died"))
		}
		st := flipState{name: name, box: b, nodes: flipNodes(t, b)}
		last := "/b"
		if name == "staged" {
			last = "/" + journalName
		}
		if strings.HasPrefix(name, "mid-") || name == "staged" {
			ended := false
			*hook = func(op, p string) error {
				ended = ended || op == opRename && strings.HasSuffix(p, last)
				return endIf(ended)
			}
			var err error
			if strings.HasPrefix(name, "mid-rollback") {
				_, err = s.Rollback(2, 1, "unhealthy", true, nil)
			} else {
				_, err = apply(s, flipNext("3"))
			}
			if !errors.Is(err, errKilled) {
				t.Fatalf("%s: got %v, want it killed", name, err)
			}
		}
		s.Close()
		if strings.HasSuffix(name, "and edited") {
			b.write("/etc/kubernetes/a", "by hand", 0o644)
		}
		for _, c := range flipCommands {
			x := b.copyTo(t, memory(t))
			s := x.open()
			if err := flipCommand(s, c.do); err != nil || !oneOf(nodes(x.look()), st.nodes) {
				t.Fatalf("%s, %s with nothing flipped: got %v, and the files\n%v\nwant no error, and one of %v",
					name, c.name, err, nodes(x.look()), st.nodes)
			}
			s.Close()
		}
		all = append(all, st)
	}
	return all
}

// flipNodes are the nodes that commands leave on a box when none is killed.
func flipNodes(t *testing.T, b *box) []map[string]node {
	t.Helper()
	publish := func(s *Store) error { _, err := apply(s, flipNext("3")); return err }
	rollback, run := flipCommands[1].do, flipCommands[2].do
	all := []map[string]node{nodes(b.look())}
	for _, do := range [][]func(*Store) error{{publish}, {rollback}, {publish, rollback}, {run}, {publish, run}} {
		x := b.copyTo(t, memory(t))
		s := x.open()
		for _, f := range do {
			must(t, f(s))
		}
		s.Close()
		all = append(all, nodes(x.look()))
	}
	return all
}

func endIf(end bool) error {
	if end {
		return errKilled
	}
	return nil
}

// stateFiles are the files of the state folder but the lock, which means nothing.
func (b *box) stateFiles() (out []string) {
	b.t.Helper()
	err := filepath.WalkDir(b.o.Dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != lockName {
			out = append(out, p)
		}
		return err
	})
	must(b.t, err)
	return out
}

// TestEveryFlippedBitIsFound: no parser takes a document of which one bit is another.
func TestEveryFlippedBitIsFound(t *testing.T) {
	bits := 0
	for _, st := range flipStates(t) {
		for _, p := range st.box.stateFiles() {
			doc, err := os.ReadFile(p)
			must(t, err)
			parse := func(b []byte) error { _, err := decode[manifest](b); return err }
			switch base := filepath.Base(p); {
			case strings.HasPrefix(base, journalName):
				parse = func(b []byte) error { _, err := parseJournal(b); return err }
			case base == heldName:
				parse = func(b []byte) error { _, err := parseHeld(b); return err }
			case strings.HasSuffix(base, statusSuffix):
				parse = func(b []byte) error { _, err := decode[status](b); return err }
			default:
				doc = doc[:bytes.IndexByte(doc, '\n')+1]
			}
			if len(doc) == 0 {
				continue // a temporary of the killed run
			}
			if err := parse(doc); err != nil {
				t.Fatalf("%s, %s: got %v, want no error", st.name, p, err)
			}
			for bit := range len(doc) * 8 {
				doc[bit/8] ^= 1 << (bit % 8)
				if parse(doc) == nil {
					t.Errorf("%s, %s: bit %d of byte %d flipped: got no error, want one", st.name, p, bit%8, bit/8)
				}
				doc[bit/8] ^= 1 << (bit % 8)
				bits++
			}
		}
	}
	t.Logf("%d bits", bits)
}

// TestFlippedBitsNeverMakeAnotherNode: whatever bit of the state folder is flipped, each command ends without an error,
// and leaves one generation's node whole; or it sets the state aside, touches nothing, and knows that the node is a
// mixture if it is one. A run always leaves a whole node. A sample of the bits is flipped.
func TestFlippedBitsNeverMakeAnotherNode(t *testing.T) {
	chosen := sample.New(t)
	counts := map[string]int{}
	for _, st := range flipStates(t) {
		for _, p := range st.box.stateFiles() {
			rel, err := filepath.Rel(st.box.root, p)
			must(t, err)
			bits, scratch := len(read(t, p))*8, memory(t)
			for _, command := range flipCommands {
				var b *box
				first, step := chosen.OneIn(sample.Quarter(801), st.name, rel, command.name)
				for bit := first; bit < bits; bit += step {
					if b == nil {
						b = st.box.copyTo(t, scratch)
					}
					how := flipOnce(t, st, b, rel, bit, command.name, command.do)
					counts[command.name+" "+how]++
					if how != "unchanged" {
						b = nil
					}
				}
			}
		}
	}
	t.Log(counts)
}

func read(t *testing.T, p string) []byte {
	t.Helper()
	b, err := os.ReadFile(p)
	must(t, err)
	return b
}

// flipOnce flips a bit of a file, lets a command see it, and flips it back when the command wrote nothing.
func flipOnce(
	t *testing.T,
	st flipState,
	b *box,
	rel string,
	bit int,
	name string,
	do func(*Store) error,
) (how string) {
	t.Helper()
	was := b.look()
	b.spoil(filepath.Join(b.root, rel), bit)
	s, hook := b.openHooked()
	count := &killAt{}
	*hook = count.hook
	err := flipCommand(s, do)
	*hook = nil
	over := s.StartsOver()
	aside := s.FindAside()
	s.Close()

	now := nodes(b.look())
	before := nodes(was)
	isTemp := func(path string, _ node) bool { return strings.Contains(path, "/.prelet-") }
	maps.DeleteFunc(before, isTemp)
	if over != nil && over.Last == 1 { // only a damaged manifest names the folder of a temporary: a later run sweeps it
		maps.DeleteFunc(now, isTemp)
	}
	isUntouched := over != nil && same(before, now) && (over.IsMixed || oneOf(now, st.nodes))
	if err != nil || !oneOf(now, st.nodes) && !isUntouched {
		t.Errorf("%s, %s, %s: bit %d flipped: got %v, set aside %+v, and the files\n%v\nwant no error, and one of %v",
			st.name, rel, name, bit, err, aside, now, st.nodes)
	}
	switch {
	case aside != nil:
		return "set aside"
	case count.seen > 0:
		return "done"
	}
	b.spoil(filepath.Join(b.root, rel), bit)

	return "unchanged"
}

func oneOf(n map[string]node, all []map[string]node) bool {
	for _, m := range all {
		if same(n, m) {
			return true
		}
	}
	return false
}

// TestNewerFormatIsRefused: a document that a later prelet sealed is not called damaged, and one whose version alone
// was hit is.
func TestNewerFormatIsRefused(t *testing.T) {
	newer := encode(&held{Version: formatVersion + 1})
	if _, err := parseHeld(newer); !errors.Is(err, ErrNewer) {
		t.Errorf("newer: got %v, want %v", err, ErrNewer)
	}
	hit := bytes.Replace(encode(&held{Version: formatVersion}), []byte(`:2`), []byte(`:3`), 1)
	if _, err := parseHeld(hit); !errors.Is(err, errSum) {
		t.Errorf("version hit: got %v, want %v", err, errSum)
	}
	for _, doc := range []string{`{"version":2}`, string(encode(&held{Version: 1})), `{"version":1,"sha256":"` + Checksum(nil) + `"}`} {
		if _, err := parseHeld([]byte(doc)); err == nil {
			t.Errorf("%s: got no error, want a refusal", doc)
		}
	}
}
