package live

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/nodefile"
	"github.com/prelet/prelet/internal/systemd"
	"github.com/prelet/prelet/internal/world"
)

// Disk is a folder that something is going to be written to.
type Disk struct {
	Path      string // the deepest folder that is there
	Err       error
	ReadOnly  bool
	Writable  bool // by this user
	FreeBytes uint64
	FreeFiles uint64
	NoFiles   bool // the file system does not count them
}

// DiskOf looks at the folder of a path below a root, or at the deepest one above it that is there.
func DiskOf(root, path string) Disk {
	dir := filepath.Dir(filepath.Join("/", root, path))
	for {
		st, err := os.Stat(dir)
		if err == nil && !st.IsDir() {
			return Disk{Path: dir, Err: errors.New("it is no folder")}
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == "/" {
			return Disk{Path: dir, Err: errors.New(nodefile.Reason(err))}
		}
		dir = filepath.Dir(dir)
	}
	d := Disk{Path: dir}
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		d.Err = err
		return d
	}
	d.ReadOnly = s.Flags&unix.ST_RDONLY != 0
	d.Writable = unix.Access(dir, unix.W_OK|unix.X_OK) == nil
	d.FreeBytes = s.Bavail * uint64(s.Bsize)
	d.FreeFiles, d.NoFiles = s.Ffree, s.Files == 0
	return d
}

// ClockSet is nil when somebody has set this machine's clock; it waits for nobody.
func ClockSet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	return WaitClock(ctx)
}

// DialRuntime connects to the runtime's socket and says nothing.
func DialRuntime(ctx context.Context, endpoint string) error {
	scheme, address, ok := strings.Cut(endpoint, "://")
	if !ok {
		scheme, address = "unix", endpoint
	}
	if scheme != "unix" {
		return fmt.Errorf("%s is no socket of this machine", endpoint)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", address)
	if err != nil {
		return err
	}
	return c.Close()
}

// credentialStores are where systemd's ImportCredential= and LoadCredential= without a path look, beside what its own
// environment was given (systemd.exec(5)).
func credentialStores() []string {
	return []string{"/etc/credstore", "/etc/credstore.encrypted", "/run/credstore", "/run/credstore.encrypted", "/usr/lib/credstore", "/usr/lib/credstore.encrypted", "/run/credentials/@system", "/run/credentials/@encrypted"}
}

// unitFolders are where drop-ins of a unit stand.
func unitFolders() []string {
	return []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system"}
}

// CredentialGiven is nil when a unit would get a credential, as far as can be seen from outside of it: this process has it, it
// lies in a store, or a drop-in of the unit names a file of it that can be read. Its bytes are not looked at.
func CredentialGiven(creds Credentials, root, unit, name string) error {
	_, err := creds.Read(name)
	if err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, systemd.ErrNoCredentials) {
		return err
	}
	var denied error
	for _, dir := range credentialStores() {
		switch err := readable(filepath.Join("/", root, dir, name)); {
		case err == nil:
			return nil
		case errors.Is(err, fs.ErrPermission):
			denied = err
		}
	}
	for _, folder := range unitFolders() {
		names, _ := filepath.Glob(filepath.Join("/", root, folder, unit+".d", "*.conf")) // the pattern is well formed
		for _, conf := range append(names, filepath.Join("/", root, folder, unit)) {
			text, err := os.ReadFile(conf)
			if err != nil {
				continue
			}
			if file, ok := loads(string(text), name); ok {
				if err := readable(filepath.Join("/", root, file)); err != nil {
					return fmt.Errorf("%s loads it from %s: %s", conf, file, nodefile.Reason(err))
				}
				return nil
			}
		}
	}
	if denied != nil {
		return denied
	}
	return fmt.Errorf("it is in none of systemd's stores, and no drop-in of %s loads it", unit)
}

// loads finds the file that a unit's text loads a credential from.
func loads(text, name string) (file string, ok bool) {
	for line := range strings.Lines(text) {
		key, value, found := strings.Cut(strings.TrimSpace(line), "=")
		if !found || key != "LoadCredential" && key != "LoadCredentialEncrypted" {
			continue
		}
		if id, path, has := strings.Cut(value, ":"); has && id == name && strings.HasPrefix(path, "/") {
			file, ok = path, true
		}
	}
	return file, ok
}

// readable opens a file and closes it again.
func readable(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// NodeText is a file of the node below a root; "" for one that is not there or that this user may not read.
func NodeText(root, path string) string {
	text, f := nodefile.Root(root).Text(path)
	if f != nil {
		return ""
	}
	return text
}

// AtRest answers as another source does, for who looks and sends nothing secret: the cluster is asked nothing that needs a
// bootstrap token (unread then; a node that has joined asks with its own identity), and a credential is there when its unit
// would get it.
func AtRest(s world.Source, joined bool, given func(name string) error) world.Source {
	return world.SourceFunc(func(ctx context.Context, q world.Question) world.Answer {
		switch q.Kind {
		case world.KindObject:
			if !joined {
				return world.Failure(fault.Unread, "the token is not sent for this", "")
			}
		case world.KindCredential:
			if r, err := world.Credential.Request(q); err == nil && given(r.Name) == nil {
				return world.Credential.Answer(world.CredentialAns{Source: "its unit's"})
			}
		}
		return s.Ask(ctx, q)
	})
}
