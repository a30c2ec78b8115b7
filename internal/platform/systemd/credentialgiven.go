package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// credentialStores returns the folders in which ImportCredential=, and LoadCredential= without a path, look for a
// credential, the first first (systemd.exec(5), load_credential in systemd's source).
func credentialStores() []string {
	return []string{
		"/run/credentials/@system", "/run/credentials/@encrypted", // those that systemd received itself
		"/etc/credstore", "/etc/credstore.encrypted",
		"/run/credstore", "/run/credstore.encrypted",
		"/usr/local/lib/credstore", "/usr/local/lib/credstore.encrypted",
		"/usr/lib/credstore", "/usr/lib/credstore.encrypted",
	}
}

// unitFolders returns the folders of unit files and of their drop-ins (systemd.unit(5)).
func unitFolders() []string {
	return []string{
		"/etc/systemd/system",
		"/run/systemd/system",
		"/usr/local/lib/systemd/system",
		"/usr/lib/systemd/system",
	}
}

// CheckGiven returns nil if a unit would get a credential, as far as that is visible outside of the unit: this process
// has it, it is in a store below root, or the unit or one of its drop-ins loads it from a file that can be read. The
// content is not read. root is a folder; "" is /.
func (c Credentials) CheckGiven(root, unit, name string) error {
	_, err := c.Read(name)
	switch {
	case err == nil, errors.Is(err, ErrEncrypted): // systemd decrypts it for the unit
		return nil
	case c.unit != nil, !errors.Is(err, fs.ErrNotExist):
		return err
	}

	found, denied := findInStores(root, name)
	if found {
		return nil
	}

	if file, conf, ok := findLoaded(root, unit, name); ok {
		err = checkReadable(filepath.Join("/", root, file))
		if err != nil {
			return fmt.Errorf("%s loads it from %s: %s", conf, file, nodefile.Reason(err))
		}
		return nil
	}

	if denied != nil {
		return denied
	}

	return fmt.Errorf("it is in none of systemd's stores, and no drop-in of %s loads it", unit)
}

// findInStores reports whether a store below root has a credential. If no store has it and this user may not look into
// one of them, denied is the error of the last such store.
func findInStores(root, name string) (found bool, denied error) {
	for _, dir := range credentialStores() {
		err := checkReadable(filepath.Join("/", root, dir, name))
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, fs.ErrPermission):
			denied = err
		}
	}

	return false, denied
}

// findLoaded returns the file that a unit below root loads a credential from, and the unit file or drop-in that names
// it.
func findLoaded(root, unit, name string) (file, conf string, ok bool) {
	for _, folder := range unitFolders() {
		// Glob fails for a malformed pattern only, and this one is well formed.
		dropIns, _ := filepath.Glob(filepath.Join("/", root, folder, unit+".d", "*.conf"))

		for _, conf := range append(dropIns, filepath.Join("/", root, folder, unit)) {
			text, err := nodefile.ReadFile(conf, nodefile.Max)
			if err != nil {
				continue
			}
			if file, ok := parseLoaded(string(text), name); ok {
				return file, conf, true
			}
		}
	}

	return "", "", false
}

// parseLoaded returns the file that the last line of a unit's text for a credential loads it from. Lines without an
// absolute path are skipped: systemd looks into its stores for them.
func parseLoaded(text, name string) (file string, ok bool) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key != "LoadCredential" && key != "LoadCredentialEncrypted" {
			continue
		}
		id, path, _ := strings.Cut(value, ":")
		if id == name && strings.HasPrefix(path, "/") {
			file, ok = path, true
		}
	}

	return file, ok
}

// checkReadable opens a file and closes it again. It does not wait for the writer of a FIFO.
func checkReadable(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}

	return f.Close()
}
