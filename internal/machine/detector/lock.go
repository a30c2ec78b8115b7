package detector

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/stages"
)

// Paths of detectors and their locks. Packages install the first two. The third is the site's and takes precedence.
const (
	Programs  = "/usr/lib/prelet/detectors"
	Fragments = "/usr/lib/prelet/detectors.lock.d"
	SiteLock  = "/etc/prelet/detectors.lock.json"
)

// nodeFolders are where nodes have programs, besides sources in /usr/src.
var nodeFolders = []string{"/usr/", "/opt/", "/nix/store/", "/gnu/store/"}

const (
	lockFormat  = 1
	maxLockFile = 4 << 20
)

// fragment is the file that a detector's package installs: one lock.
type fragment struct {
	FormatVersion int `json:"format_version"`
	tape.LockEntry
}

// siteLock is a site's own file with any number of locks.
type siteLock struct {
	FormatVersion int              `json:"format_version"`
	Detectors     []tape.LockEntry `json:"detectors"`
}

// lockFile is a file of either kind.
type lockFile struct {
	fragment
	Detectors []tape.LockEntry `json:"detectors"`
}

// errNoLock means that a detector has no lock.
var errNoLock = errors.New("it has no lock")

// Lock returns the lock of a detector: from the site's lock files, else from the fragment with its name. The error is
// errNoLock if there is none.
func (h *Host) Lock(name string) (tape.LockAns, error) {
	if !contract.IsDetectorName(name) {
		const text = "invalid detector name %q: want at most 63 lower-case letters, digits and -, " +
			"beginning with a letter"
		return tape.LockAns{}, fmt.Errorf(text, name)
	}

	for _, path := range h.usedLocks() {
		locks, err := readSiteLock(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return tape.LockAns{}, fmt.Errorf("%s: %w", path, err)
		}
		for _, l := range locks {
			if l.Name == name {
				return checkLock(path, l)
			}
		}
	}

	return h.readFragment(name)
}

func (h *Host) readFragment(name string) (tape.LockAns, error) {
	path := h.path(filepath.Join(Fragments, name+".json"))
	f, err := readLockFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return tape.LockAns{}, errNoLock
	}
	if err == nil && f.Name != name {
		err = fmt.Errorf("it is the lock of %q", f.Name)
	}
	if err != nil {
		return tape.LockAns{}, fmt.Errorf("%s: %w", path, err)
	}

	return checkLock(path, f.LockEntry)
}

func (h *Host) siteLocks() []string {
	if len(h.o.SiteLocks) > 0 {
		return h.o.SiteLocks
	}

	return []string{h.path(SiteLock)}
}

// usedLocks returns the site's lock files that are read.
func (h *Host) usedLocks() []string {
	if h.o.NoSite != nil && h.o.NoSite() {
		return nil
	}

	return h.siteLocks()
}

func checkLock(path string, l tape.LockEntry) (tape.LockAns, error) {
	sum, hexErr := hex.DecodeString(l.SHA256)
	isSum := hexErr == nil && len(sum) == 32 && strings.ToLower(l.SHA256) == l.SHA256
	isClean := filepath.IsAbs(l.Path) && filepath.Clean(l.Path) == l.Path
	d, err := stages.Description(l)
	switch {
	case !isSum:
		err = fmt.Errorf("invalid sha256 %q: want 64 lower-case hexadecimal digits", l.SHA256)
	case l.Path != "" && !isClean:
		err = fmt.Errorf("invalid path %q: want a clean absolute path", l.Path)
	case err != nil:
		err = fmt.Errorf("description: %w", err)
	case d.Name != l.Name:
		err = fmt.Errorf("the name in its description is %q", d.Name)
	}
	if err != nil {
		return tape.LockAns{}, fmt.Errorf("%s: lock of %s: %w", path, l.Name, err)
	}

	return tape.LockAns{LockEntry: l, File: path}, nil
}

func readSiteLock(path string) ([]tape.LockEntry, error) {
	s, err := readLockFile(path)
	if err != nil {
		return nil, err
	}

	seen := map[string]bool{}
	for _, l := range s.Detectors {
		if seen[l.Name] {
			return nil, fmt.Errorf("duplicate lock of %s", l.Name)
		}
		seen[l.Name] = true
	}

	return s.Detectors, nil
}

// readLockFile reads a fragment, which has one lock, or a site's file. It decides which program is executed: only root
// and this user may be able to write it.
func readLockFile(path string) (f lockFile, err error) {
	found, err := nodefile.Find(path, nodefile.FollowAll)
	if err != nil {
		return f, err
	}
	defer found.Close()
	if found.Loose != nil {
		return f, fmt.Errorf("other users than root can change it: %w", found.Loose)
	}

	b, err := found.Read(maxLockFile)
	if err != nil {
		return f, errors.New(nodefile.Reason(err))
	}
	err = tape.RecordingBounds.Check(b)
	if err == nil {
		err = codec.CheckStrict(b, 0, reflect.TypeOf(f))
	}
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err != nil {
		return f, fmt.Errorf("not a lock file: %w", err)
	}
	if f.FormatVersion != lockFormat {
		return f, fmt.Errorf("unsupported format_version %d: this prelet reads %d", f.FormatVersion, lockFormat)
	}

	return f, nil
}

// WriteFragment returns the text of a lock fragment.
func WriteFragment(l tape.LockEntry) ([]byte, error) {
	return encodeLock(fragment{lockFormat, l})
}

// AddToSite returns the text of a site's lock file after adding a lock. The lock replaces one with the same name.
func AddToSite(path string, l tape.LockEntry) ([]byte, error) {
	locks, err := readSiteLock(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}

	locks = slices.DeleteFunc(locks, func(o tape.LockEntry) bool {
		return o.Name == l.Name
	})
	locks = append(locks, l)
	byName := func(a, b tape.LockEntry) int {
		return strings.Compare(a.Name, b.Name)
	}
	slices.SortStableFunc(locks, byName)

	return encodeLock(siteLock{lockFormat, locks})
}

func encodeLock(v any) ([]byte, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return nil, err
	}

	return []byte(b.String()), nil
}

// Installed returns the sorted names of all programs and locks on this machine, declared by the site or not.
func (h *Host) Installed() []string {
	names := map[string]bool{}
	for dir, suffix := range map[string]string{Programs: "", Fragments: ".json"} {
		entries, _ := nodefile.ReadDir(h.path(dir))
		for _, e := range entries {
			name := strings.TrimSuffix(e.Name(), suffix)
			if contract.IsDetectorName(name) {
				names[name] = true
			}
		}
	}
	for _, path := range h.usedLocks() {
		locks, _ := readSiteLock(path)
		for _, l := range locks {
			names[l.Name] = true
		}
	}

	return slices.Sorted(maps.Keys(names))
}

// Program returns the path of a lock's program.
func (h *Host) Program(l tape.LockEntry) string {
	path := cmp.Or(l.Path, filepath.Join(Programs, l.Name))

	return h.path(path)
}

// CheckNodePath refuses the path of a lock that a node would not have: a path that is not clean and absolute, or is
// outside of the folders for programs, such as a home folder or that of a build. "" is the place for packages.
func CheckNodePath(path string) error {
	isClean := filepath.IsAbs(path) && filepath.Clean(path) == path
	isProgram := func(folder string) bool { return strings.HasPrefix(path, folder) }
	switch {
	case path == "":
		return nil
	case !isClean:
		return fmt.Errorf("invalid path %q: want a clean absolute path", path)
	case isProgram("/usr/src/") || !slices.ContainsFunc(nodeFolders, isProgram):
		return fmt.Errorf("a node would not have %s: its detectors are in %s, or elsewhere in %s",
			path, Programs, strings.Join(nodeFolders, ", "))
	}

	return nil
}

// CheckSiteLocks refuses the site's own lock files that no node could use, and locks of programs that a node would not
// have. Of a site on its node, a program that is there may be anywhere.
func (h *Host) CheckSiteLocks() (refused []error) {
	for _, file := range h.usedLocks() {
		locks, err := readSiteLock(file)
		var loose *nodefile.Loose // of this checkout, as its umask made it
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.As(err, &loose) {
			refused = append(refused, fmt.Errorf("%s: %w", file, err))
		}
		for _, l := range locks {
			_, err := checkLock(file, l)
			if _, missing := nodefile.Stat(h.Program(l)); err == nil && (h.o.Elsewhere || missing != nil) {
				err = CheckNodePath(l.Path)
				if err != nil {
					err = fmt.Errorf("%s: lock of %s: %w", file, l.Name, err)
				}
			}
			if err != nil {
				refused = append(refused, err)
			}
		}
	}

	return refused
}

// SiteLock returns the path of the site's lock file: the first one with precedence.
func (h *Host) SiteLock() string {
	return h.siteLocks()[0]
}
