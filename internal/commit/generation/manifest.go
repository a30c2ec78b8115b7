package generation

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// manifest is the first line of generations/N: everything about a generation that never changes.
type manifest struct {
	Version  int       `json:"version"`
	Gen      int       `json:"gen"`
	Parent   int       `json:"parent"` // the generation in place before, 0: none
	Time     time.Time `json:"time"`
	PlanID   string    `json:"plan_id"`
	Restores *int      `json:"restores,omitempty"` // going back: to which
	Entries  []Entry   `json:"entries"`
	Folders  []string  `json:"folders,omitempty"` // made by us, in use by this generation
	Leaving  []string  `json:"leaving,omitempty"` // made by us, no longer in use: removed when empty
	Making   []string  `json:"making,omitempty"`  // made by this very commit: removed when it never happened
	Adopted  bool      `json:"adopted,omitempty"` // made of what was in place already
	Judged   *status   `json:"judged,omitempty"`  // nobody is going to judge it: what it is as soon as it is published
	Parts    []part    `json:"parts,omitempty"`   // what follows the manifest in the file
}

// status is generations/N.status.json: what became of it.
type status struct {
	Version int             `json:"version"`
	Gen     int             `json:"gen,omitempty"` // whose it is; 0 in those of format 1, and within a manifest
	Status  Status          `json:"status"`
	Why     string          `json:"why,omitempty"`
	Time    time.Time       `json:"time"`
	Retired []string        `json:"retired,omitempty"` // targets that were removed within the generation
	Report  json.RawMessage `json:"report,omitempty"`  // of who judged
}

// Names of blobs, and SHA-256 sums in lower-case hex.
var (
	blobName  = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,60}(\.[a-z0-9]{1,16})?$`)
	sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// only says whether a text has no other characters than these.
func only(s, chars string) bool { return strings.Trim(s, chars) == "" }

// reserved are names that Proposal.Blobs may not use.
func reserved(name string) bool { return name == reportName }

// tempOf is the temporary of the i-th target of a generation. It does not hold the target's name, so that no name is too long.
func tempOf(gen, i int) string { return fmt.Sprintf(".prelet-%d-%d%s", gen, i, tmpSuffix) }

// temps are the temporaries of a commit, as target paths.
func (m *manifest) temps() (out []string) {
	for i, e := range m.Entries {
		if e.changes() && e.New.Kind == File {
			out = append(out, path.Join(path.Dir(e.Path), tempOf(m.Gen, i)))
		}
	}
	return out
}

func parseManifest(b []byte) (*manifest, error) {
	m := &manifest{}
	if err := decode(b, m, &m.Version); err != nil {
		return nil, err
	}
	if m.Gen < 1 || m.Parent < 0 || m.Parent >= m.Gen || m.Restores != nil && (*m.Restores < 0 || *m.Restores >= m.Gen) {
		return nil, fmt.Errorf("numbers that cannot be: generation %d after %d", m.Gen, m.Parent)
	}
	have := map[string]bool{}
	for i := range m.Entries {
		e := &m.Entries[i]
		if err := checkPath(e.Path); err != nil {
			return nil, err
		}
		if have[e.Path] {
			return nil, fmt.Errorf("%s is named twice", e.Path)
		}
		have[e.Path] = true
		for _, s := range []State{e.Old, e.New, e.Original} {
			if err := s.check(); err != nil {
				return nil, fmt.Errorf("%s: %w", e.Path, err)
			}
		}
	}
	for _, f := range slices.Concat(m.Folders, m.Leaving, m.Making) {
		if err := checkPath(f); err != nil {
			return nil, err
		}
	}
	if m.Judged != nil {
		if err := m.Judged.check(); err != nil {
			return nil, err
		}
	}
	return m, m.checkParts()
}

// checkParts refuses a list of parts that cannot be, and one that lacks a content that the entries need.
func (m *manifest) checkParts() error {
	have := map[string]bool{}
	for _, p := range m.Parts {
		if !sha256Hex.MatchString(p.SHA256) || p.Size < 0 || p.Size > MaxContent {
			return fmt.Errorf("a part with sha256 %q and size %d", p.SHA256, p.Size)
		}
		if p.Blob != "" && (!blobName.MatchString(p.Blob) || reserved(p.Blob)) {
			return fmt.Errorf("blob %q has a name that cannot be", p.Blob)
		}
		key := p.Blob
		if key == "" {
			key = p.SHA256
		}
		if have[key] {
			return fmt.Errorf("%s is kept twice", key)
		}
		have[key] = true
	}
	for _, sha := range contentsOf(m) {
		if !have[sha] {
			return fmt.Errorf("it lacks content %s", sha)
		}
	}
	return nil
}

func (s State) check() error {
	switch s.Kind {
	case File:
		if !sha256Hex.MatchString(s.SHA256) || s.Size < 0 {
			return fmt.Errorf("a file with sha256 %q and size %d", s.SHA256, s.Size)
		}
	case Absent, Dir:
		if s.SHA256 != "" || s.Size != 0 {
			return errors.New("content where there is no file")
		}
	default:
		return fmt.Errorf("unknown kind %q", s.Kind)
	}
	if s.Mode > 0o7777 || s.UID < 0 || s.GID < 0 {
		return fmt.Errorf("mode %o, owner %d:%d", s.Mode, s.UID, s.GID)
	}
	return nil
}

func parseStatus(b []byte) (*status, error) {
	s := &status{}
	if err := decode(b, s, &s.Version); err != nil {
		return nil, err
	}
	return s, s.check()
}

func (s *status) check() error {
	if s.Gen < 0 {
		return fmt.Errorf("generation %d", s.Gen)
	}

	switch s.Status {
	case StatusPending, StatusGood, StatusRolledBack, StatusRestored:
		return nil
	}
	return fmt.Errorf("unknown status %q", s.Status)
}
