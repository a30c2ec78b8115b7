package generation

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// fuzzDocument feeds a parser: it never panics, what it takes it takes again after encoding, and a later version it
// refuses.
func fuzzDocument[T any](f *testing.F, parse func([]byte) (*T, error), seeds ...any) {
	for _, s := range seeds {
		f.Add(encode(s))
	}
	for _, s := range []string{"", "{}", "null", "[]", `{"version":1}`, `{"version":2}`, `{"version":1}{}`, `{"version":1,"gen":-1}`, `{"version":1e9}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := parse(b)
		if err != nil {
			return
		}
		again, err := parse(encode(v))
		if err != nil {
			t.Fatalf("%s: encoded again: got %v, want no error", b, err)
		}
		if !reflect.DeepEqual(encode(v), encode(again)) {
			t.Fatalf("%s: encoded again: got another value, want the same", b)
		}
		var version struct{ Version int }
		if err := json.Unmarshal(b, &version); err != nil ||
			version.Version != formatVersion && version.Version != unsealed {
			t.Fatalf("%s: got version %d (%v), want a refusal", b, version.Version, err)
		}
	})
}

func sampleManifest() *manifest {
	to := 1
	return &manifest{
		Version:  formatVersion,
		Gen:      3,
		Parent:   2,
		Time:     time.Unix(1, 0).UTC(),
		PlanID:   "p",
		Restores: &to,
		Entries: []Entry{
			{
				Path:   "/etc/a",
				Action: ActionUpdate,
				Old:    State{Kind: File, SHA256: Checksum(nil), Mode: 0o600, Xattrs: map[string][]byte{"user.a": {1}}},
				New:    State{Kind: File, SHA256: Checksum([]byte("x")), Size: 1},
			},
			{Path: "/etc/d", Action: ActionDelete, Old: State{Kind: Dir, Mode: 0o755}, Dropped: true, Why: "w"},
		},
		Folders: []string{"/etc/d"},
		Leaving: []string{"/etc/e"},
		Making:  []string{"/etc/d"},
		Judged:  &status{Version: 1, Status: StatusGood, Report: []byte(`{"why":"not judged"}`)},
		Parts: []part{
			{SHA256: Checksum([]byte("x")), Size: 1},
			{SHA256: Checksum(nil)},
			{Blob: "plan.json", SHA256: Checksum([]byte("{}")), Size: 2},
		},
	}
}

func FuzzManifest(f *testing.F) {
	bad := sampleManifest()
	bad.Entries[0].Path = "/etc/../x"
	fuzzDocument(f, parseManifest, sampleManifest(), bad)
}

func FuzzJournal(f *testing.F) {
	fuzzDocument(
		f,
		parseJournal,
		&Journal{
			Version:    formatVersion,
			Phase:      PhaseVerify,
			Gen:        2,
			Manifest:   Checksum(nil),
			Tries:      1,
			BootID:     "b",
			CommitMono: 3,
			CommitTime: time.Unix(1, 0).UTC(),
		},
		&Journal{
			Version:  formatVersion,
			Phase:    PhaseRollback,
			Gen:      3,
			From:     2,
			To:       1,
			Manifest: Checksum(nil),
			Why:      "w",
			HoldPlan: "p",
		},
	)
}

func FuzzStatus(f *testing.F) {
	fuzzDocument(
		f,
		parseStatus,
		&status{Version: formatVersion, Status: StatusGood, Retired: []string{"/etc/a"}, Report: []byte("{}")},
	)
}

func FuzzHeld(f *testing.F) {
	fuzzDocument(
		f,
		parseHeld,
		&held{Version: formatVersion, Plans: map[string]heldEntry{"p": {Why: "w"}}, Pin: &heldEntry{Gen: 1}},
	)
}

// What a parser must refuse, one document for each reason.
func TestParsersRefuse(t *testing.T) {
	manifests := map[string]func(m *manifest){
		"generation 0":     func(m *manifest) { m.Gen = 0 },
		"parent after":     func(m *manifest) { m.Parent = 3 },
		"restores itself":  func(m *manifest) { *m.Restores = 3 },
		"relative path":    func(m *manifest) { m.Entries[0].Path = "etc/a" },
		"dotted path":      func(m *manifest) { m.Entries[0].Path = "/etc/../a" },
		"twice":            func(m *manifest) { m.Entries[1].Path = m.Entries[0].Path },
		"short sum":        func(m *manifest) { m.Entries[0].New.SHA256 = "ab" },
		"sum of a folder":  func(m *manifest) { m.Entries[1].Old.SHA256 = Checksum(nil) },
		"kind":             func(m *manifest) { m.Entries[0].New.Kind = "link" },
		"mode":             func(m *manifest) { m.Entries[0].New.Mode = 0o10000 },
		"owner":            func(m *manifest) { m.Entries[0].New.UID = -1 },
		"folder":           func(m *manifest) { m.Folders[0] = "/" },
		"folder made":      func(m *manifest) { m.Making[0] = "/etc/../passwd" },
		"status":           func(m *manifest) { m.Judged.Status = "fine" },
		"blob with a path": func(m *manifest) { m.Parts[2].Blob = "../plan.json" },
		"reserved blob":    func(m *manifest) { m.Parts[2].Blob = "report.json" },
		"part twice":       func(m *manifest) { m.Parts[1] = m.Parts[0] },
		"sum of a part":    func(m *manifest) { m.Parts[2].SHA256 = "ab" },
		"size of a part":   func(m *manifest) { m.Parts[2].Size = -1 },
		"huge part":        func(m *manifest) { m.Parts[2].Size = maxBlob + 1 },
		"content missing":  func(m *manifest) { m.Parts = m.Parts[1:] },
	}
	if _, err := parseManifest(encode(sampleManifest())); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range manifests {
		m := sampleManifest()
		spoil(m)
		if _, err := parseManifest(encode(m)); err == nil {
			t.Errorf("manifest, %s: got no error, want a refusal", name)
		}
	}
	if _, err := parseStatus([]byte(`{"version":1,"status":"fine","time":"2026-01-01T00:00:00Z"}`)); err == nil {
		t.Error("an unknown status was taken")
	}
}
