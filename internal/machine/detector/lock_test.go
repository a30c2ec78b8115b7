package detector

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/plugins/contract"
)

func lockOf(name string) tape.LockEntry {
	d, err := json.Marshal(
		contract.Description{
			Name:         name,
			Version:      "1.0",
			Match:        contract.Match{Always: true},
			LabelDomains: []string{"example.com"},
		},
	)
	if err != nil {
		panic(err)
	}
	return tape.LockEntry{Name: name, SHA256: strings.Repeat("ab", 32), Describe: d}
}

func put(t testing.TB, path string, text []byte, mode os.FileMode) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, text, 0o600))
	must(t, os.Chmod(path, mode))
}

// A package's lock counts, and the site's own wins.
func TestLockOrder(t *testing.T) {
	root := t.TempDir()
	h := New(HostConfig{Root: root})
	if _, err := h.Lock("gaudi"); err != errNoLock {
		t.Errorf("Lock(gaudi): got %v, want %v", err, errNoLock)
	}
	fragment, err := WriteFragment(lockOf("gaudi"))
	must(t, err)
	put(t, filepath.Join(root, Fragments, "gaudi.json"), fragment, 0o644)
	l, err := h.Lock("gaudi")
	if err != nil || h.Program(l.LockEntry) != filepath.Join(root, Programs, "gaudi") {
		t.Errorf("got lock %+v, %v, want that of the fragment", l, err)
	}
	own := lockOf("gaudi")
	own.Path = "/opt/gaudi/detector"
	for _, add := range []tape.LockEntry{lockOf("other"), lockOf("gaudi"), own} { // the last of a name stays
		text, err := AddToSite(h.SiteLock(), add)
		must(t, err)
		put(t, h.SiteLock(), text, 0o644)
	}
	l, err = h.Lock("gaudi")
	if err != nil || l.File != filepath.Join(root, SiteLock) ||
		h.Program(l.LockEntry) != filepath.Join(root, "/opt/gaudi/detector") {
		t.Errorf("got lock %+v, %v, want that of the site", l, err)
	}
	if got := strings.Join(h.Installed(), " "); got != "gaudi other" {
		t.Errorf("got installed %s, want all names", got)
	}
}

// What decides which program is executed is refused whole when anything of it is odd, or somebody else may have
// written it.
func TestLockRefuses(t *testing.T) {
	change := func(f func(*tape.LockEntry)) []byte {
		l := lockOf("gaudi")
		f(&l)
		text, err := WriteFragment(l)
		must(t, err)
		return text
	}
	good := change(func(*tape.LockEntry) {})
	for want, text := range map[string][]byte{
		"not a lock file": []byte("{"),
		"line 1, column 31: name is the number 3. Write a text, in double quotes": []byte(`{"format_version": 1, "name": 3}`),
		"its field version cannot be a JSON number":                               change(func(l *tape.LockEntry) { l.Describe = []byte(`{"name":"gaudi","version":1}`) }),
		"unsupported format_version 2":                                            []byte(strings.Replace(string(good), `"format_version": 1`, `"format_version": 2`, 1)),
		"lock of \"other\"":                                                       change(func(l *tape.LockEntry) { *l = lockOf("other") }),
		"64 lower-case":                                                           change(func(l *tape.LockEntry) { l.SHA256 = strings.Repeat("AB", 32) }),
		"64 lower":                                                                change(func(l *tape.LockEntry) { l.SHA256 = "ab" }),
		"want a clean absolute path":                                              change(func(l *tape.LockEntry) { l.Path = "/opt/../etc/shadow" }),
		"the name in its description is":                                          change(func(l *tape.LockEntry) { l.Describe = lockOf("other").Describe }),
		"nothing to match":                                                        change(func(l *tape.LockEntry) { l.Describe = []byte(`{"name":"gaudi","version":"1"}`) }),
	} {
		root := t.TempDir()
		put(t, filepath.Join(root, Fragments, "gaudi.json"), text, 0o644)
		if _, err := New(HostConfig{Root: root}).Lock("gaudi"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	for name, spoil := range map[string]func(path string) error{
		"gaudi.json can be written by everybody":       func(p string) error { return os.Chmod(p, 0o666) },
		"detectors.lock.d can be written by everybody": func(p string) error { return os.Chmod(filepath.Dir(p), 0o777) },
		"prelet can be written by everybody":           func(p string) error { return os.Chmod(filepath.Dir(filepath.Dir(p)), 0o777) },
		"it is a folder, not a file":                   func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o755)) },
	} {
		root := t.TempDir()
		path := filepath.Join(root, Fragments, "gaudi.json")
		put(t, path, good, 0o644)
		must(t, spoil(path))
		if _, err := New(HostConfig{Root: root}).Lock("gaudi"); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want %q, got %v", name, err)
		}
	}
}

// The program of a site's lock is where a node has programs, or it is there on the node of the site.
func TestSitePaths(t *testing.T) {
	for path, isRefused := range table.YAML[map[string]bool](t, `
'': false
/usr/lib/prelet/detectors/gaudi: false
/opt/vendor/gaudi: false
/home/me/build/gaudi: true
/root/gaudi: true
/tmp/build/gaudi: true
/builds/group/project/gaudi: true
/usr/src/app/gaudi: true
/usr: true
/usr/lib/../../home/me/gaudi: true
build/gaudi: true
./gaudi: true
`) {
		root := t.TempDir()
		l := lockOf("gaudi")
		l.Path = path
		text, err := AddToSite(filepath.Join(root, "none"), l)
		must(t, err)
		put(t, root+SiteLock, text, 0o644)

		elsewhere := New(HostConfig{SiteLocks: []string{root + SiteLock}, Elsewhere: true})
		if got := elsewhere.CheckSiteLocks(); len(got) > 0 != isRefused {
			t.Errorf("path %q: got %v, want it refused: %t", path, got, isRefused)
		}
		if filepath.Clean(path) != path || !filepath.IsAbs(path) {
			continue
		}
		put(t, filepath.Join(root, path), nil, 0o755)
		onNode := New(HostConfig{Root: root})
		if got := onNode.CheckSiteLocks(); len(got) > 0 {
			t.Errorf("path %q: got %v, want no error where the program is there", path, got)
		}
	}
}

func FuzzLock(f *testing.F) {
	good, err := WriteFragment(lockOf("gaudi"))
	must(f, err)
	f.Add(good)
	f.Add([]byte(`{"format_version":1,"name":"gaudi","sha256":"","describe":{"facts":[{"type":{"kind":"list"}}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		root := t.TempDir()
		put(t, filepath.Join(root, Fragments, "gaudi.json"), text, 0o644)
		l, err := New(HostConfig{Root: root}).Lock("gaudi")
		if err == nil && (l.Name != "gaudi" || len(l.SHA256) != 64) {
			t.Errorf("got lock %+v, want a valid one", l)
		}
	})
}

// FuzzAnswer: what gets through has nothing that was not described, and no secret's placeholder.
func FuzzAnswer(f *testing.F) {
	f.Add(
		[]byte(
			`{"attributes":{"a":"b"},"facts":[{"name":"n","value":1}],"labels":[{"key":"example.com/x","value":"1"}],"devices":[{"address":"0000:17:00.0","kind":"gpu"}]}`,
		),
	)
	f.Add([]byte(`{"problems":[{"path":"a[0].b","summary":"no"}]}`))
	d := contract.Description{
		Name:         "x",
		Version:      "1",
		LabelDomains: []string{"example.com"},
		Match:        contract.Match{Always: true},
		Facts:        []contract.Attribute{{Name: "n", Type: contract.Type{Kind: contract.Number}}},
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var a contract.Answer
		if json.Unmarshal(text, &a) != nil {
			return
		}
		out, err := checkAnswer(d, &a, tape.DetectorReq{Devices: []tape.PCIDevice{{Address: "0000:17:00.0"}}})
		if err != nil {
			return
		}
		for k := range out.Labels {
			if !strings.Contains(k, "example.com/") {
				t.Errorf("got label %q, want only valid ones", k)
			}
		}
		for _, dev := range out.Devices {
			if dev.Address != "" && dev.Address != "0000:17:00.0" {
				t.Errorf("got device %q, want only valid addresses", dev.Address)
			}
		}
		for k := range out.Facts {
			if k != "n" {
				t.Errorf("got fact %q, want only described ones", k)
			}
		}
		b, err := json.Marshal(out)
		if err != nil || strings.ContainsAny(string(b), "\ue000\ue001\x1b") {
			t.Errorf("encoding the answer: got %s, %v, want no error", b, err)
		}
	})
}

// TestForeignDevices checks that a detector may report devices of other vendors only if it describes that and the site
// allows it.
func TestForeignDevices(t *testing.T) {
	own, other := "0000:17:00.0", "0000:1b:00.0"
	answer := contract.Answer{Devices: []contract.Device{{Address: own}, {Address: other}, {}}}
	asked := []tape.PCIDevice{{Address: own, Device: "8086:1593", Class: "020000"}}
	for _, c := range table.YAML[[]struct {
		Describes, Allows bool
		Want              string // the addresses that are taken; "" for an answer that is refused
		Foreign           int
	}](t, `
- {foreign: 0}
- {allows: true, foreign: 0}
- {describes: true, want: ' {own}', foreign: 1}
- {describes: true, allows: true, want: ' {own} {other}', foreign: 0}
`, "own", own, "other", other) {
		d := contract.Description{
			Name:    "x",
			Version: "1",
			Match:   contract.Match{PCIIDs: []string{"8086:*"}},
			Wants:   contract.Needs{AnyPCIDevice: c.Describes},
		}
		out, err := checkAnswer(
			d,
			&answer,
			tape.DetectorReq{Devices: asked, Allow: tape.Grants{AnyPCIDevice: c.Allows}},
		)
		var got []string
		for _, dev := range out.Devices {
			got = append(got, dev.Address)
		}
		if text := strings.Join(got, " "); (err != nil) != (c.Want == "") || err == nil && text != c.Want ||
			len(out.Foreign) != c.Foreign {
			t.Errorf("described %t, allowed %t: got %q, foreign %q, %v; want %q",
				c.Describes, c.Allows, text, out.Foreign, err, c.Want)
		}
		if err != nil && !strings.Contains(err.Error(), other+" was not in the request") {
			t.Errorf("described %t, allowed %t: got %q; want the address", c.Describes, c.Allows, err)
		}
	}
}
