package systemd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// ErrEncrypted is wrapped if a unit has a credential that only systemd can decrypt, and no running unit has it.
var ErrEncrypted = errors.New("it is encrypted, and only systemd can decrypt it, for a unit that it starts")

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

// unitCredentials are the credentials that systemd would pass to a unit that it started now. They are read from the
// places of systemd.exec(5), which only root may read: by a process outside of the unit, and by that of the unit itself
// where systemd does not search the stores.
type unitCredentials struct {
	root     string // "" is /; tests pass another one
	unit     string
	siblings []string // units with the same credentials: a running unit has them decrypted
	lines    func() ([]credentialLine, error)
}

// credentialLine is one LoadCredential=, LoadCredentialEncrypted=, ImportCredential= or SetCredential= of a unit.
type credentialLine struct {
	name        string // a glob with isPattern
	path        string // of LoadCredential=: a path, or a name in the stores
	isEncrypted bool
	isPattern   bool
	data        []byte // of SetCredential=; nil for the others
}

// matches reports whether the line may give a credential its content.
func (l credentialLine) matches(name string) bool {
	if !l.isPattern {
		return l.name == name
	}

	ok, err := filepath.Match(l.name, name)

	return err == nil && ok
}

// OfUnit returns the credentials of the process. If it has no folder of them, it returns those that systemd would pass
// to unit. Siblings are further units with the same credentials.
func (c Credentials) OfUnit(unit string, siblings ...string) Credentials {
	if c.folder != "" {
		return c
	}

	c.unit = newUnitCredentials(unit, siblings)

	return c
}

// InUnit returns the credentials of this process, which unit runs. What systemd did not pass, although a line of the
// unit names it and a plain store has it, is read from the store: systemd before 251 does not search there.
func (c Credentials) InUnit(unit string) Credentials {
	c.unit = newUnitCredentials(unit, nil)

	return c
}

func newUnitCredentials(unit string, siblings []string) *unitCredentials {
	lines := sync.OnceValues(func() ([]credentialLine, error) {
		conn := NewConn()
		defer conn.Close()

		properties, err := conn.readProperties(context.Background(), unit)
		if err != nil {
			return nil, err
		}

		return decodeCredentialLines(properties)
	})

	return &unitCredentials{unit: unit, siblings: siblings, lines: lines}
}

// decodeCredentialLines returns the lines of a unit's D-Bus properties, by descending priority. Older versions of
// systemd lack some of them, and before 249 all lines of the units themselves: these name no path.
func decodeCredentialLines(properties map[string]any) (out []credentialLine, err error) {
	r := reader{properties: properties}

	for _, property := range []string{"LoadCredential", "LoadCredentialEncrypted"} { // a(ss)
		var loaded []struct{ Name, Path string }
		r.store(property, &loaded)
		for _, l := range loaded {
			isEncrypted := property == "LoadCredentialEncrypted"
			out = append(out, credentialLine{
				name:        l.Name,
				path:        l.Path,
				isEncrypted: isEncrypted,
			})
		}
	}

	for _, pattern := range read[[]string](&r, "ImportCredential") {
		out = append(out, credentialLine{name: pattern, isPattern: true})
	}

	for _, property := range []string{"SetCredential", "SetCredentialEncrypted"} { // a(say)
		var set []struct {
			Name string
			Data []byte
		}
		r.store(property, &set)
		for _, s := range set {
			isEncrypted := property == "SetCredentialEncrypted"
			out = append(out, credentialLine{
				name:        s.Name,
				data:        s.Data,
				isEncrypted: isEncrypted,
			})
		}
	}
	_, hasEncrypted := properties["LoadCredentialEncrypted"] // since 250
	if !hasEncrypted {
		out = append(out, unitLines()...) // after those of drop-ins, which win
	}

	return out, r.err
}

// unitLines returns the lines of the units without a path.
func unitLines() []credentialLine {
	lines := []credentialLine{{name: "prelet.var.*", isPattern: true}}
	for _, name := range secret.UnitCredentials() {
		lines = append(lines, credentialLine{name: name, path: name})
	}

	return lines
}

// read returns the bytes of a credential. The error wraps fs.ErrNotExist if the unit would start without it.
func (u *unitCredentials) read(name string) ([]byte, error) {
	lines, err := u.lines()
	if err != nil {
		return nil, fmt.Errorf("the credentials of %s: %w", u.unit, err)
	}

	var denied error
	for _, l := range lines {
		if !l.matches(name) {
			continue
		}

		content, err := u.readLine(l, name)
		switch {
		case err == nil:
			return content, nil
		case errors.Is(err, fs.ErrPermission):
			denied = err
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	if denied != nil {
		return nil, denied
	}

	return nil, fmt.Errorf("%s does not get it: %w", u.unit, fs.ErrNotExist)
}

// readLine returns the content that one line gives a credential.
func (u *unitCredentials) readLine(l credentialLine, name string) ([]byte, error) {
	switch {
	case l.isEncrypted && (l.data != nil || filepath.IsAbs(l.path)):
		return u.readDecrypted(name)
	case l.data != nil:
		return l.data, nil
	case filepath.IsAbs(l.path):
		return u.readFile(l.path)
	case l.isPattern:
		return u.search(name, true, true)
	case l.isEncrypted:
		return u.search(l.path, false, true)
	default:
		return u.search(l.path, true, false)
	}
}

// search looks for a credential in plain or encrypted stores, or both, in systemd's order.
func (u *unitCredentials) search(name string, inPlain, inEncrypted bool) ([]byte, error) {
	denied := error(fs.ErrNotExist)

	for _, dir := range credentialStores() {
		isEncrypted := strings.HasSuffix(dir, ".encrypted") || strings.HasSuffix(dir, "@encrypted")
		if isEncrypted && !inEncrypted || !isEncrypted && !inPlain {
			continue
		}

		content, err := u.readFile(filepath.Join(dir, name))
		switch {
		case err == nil && isEncrypted:
			return u.readDecrypted(name)
		case err == nil:
			return content, nil
		case errors.Is(err, fs.ErrPermission):
			denied = err
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}

	return nil, denied
}

// readDecrypted returns a credential that systemd has decrypted for a unit that is active.
func (u *unitCredentials) readDecrypted(name string) ([]byte, error) {
	for _, unit := range append([]string{u.unit}, u.siblings...) {
		content, err := u.readFile(filepath.Join("/run/credentials", unit, name))
		if err == nil || errors.Is(err, fs.ErrPermission) {
			return content, err
		}
	}

	return nil, ErrEncrypted
}

// readFile reads a credential's file, as systemd does for the unit.
func (u *unitCredentials) readFile(path string) ([]byte, error) {
	content, err := nodefile.ReadFile(filepath.Join("/", u.root, path), CredentialLimit)
	if errors.Is(err, unix.ENOTDIR) {
		err = fs.ErrNotExist
	}

	return content, err
}

// names returns the names of the credentials that the unit would get, sorted, with those that cannot be read.
func (u *unitCredentials) names() ([]string, error) {
	lines, err := u.lines()
	if err != nil {
		return nil, fmt.Errorf("credentials of %s: %w", u.unit, err)
	}

	var out []string
	for _, l := range lines {
		if l.isPattern {
			out = append(out, u.listStored(credentialStores(), l.matches)...)
			continue
		}
		if secret.CheckCredentialName(l.name) != nil {
			continue
		}
		if _, err := u.readLine(l, l.name); !errors.Is(err, fs.ErrNotExist) {
			out = append(out, l.name)
		}
	}
	slices.Sort(out)

	return slices.Compact(out), nil
}

// listStored returns the names of the credentials in stores that match.
func (u *unitCredentials) listStored(stores []string, matches func(name string) bool) (out []string) {
	for _, dir := range stores {
		entries, _ := nodefile.ReadDir(filepath.Join("/", u.root, dir)) // a store that is missing or closed has none
		for _, entry := range entries {
			if matches(entry.Name()) && secret.CheckCredentialName(entry.Name()) == nil {
				out = append(out, entry.Name())
			}
		}
	}

	return out
}

// hasStored reports whether a plain store has a credential that matches.
func (u *unitCredentials) hasStored(matches func(name string) bool) bool {
	plain := []string{"/etc/credstore", "/run/credstore", "/usr/local/lib/credstore", "/usr/lib/credstore"}

	return u != nil && len(u.listStored(plain, matches)) > 0
}
