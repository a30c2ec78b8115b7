package pluginhost

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages"
)

// Where detectors and their locks are. Packages bring the first two, a site the third, which wins.
const (
	Programs  = "/usr/lib/prelet/detectors"
	Fragments = "/usr/lib/prelet/detectors.lock.d"
	SiteLock  = "/etc/prelet/detectors.lock.json"
)

const (
	lockFormat  = 1
	maxLockFile = 4 << 20
)

// fragment is the file that a detector's package ships: one lock.
type fragment struct {
	FormatVersion int `json:"format_version"`
	world.Lock
}

// siteLock is a site's own file: any number of locks.
type siteLock struct {
	FormatVersion int          `json:"format_version"`
	Detectors     []world.Lock `json:"detectors"`
}

// errNoLock is a detector of which nothing is known.
var errNoLock = errors.New("it has no lock")

// Lock finds what is known of a detector: in the site's lock, else in the fragment of its name. The error is errNoLock where
// there is neither.
func (h *Host) Lock(name string) (world.LockAns, error) {
	if !stages.IsDetectorName(name) {
		return world.LockAns{}, fmt.Errorf("%q is no name of a detector: a lower-case letter, then letters, digits and -, at most 63", name)
	}
	for _, path := range h.siteLocks() {
		locks, err := readSiteLock(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return world.LockAns{}, fmt.Errorf("%s: %w", path, err)
		}
		if i := slices.IndexFunc(locks, func(l world.Lock) bool { return l.Name == name }); i >= 0 {
			return checked(path, locks[i])
		}
	}
	path := h.path(filepath.Join(Fragments, name+".json"))
	var f fragment
	switch err := readJSON(path, &f); {
	case errors.Is(err, fs.ErrNotExist):
		return world.LockAns{}, errNoLock
	case err != nil:
		return world.LockAns{}, fmt.Errorf("%s: %w", path, err)
	case f.FormatVersion != lockFormat:
		return world.LockAns{}, fmt.Errorf("%s: format %d, and this prelet reads %d", path, f.FormatVersion, lockFormat)
	case f.Name != name:
		return world.LockAns{}, fmt.Errorf("%s: it is the lock of %q", path, f.Name)
	}
	return checked(path, f.Lock)
}

func (h *Host) siteLocks() []string {
	if len(h.o.SiteLocks) > 0 {
		return h.o.SiteLocks
	}
	return []string{h.path(SiteLock)}
}

func checked(path string, l world.Lock) (world.LockAns, error) {
	if b, err := hex.DecodeString(l.SHA256); err != nil || len(b) != 32 || strings.ToLower(l.SHA256) != l.SHA256 {
		return world.LockAns{}, fmt.Errorf("%s: the sha256 of %s has not 64 lower-case hexadecimal digits", path, l.Name)
	}
	if l.Path != "" && (!filepath.IsAbs(l.Path) || filepath.Clean(l.Path) != l.Path) {
		return world.LockAns{}, fmt.Errorf("%s: the path of %s is not absolute and plain: %q", path, l.Name, l.Path)
	}
	d, err := stages.Description(l)
	if err != nil {
		return world.LockAns{}, fmt.Errorf("%s: the description of %s: %w", path, l.Name, err)
	}
	if d.Name != l.Name {
		return world.LockAns{}, fmt.Errorf("%s: %s describes itself as %q", path, l.Name, d.Name)
	}
	return world.LockAns{Lock: l, File: path}, nil
}

func readSiteLock(path string) ([]world.Lock, error) {
	var s siteLock
	if err := readJSON(path, &s); err != nil {
		return nil, err
	}
	if s.FormatVersion != lockFormat {
		return nil, fmt.Errorf("format %d, and this prelet reads %d", s.FormatVersion, lockFormat)
	}
	names := map[string]bool{}
	for _, l := range s.Detectors {
		if names[l.Name] {
			return nil, fmt.Errorf("%s is locked twice", l.Name)
		}
		names[l.Name] = true
	}
	return s.Detectors, nil
}

// readJSON reads a file that decides what is executed: nobody but root and this user may be able to write it.
func readJSON(path string, into any) error {
	f, err := openTrusted(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxLockFile+1))
	if err != nil {
		return err
	}
	if len(b) > maxLockFile {
		return fmt.Errorf("it is larger than %d MiB", maxLockFile>>20)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("it is no lock file: %w", err)
	}
	return nil
}

// WriteFragment is the text of a lock fragment.
func WriteFragment(l world.Lock) ([]byte, error) {
	return lockText(fragment{lockFormat, l})
}

// AddToSite is the text of a site's lock file with one more lock, which takes the place of one of the same name.
func AddToSite(path string, l world.Lock) ([]byte, error) {
	locks, err := readSiteLock(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	locks = slices.DeleteFunc(locks, func(o world.Lock) bool { return o.Name == l.Name })
	locks = append(locks, l)
	slices.SortStableFunc(locks, func(a, b world.Lock) int { return strings.Compare(a.Name, b.Name) })
	return lockText(siteLock{lockFormat, locks})
}

func lockText(v any) ([]byte, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}

// Installed lists the names of programs and locks that are on this machine, declared by a site or not.
func (h *Host) Installed() (names []string) {
	found := map[string]bool{}
	for dir, suffix := range map[string]string{Programs: "", Fragments: ".json"} {
		entries, _ := os.ReadDir(h.path(dir))
		for _, e := range entries {
			name := strings.TrimSuffix(e.Name(), suffix)
			if stages.IsDetectorName(name) {
				found[name] = true
			}
		}
	}
	for _, p := range h.siteLocks() {
		locks, _ := readSiteLock(p)
		for _, l := range locks {
			found[l.Name] = true
		}
	}
	for n := range found {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Program is where the program of a lock is.
func (h *Host) Program(l world.Lock) string {
	if l.Path != "" {
		return h.path(l.Path)
	}
	return h.path(filepath.Join(Programs, l.Name))
}

// SiteLock is the site's own lock file: the first of those that win.
func (h *Host) SiteLock() string { return h.siteLocks()[0] }
