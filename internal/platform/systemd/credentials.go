package systemd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// CredentialLimit is the largest credential that is read, in bytes. It is systemd's own limit for all credentials of a unit.
const CredentialLimit = 1 << 20

// ErrNoCredentials is wrapped, beside fs.ErrNotExist, when this process was given no credentials folder at all.
var ErrNoCredentials = errors.New("no credentials folder: $CREDENTIALS_DIRECTORY is not set (prelet's units get it from systemd: " +
	"`systemctl start prelet-apply`; on a laptop, with --root, let it name a folder of yours)")

// ErrUnusable is wrapped when a credential is there and must not be used.
var ErrUnusable = errors.New("credential unusable")

// Credentials reads what systemd passed to this unit. No error of it holds a byte of a credential.
type Credentials struct{ folder string }

// NewCredentials takes the folder from $CREDENTIALS_DIRECTORY, as getenv knows it. There is no other place.
func NewCredentials(getenv func(string) string) Credentials {
	return Credentials{folder: getenv("CREDENTIALS_DIRECTORY")}
}

// Read returns the credential's bytes as they are, at most CredentialLimit of them. The error wraps fs.ErrNotExist when the
// unit was not given that credential, and ErrUnusable when its name or its file is none that systemd makes: a link, a FIFO, a
// device, a file that others than its owner and group may read or that another user owns, one that is too long.
func (c Credentials) Read(name string) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if c.folder == "" {
		return nil, fmt.Errorf("credential %q: %w: %w", name, ErrNoCredentials, fs.ErrNotExist)
	}
	folder, err := unix.Open(c.folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("credential %q: folder %s: %w", name, c.folder, err)
	}
	defer unix.Close(folder)
	if err := checkFolder(folder, c.folder); err != nil {
		return nil, err
	}
	// O_NONBLOCK: the open of a FIFO must not wait for a writer. O_NOFOLLOW: systemd puts no links there.
	fd, err := unix.Openat(folder, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, fmt.Errorf("%w: %q is a link", ErrUnusable, name)
	case errors.Is(err, unix.ENXIO): // a socket
		return nil, fmt.Errorf("%w: %q is no regular file", ErrUnusable, name)
	case err != nil:
		return nil, fmt.Errorf("credential %q in %s: %w", name, c.folder, err)
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	if err := checkFile(fd, name); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(file, CredentialLimit+1))
	if err != nil {
		return nil, fmt.Errorf("credential %q in %s: %w", name, c.folder, err)
	}
	if len(content) > CredentialLimit {
		return nil, fmt.Errorf("%w: %q is longer than %d bytes", ErrUnusable, name, CredentialLimit)
	}
	return content, nil
}

// Names lists the credentials that this unit was given, sorted; none when there is no folder. Whether each can be used, only
// Read tells.
func (c Credentials) Names() ([]string, error) {
	if c.folder == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(c.folder)
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if checkName(entry.Name()) == nil {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// checkName takes what systemd takes as the ID of a credential (credential_name_valid in its source): a file name of printable
// ASCII without ":", at most 255 bytes; and no spaces, which no unit line can hold unquoted.
func checkName(name string) error {
	switch {
	case name == "", name == ".", name == "..":
		return fmt.Errorf("%w: %q is no name", ErrUnusable, name)
	case len(name) > 255:
		return fmt.Errorf("%w: its name has %d bytes; 255 are possible", ErrUnusable, len(name))
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' || r == '/' }); i >= 0 {
		return fmt.Errorf("%w: %q: byte %d cannot stand in the name of a credential", ErrUnusable, name, i)
	}
	return nil
}

// Folder is where the credentials of this unit are; "" for a unit without any.
func (c Credentials) Folder() string { return c.folder }

// checkFolder refuses a folder into which others could put a credential of theirs.
func checkFolder(fd int, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("credentials: %s: %w", path, err)
	}
	if loose := nodefile.Judge(fd, path, &st, false); loose != nil {
		return fmt.Errorf("%w: the folder %w", ErrUnusable, loose)
	}
	return nil
}

func checkFile(fd int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("credential %q: %w", name, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%w: %q is no regular file", ErrUnusable, name)
	case st.Mode&0o027 != 0: // systemd makes 0400, or 0440 where an ACL gives it to the unit's user
		return fmt.Errorf("%w: %q has mode %04o, so others can read or write it; systemd makes 0400", ErrUnusable, name, st.Mode&0o7777)
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%w: %q belongs to user %d, not to root", ErrUnusable, name, st.Uid)
	case st.Size > CredentialLimit:
		return fmt.Errorf("%w: %q has %d bytes; %d are possible", ErrUnusable, name, st.Size, CredentialLimit)
	}
	return nil
}
