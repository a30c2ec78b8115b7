package generation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"time"
)

// manifest is the first line of generations/N: everything about a generation that never changes.
type manifest struct {
	Version  int       `json:"version"`
	Gen      int       `json:"gen"`
	Parent   int       `json:"parent"` // the generation in place before, 0: none
	Time     time.Time `json:"time"`
	PlanID   string    `json:"plan_id"`
	Restores *int      `json:"restores,omitempty"` // of a rollback: the generation that it restores
	Entries  []Entry   `json:"entries"`
	Folders  []string  `json:"folders,omitempty"` // created by prelet, in use by this generation
	Leaving  []string  `json:"leaving,omitempty"` // created by prelet, no longer in use: removed when empty
	Making   []string  `json:"making,omitempty"`  // created by this commit: removed if it is never committed
	Adopted  bool      `json:"adopted,omitempty"` // records files that were in place already
	Judged   *status   `json:"judged,omitempty"`  // the status after the publish, if no caller judges the generation
	Parts    []part    `json:"parts,omitempty"`   // the bytes after the manifest in the file
}

// status is generations/N.status.json: the verdict on a generation.
type status struct {
	Version int             `json:"version"`
	Gen     int             `json:"gen,omitempty"` // 0 in format 1 and within a manifest
	Status  Status          `json:"status"`
	Why     string          `json:"why,omitempty"`
	Time    time.Time       `json:"time"`
	Retired []string        `json:"retired,omitempty"` // targets that were removed within the generation
	Report  json.RawMessage `json:"report,omitempty"`  // of the caller that judged
}

// Names of blobs, and SHA-256 checksums in lower-case hex.
var (
	blobName  = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,60}(\.[a-z0-9]{1,16})?$`)
	sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// isBlobName reports whether a proposal may keep a blob of this name.
func isBlobName(name string) bool {
	return name != reportName && blobName.MatchString(name)
}

// tempName returns the name of the temporary of the i-th target of a generation. It does not contain the target's
// name, so that no name is too long.
func tempName(gen, i int) string {
	return fmt.Sprintf(".prelet-%d-%d%s", gen, i, tmpSuffix)
}

// listTemps returns the temporaries of a commit, as target paths.
func (m *manifest) listTemps() (out []string) {
	for i, e := range m.Entries {
		if e.hasChange() && e.New.Kind == File {
			temp := tempName(m.Gen, i)
			out = append(out, path.Join(path.Dir(e.Path), temp))
		}
	}

	return out
}

func parseManifest(b []byte) (*manifest, error) {
	m := &manifest{}
	if err := decode(b, m, &m.Version); err != nil {
		return nil, err
	}

	return m, explainNewer(m.Version, m.check())
}

func (m *manifest) check() error {
	earlier := []int{m.Parent}
	if m.Restores != nil {
		earlier = append(earlier, *m.Restores)
	}
	if slices.Min(earlier) < 0 || slices.Max(earlier) >= m.Gen {
		return fmt.Errorf("invalid numbers: generation %d after %v", m.Gen, earlier)
	}

	isListed := map[string]bool{}
	for _, e := range m.Entries {
		if err := e.check(); err != nil {
			return err
		}
		if isListed[e.Path] {
			return fmt.Errorf("duplicate path %s", e.Path)
		}
		isListed[e.Path] = true
	}

	for _, f := range slices.Concat(m.Folders, m.Leaving, m.Making) {
		if err := checkPath(f); err != nil {
			return err
		}
	}
	if m.Judged != nil {
		if err := m.Judged.check(); err != nil {
			return err
		}
	}

	return m.checkParts()
}

// checkParts refuses an invalid list of parts, and one without a content that the entries need.
func (m *manifest) checkParts() error {
	isKept := map[string]bool{}
	for _, p := range m.Parts {
		limit := int64(MaxContent)
		if p.Blob != "" {
			limit = maxBlob
		}
		if !sha256Hex.MatchString(p.SHA256) || p.Size < 0 || p.Size > limit {
			return fmt.Errorf("invalid part with sha256 %q and size %d", p.SHA256, p.Size)
		}
		if p.Blob != "" && !isBlobName(p.Blob) {
			return fmt.Errorf("invalid blob name %q", p.Blob)
		}

		key := cmp.Or(p.Blob, p.SHA256)
		if isKept[key] {
			return fmt.Errorf("duplicate part %s", key)
		}
		isKept[key] = true
	}

	for _, sha := range contentsOf(m) {
		if !isKept[sha] {
			return fmt.Errorf("missing content %s", sha)
		}
	}

	return nil
}

func (e Entry) check() error {
	if err := checkPath(e.Path); err != nil {
		return err
	}
	for _, s := range []State{e.Old, e.New, e.Original} {
		if err := s.check(); err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
	}

	return nil
}

func (s State) check() error {
	switch s.Kind {
	case File:
		if !sha256Hex.MatchString(s.SHA256) || s.Size < 0 {
			return fmt.Errorf("invalid file with sha256 %q and size %d", s.SHA256, s.Size)
		}
	case Absent, Dir:
		if s.SHA256 != "" || s.Size != 0 {
			return errors.New("unexpected content: it is not a file")
		}
	default:
		return fmt.Errorf("unknown kind %q", s.Kind)
	}
	if s.Mode > maxMode || s.UID < 0 || s.GID < 0 {
		return fmt.Errorf("invalid mode %o or owner %d:%d", s.Mode, s.UID, s.GID)
	}

	return nil
}

func parseStatus(b []byte) (*status, error) {
	s := &status{}
	if err := decode(b, s, &s.Version); err != nil {
		return nil, err
	}

	return s, explainNewer(s.Version, s.check())
}

func (s *status) check() error {
	if s.Gen < 0 {
		return fmt.Errorf("invalid generation %d", s.Gen)
	}

	switch s.Status {
	case StatusPending, StatusGood, StatusRolledBack, StatusRestored:
		return nil
	}

	return fmt.Errorf("unknown status %q", s.Status)
}
