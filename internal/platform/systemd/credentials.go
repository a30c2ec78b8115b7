package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// CredentialLimit is the largest credential that is read, in bytes. It is systemd's limit for all credentials of a
// unit.
const CredentialLimit = 1 << 20

// ErrNoCredentials is wrapped together with fs.ErrNotExist if this process has no credentials folder.
var ErrNoCredentials = errors.New(
	"no credentials folder: $CREDENTIALS_DIRECTORY is not set (prelet's units get it from " +
		"systemd: `systemctl start prelet-apply`; on a laptop, with --root, let it name a folder of yours)",
)

// ErrUnusable is wrapped if a credential exists and must not be used.
var ErrUnusable = errors.New("credential unusable")

// unusableError is a reason not to use a credential.
type unusableError struct{ error }

func (unusableError) Is(target error) bool { return target == ErrUnusable }

func (e unusableError) Unwrap() error { return e.error }

func unusable(format string, args ...any) error {
	return unusableError{fmt.Errorf(format, args...)}
}

// Credentials reads the credentials that systemd passed to this unit, or those of a unit, see OfUnit. Its errors never
// contain a byte of a credential.
type Credentials struct {
	folder string           // "" outside of a unit with credentials
	unit   *unitCredentials // that folder does not have; nil: none
}

// NewCredentials uses the folder of $CREDENTIALS_DIRECTORY, which getenv returns.
func NewCredentials(getenv func(string) string) Credentials {
	return Credentials{folder: getenv("CREDENTIALS_DIRECTORY")}
}

// Read returns the bytes of a credential, at most CredentialLimit. The error wraps fs.ErrNotExist if the unit does
// not have that credential, and ErrUnusable if systemd would not make a credential with this name or file: a link, a
// FIFO, a device, a file that is too long, of another user, or readable by others than its owner and group.
func (c Credentials) Read(name string) ([]byte, error) {
	content, err := c.read(name)
	isName := func(other string) bool { return other == name }
	if errors.Is(err, fs.ErrNotExist) && c.folder != "" && c.unit.hasStored(isName) {
		content, err = c.unit.read(name)
	}
	if err != nil {
		return nil, fmt.Errorf("credential %q: %w", name, err)
	}

	return content, nil
}

func (c Credentials) read(name string) ([]byte, error) {
	if err := secret.CheckCredentialName(name); err != nil {
		return nil, unusable("%w", err)
	}
	switch {
	case c.folder == "" && c.unit != nil:
		return c.unit.read(name)
	case c.folder == "":
		return nil, fmt.Errorf("%w: %w", ErrNoCredentials, fs.ErrNotExist)
	}

	file, err := nodefile.Root(c.folder).Look(name, nodefile.FollowNone)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(c.folder, name), errors.Unwrap(err))
	}
	defer file.Close()
	if err := c.check(file); err != nil {
		return nil, err
	}

	content, err := file.Read(CredentialLimit)
	if err != nil {
		return nil, unusable("%w", errors.Unwrap(err))
	}

	return content, nil
}

// check refuses a credential that another user owns or that others may read or write, and a folder in which other users
// could put one.
func (c Credentials) check(file *nodefile.Look) error {
	st := file.Stat
	switch {
	case file.Above != nil:
		return unusable("the folder %s %s", c.folder, file.Above.Why)
	case st.Mode&unix.S_IFMT == unix.S_IFLNK: // systemd makes none
		return unusable("it is a link")
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return unusable("it is not a regular file")
	case st.Mode&0o027 != 0: // systemd makes 0400, or 0440 if an ACL gives it to the unit's user
		return unusable(
			"it has mode %04o, so other users can read or write it; systemd makes 0400",
			st.Mode&0o7777,
		)
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return unusable("it belongs to uid %d, not to root", st.Uid)
	}

	reader, err := file.FindReader()
	switch {
	case err != nil:
		return unusable("%w", err)
	case reader != "":
		return unusable("it has mode %04o, so %s can read it; systemd makes 0400", st.Mode&0o7777, reader)
	}

	return nil
}

// Names returns the names of the credentials, sorted. It does not check whether each can be used: see Read.
func (c Credentials) Names() ([]string, error) {
	switch {
	case c.folder == "" && c.unit != nil:
		return c.unit.names()
	case c.folder == "":
		return nil, nil
	}
	entries, err := nodefile.ReadDir(c.folder)
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}

	var names []string
	for _, entry := range entries {
		if secret.CheckCredentialName(entry.Name()) == nil {
			names = append(names, entry.Name())
		}
	}

	isOther := func(name string) bool { return !slices.Contains(names, name) }
	if c.unit.hasStored(isOther) {
		more, err := c.unit.names()
		names = append(names, more...)
		slices.Sort(names)

		return slices.Compact(names), err
	}

	return names, nil
}

// Folder returns the folder of this unit's credentials; "" for a unit without any.
func (c Credentials) Folder() string { return c.folder }
