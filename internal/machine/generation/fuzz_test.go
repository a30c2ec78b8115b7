package generation

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// fuzzDocument feeds a parser: it never panics, and what it takes it takes again after encoding.
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
			version.Version < formatVersion {
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
				Old:    FileState{Kind: File, SHA256: Checksum(nil), Mode: 0o600, Xattrs: map[string][]byte{"user.a": {1}}},
				New:    FileState{Kind: File, SHA256: Checksum([]byte("x")), Size: 1},
			},
			{Path: "/etc/d", Action: ActionDelete, Old: FileState{Kind: Dir, Mode: 0o755}, Dropped: true, Why: "w"},
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
	fuzzDocument(f, decode[manifest], sampleManifest(), bad)
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
		decode[status],
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
