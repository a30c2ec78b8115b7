package probe

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/tape"
)

// newGeneration commits a generation with the files /etc/plain and /etc/secret below a new root. /etc/plain existed.
func newGeneration(t *testing.T) (root string, store *generation.Store) {
	t.Helper()
	root = t.TempDir()
	place(t, root, "/etc/plain", "before")
	target := func(path, text string, secret bool) generation.Target {
		return generation.Target{
			Path: path, Kind: generation.File, Content: []byte(text), Mode: 0o644, Secret: secret,
			UID: generation.Keep, GID: generation.Keep,
		}
	}
	plan := []byte(`{"files":[{"path":"/etc/plain","purpose":"kubelet-config"}]}`)
	return root, openStore(t, root, generation.Proposal{
		PlanID:  "p1",
		Targets: []generation.Target{target("/etc/plain", "text", false), target("/etc/secret", "hidden", true)},
		Blobs:   map[string][]byte{"plan.json": plan},
	})
}

// openStore is a store below a root with one generation.
func openStore(t *testing.T, root string, p generation.Proposal) *generation.Store {
	t.Helper()
	store, err := generation.Open(t.Context(), generation.StoreConfig{
		Root: root, Dir: filepath.Join(root, "var/lib/prelet"), BootID: strings.Repeat("0", 32),
	})
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	tx, err := store.Begin(p)
	if err == nil {
		_, err = tx.Commit()
	}
	if err == nil {
		err = tx.Publish()
	}
	must(t, err)
	return store
}

func TestTarget(t *testing.T) {
	root, store := newGeneration(t)
	l := newLive(t, Sources{Root: root, Store: store, Credentials: creds{"same": "hidden", "other": "x"}})
	for _, c := range table.YAML[[]struct {
		Name   string
		Write  string // into the file before; "gone" removes it
		Path   string
		Secret bool
		Wanted string

		Exists     bool
		Text       string
		Same       bool
		Drift      string
		Uncompared string
	}](t, `
- {name: as written, path: /etc/plain, exists: true, text: text}
- {name: not a target, path: /etc/none}
- {name: changed, write: by hand, path: /etc/plain, exists: true, text: by hand, drift: its content was changed}
- {name: not UTF-8, write: '{xff}', path: /etc/plain, exists: true, drift: its content was changed}
- {name: no longer a secret, path: /etc/secret, exists: true}
- {name: the same secret, path: /etc/secret, secret: true, wanted: '{cred:same}', exists: true, same: true}
- {name: another secret, path: /etc/secret, secret: true, wanted: '{cred:other}', exists: true}
- {name: no credential, path: /etc/secret, secret: true, wanted: '{cred:gone}', exists: true,
   uncompared: credential "gone"}
- {name: a character of placeholders, write: "# \ue000", path: /etc/secret, secret: true, wanted: "# \ue000",
   exists: true, same: true, drift: its content was changed}
- {name: a secret that is gone, write: gone, path: /etc/secret, secret: true, wanted: '{cred:same}',
   drift: it is gone}
`, "cred:same", "\ue000cred:same\ue001", "cred:other", "\ue000cred:other\ue001", "cred:gone", "\ue000cred:gone\ue001") {
		switch c.Write {
		case "":
		case "gone":
			must(t, os.Remove(filepath.Join(root, c.Path)))
		default:
			place(t, root, c.Path, strings.ReplaceAll(c.Write, "{xff}", "\xff"))
		}
		got, a, err := tape.Target.Ask(t.Context(), l, tape.TargetReq{Path: c.Path, Secret: c.Secret, Want: c.Wanted})
		if err != nil {
			t.Errorf("%s: got %+v, want an answer", c.Name, a)
			continue
		}
		if c.Secret && got.SHA256 != "" {
			t.Errorf("%s: got hash %s of a secret, want none", c.Name, got.SHA256)
		}
		if (got.Uncompared == "") != (c.Uncompared == "") || !strings.Contains(got.Uncompared, c.Uncompared) {
			t.Errorf("%s: uncompared: got %q, want %q", c.Name, got.Uncompared, c.Uncompared)
		}
		if got.Exists != c.Exists || got.Text != c.Text || got.Same != c.Same || got.Drift != c.Drift {
			t.Errorf("%s: got %+v, want %+v", c.Name, got, c)
		}
	}
}

// TestGarbledState: the content of a file that is not a state of a manager stays on the node. The answer only has that.
func TestGarbledState(t *testing.T) {
	root := t.TempDir()
	l := newLive(t, Sources{Root: root})

	for _, c := range table.YAML[[]struct {
		Name, Path, Text string
		Want             bool
	}](t, `
- {name: a state, path: memory_manager_state, text: '{"policyName":"Static","machineState":{},"checksum":1}'}
- {name: an empty file, path: memory_manager_state, want: true}
- {name: cut off, path: cpu_manager_state, text: '{"policyName":"static","defaultCp', want: true}
- {name: bytes, path: cpu_manager_state, text: "\x00{xff}", want: true}
- {name: not an object, path: cpu_manager_state, text: 'null', want: true}
- {name: another file, path: device_state, text: "\x00{xff}"}
`) {
		path := "/var/lib/kubelet/" + c.Path
		placeMode(t, root, path, strings.ReplaceAll(c.Text, "{xff}", "\xff"), 0o600)

		got, _, err := tape.Target.Ask(t.Context(), l, tape.TargetReq{Path: path})
		if err != nil || got.Garbled != c.Want || c.Want && (got.Text != "" || got.SHA256 != "") {
			t.Errorf("%s: got %+v, %v; want garbled %v, and no content of such a file", c.Name, got, err, c.Want)
		}
		must(t, os.Remove(filepath.Join(root, path)))
	}
}

func TestOriginal(t *testing.T) {
	root, store := newGeneration(t)
	place(t, root, "/etc/other", "now")
	l := newLive(t, Sources{Root: root, Store: store})

	for path, want := range map[string]tape.TargetAns{
		"/etc/plain":  {Exists: true, Text: "before"},
		"/etc/secret": {},
		"/etc/other":  {Exists: true, Text: "now"},
		"/etc/none":   {},
	} {
		got, a, err := tape.Original.Ask(t.Context(), l, tape.OriginalReq{Path: path})
		if err != nil || got.Exists != want.Exists || got.Text != want.Text {
			t.Errorf("%s: got %+v, want %+v", path, a, want)
		}
	}
}

func TestManaged(t *testing.T) {
	root, store := newGeneration(t)
	l := newLive(t, Sources{Root: root, Store: store})

	got, a, err := tape.Managed.Ask(t.Context(), l, tape.ManagedReq{})
	if err != nil || got.Generation != 1 || len(got.Targets) != 2 {
		t.Fatalf("got %+v, want two targets of generation 1", a)
	}
	for i, want := range []tape.ManagedTarget{
		{Path: "/etc/plain", Purpose: "kubelet-config", Action: "restore"},
		{Path: "/etc/secret", Action: "delete"},
	} {
		if got := got.Targets[i]; !reflect.DeepEqual(got, want) {
			t.Errorf("target %d: got %+v, want %+v", i, got, want)
		}
	}
}
