package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/unitfile"
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
	r := nodefile.Root(root)
	for _, conf := range slices.Backward(listUnitFiles(r, unitfile.Folders(), findNames(r, unit), nil)) {
		text, _, err := readUnitText(r, conf, nil)
		if err != nil {
			continue
		}
		if file, ok := parseLoaded(string(text), name); ok {
			return file, filepath.Join("/", root, conf), true
		}
	}

	return "", "", false
}

// parseLoaded returns the file that the last line of a unit's text for a credential loads it from. Lines without an
// absolute path are skipped: systemd looks into its stores for them.
func parseLoaded(text, name string) (file string, ok bool) {
	for _, s := range unitfile.Parse(text) {
		id, path, _ := strings.Cut(s.Value, ":")
		isLoad := s.Section == "Service" && (s.Name == "LoadCredential" || s.Name == "LoadCredentialEncrypted")
		if isLoad && id == name && strings.HasPrefix(path, "/") {
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
