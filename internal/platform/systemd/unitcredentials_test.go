package systemd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/godbus/dbus/v5"
)

func writeFile(t *testing.T, root, path, text string) {
	t.Helper()
	file := filepath.Join(root, path)
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte(text), 0o600))
}

// TestUnitCredentials reads what systemd would give a unit, from each of its sources and in its order.
func TestUnitCredentials(t *testing.T) {
	root := t.TempDir()
	for path, text := range table.YAML[map[string]string](t, `
/root/token: from a path
/run/credentials/@system/both: received
/etc/credstore/both: stored
/usr/lib/credstore/vendor: of the image
/etc/credstore/prelet.var.zone: az1
/etc/credstore/not-loaded: x
/etc/credstore.encrypted/prelet.var.rack: sealed
/etc/credstore.encrypted/sealed: sealed
/run/credentials/prelet.service/sealed: decrypted at boot
/etc/credstore/not-a-folder: x
`) {
		writeFile(t, root, path, text)
	}

	var lines []credentialLine
	for _, l := range table.YAML[[]struct {
		Name, Path, Data       string
		IsEncrypted, IsPattern bool
	}](t, `
- {name: token, path: /root/token}
- {name: gone, path: /root/none}
- {name: both, path: both}
- {name: renamed, path: vendor}
- {name: missing, path: missing}
- {name: default, path: default}
- {name: below, path: not-a-folder/below}
- {name: sealed, path: sealed, isEncrypted: true}
- {name: tpm, path: /root/sealed, isEncrypted: true}
- {name: prelet.var.*, isPattern: true}
- {name: default, data: set}
- {name: token, data: not used}
- {name: set-sealed, data: x, isEncrypted: true}
`) {
		line := credentialLine{name: l.Name, path: l.Path, isEncrypted: l.IsEncrypted, isPattern: l.IsPattern}
		if l.Data != "" {
			line.data = []byte(l.Data)
		}
		lines = append(lines, line)
	}

	u := &unitCredentials{
		root:     root,
		unit:     "prelet-apply.service",
		siblings: []string{"prelet.service"},
		lines:    func() ([]credentialLine, error) { return lines, nil },
	}

	failures := map[string]error{"missing": fs.ErrNotExist, "encrypted": ErrEncrypted}
	for name, c := range table.YAML[map[string]struct{ Text, Failure string }](t, `
token: {text: from a path}
gone: {failure: missing}
both: {text: received}
renamed: {text: of the image}
missing: {failure: missing}
below: {failure: missing}
default: {text: set}
sealed: {text: decrypted at boot}
tpm: {failure: encrypted}
set-sealed: {failure: encrypted}
prelet.var.zone: {text: az1}
prelet.var.rack: {failure: encrypted}
prelet.var.none: {failure: missing}
not-loaded: {failure: missing}
`) {
		got, err := Credentials{unit: u}.Read(name)
		if want := failures[c.Failure]; string(got) != c.Text || !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%s: got %q, %v; want %q, %v", name, got, err, c.Text, want)
		}
	}

	names, err := Credentials{unit: u}.Names()
	want := strings.Fields("both default prelet.var.rack prelet.var.zone renamed sealed set-sealed token tpm")
	if err != nil || !reflect.DeepEqual(names, want) {
		t.Errorf("Names: got %q, %v; want %q", names, err, want)
	}

	inUnit := Credentials{folder: filepath.Join(root, "etc/credstore")}.OfUnit("prelet-apply.service")
	if inUnit.unit != nil {
		t.Error("a process with credentials of its own: got those of another unit")
	}
}

// TestCredentialsInUnit reads in the unit what its systemd did not pass to it, from the plain stores and only what a line
// of the unit names. Systemd is asked for these lines only where a store has more than was passed.
func TestCredentialsInUnit(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		Systemd string
		Lines   []string // names; one with * is a pattern
		Passed  []string // names, in the folder of the unit's credentials; "-": there is none
		Stored  []string // names, in a plain store
		Want    string   // names that can be read, and that Names returns
		Asks    bool     // whether the lines are asked for
	}](t, `
- {systemd: '247', lines: [bootstrap-token], passed: [-], stored: [bootstrap-token, other], want: bootstrap-token,
   asks: true}
- {systemd: '249', lines: [bootstrap-token], stored: [bootstrap-token, prelet.var.zone, other], want: bootstrap-token,
   asks: true}
- {systemd: '249, with a drop-in', lines: [bootstrap-token, db], stored: [db], want: db, asks: true}
- {systemd: '249, missing, with another one', lines: [bootstrap-token, db], stored: [other], asks: true}
- {systemd: '249, missing', lines: [bootstrap-token]}
- {systemd: '249, given by a path', lines: [bootstrap-token], passed: [bootstrap-token], want: bootstrap-token}
- {systemd: '252', lines: [bootstrap-token], passed: [bootstrap-token], stored: [bootstrap-token],
   want: bootstrap-token}
- {systemd: '254, and a token of later', lines: [bootstrap-token, prelet.var.*], passed: [prelet.var.zone],
   stored: [bootstrap-token, prelet.var.zone], want: bootstrap-token prelet.var.zone, asks: true}
`) {
		var lines []credentialLine
		for _, name := range c.Lines {
			line := credentialLine{name: name, path: name}
			if strings.HasSuffix(name, "*") {
				line = credentialLine{name: name, isPattern: true}
			}
			lines = append(lines, line)
		}
		root := t.TempDir()
		for _, name := range c.Stored {
			writeFile(t, root, "/usr/lib/credstore/"+name, "of "+name)
		}
		asked := false
		in := Credentials{unit: &unitCredentials{root: root, unit: "prelet.service", lines: func() ([]credentialLine, error) {
			asked = true
			return lines, nil
		}}}
		if !slices.Contains(c.Passed, "-") {
			in.folder = t.TempDir()
			for _, name := range c.Passed {
				writeFile(t, in.folder, name, "of "+name)
			}
		}

		var got []string
		names, err := in.Names()
		for _, name := range []string{"bootstrap-token", "db", "other", "prelet.var.zone"} {
			content, readErr := in.Read(name)
			switch {
			case readErr == nil && string(content) == "of "+name && slices.Contains(names, name):
				got = append(got, name)
			case !errors.Is(readErr, fs.ErrNotExist) || errors.Is(readErr, ErrNoCredentials):
				t.Errorf("%s: %s: got %q, %v; names %q", c.Systemd, name, content, readErr, names)
			}
		}
		if strings.Join(got, " ") != c.Want || len(names) != len(got) || err != nil || asked != c.Asks {
			t.Errorf("%s: got %q, names %q, %v, asked %t; want %q, asked %t",
				c.Systemd, got, names, err, asked, c.Want, c.Asks)
		}
	}
}

// TestUnitCredentialsDenied reports to a user who is not root that a store cannot be read: the unit may get a value there.
func TestUnitCredentialsDenied(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads every store")
	}
	root := t.TempDir()
	writeFile(t, root, "/etc/credstore/prelet.var.zone", "az1")
	store := filepath.Join(root, "etc/credstore")
	must(t, os.Chmod(store, 0))
	t.Cleanup(func() { _ = os.Chmod(store, 0o755) })

	u := &unitCredentials{root: root, unit: "prelet-apply.service", lines: func() ([]credentialLine, error) {
		return []credentialLine{{name: "prelet.var.*", isPattern: true}}, nil
	}}
	_, err := u.read("prelet.var.zone")
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v, want %v", err, fs.ErrPermission)
	}
}

// TestDecodeCredentialLines decodes the properties with the types that systemd documents. Older versions lack some.
func TestDecodeCredentialLines(t *testing.T) {
	pair := func(a, b string) []any { return []any{a, b} }
	got, err := decodeCredentialLines(map[string]any{
		"LoadCredential":          [][]any{pair("bootstrap-token", "bootstrap-token")},
		"LoadCredentialEncrypted": [][]any{pair("sealed", "/etc/sealed")},
		"ImportCredential":        []string{"prelet.var.*"},
		"SetCredential":           [][]any{{"set", []byte("text")}},
	})
	want := []credentialLine{
		{name: "bootstrap-token", path: "bootstrap-token"},
		{name: "sealed", path: "/etc/sealed", isEncrypted: true},
		{name: "prelet.var.*", isPattern: true},
		{name: "set", data: []byte("text")},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}

	none, err := decodeCredentialLines(map[string]any{"LoadState": dbus.MakeVariant("loaded")})
	want = []credentialLine{
		{name: "prelet.var.*", isPattern: true},
		{name: "bootstrap-token", path: "bootstrap-token"},
		{name: "prelet.site", path: "prelet.site"},
		{name: "prelet.registry", path: "prelet.registry"},
	}
	if err != nil || !reflect.DeepEqual(none, want) {
		t.Errorf("systemd 247, which drops the lines of the units: got %+v, %v; want %+v", none, err, want)
	}
	_, err = decodeCredentialLines(map[string]any{"LoadCredential": "x"})
	if err == nil {
		t.Error("a property of another type: got no error")
	}
}
