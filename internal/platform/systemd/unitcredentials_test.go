package systemd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

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
	for path, text := range map[string]string{
		"/root/token":                              "from a path",
		"/run/credentials/@system/both":            "received",
		"/etc/credstore/both":                      "stored",
		"/usr/lib/credstore/vendor":                "of the image",
		"/etc/credstore/prelet.var.zone":           "az1",
		"/etc/credstore/not-loaded":                "x",
		"/etc/credstore.encrypted/prelet.var.rack": "sealed",
		"/etc/credstore.encrypted/sealed":          "sealed",
		"/run/credentials/prelet.service/sealed":   "decrypted at boot",
		"/etc/credstore/not-a-folder":              "x",
	} {
		writeFile(t, root, path, text)
	}

	u := &unitCredentials{
		root:     root,
		unit:     "prelet-apply.service",
		siblings: []string{"prelet.service"},
		lines: func() ([]credentialLine, error) {
			return []credentialLine{
				{name: "token", path: "/root/token"},
				{name: "gone", path: "/root/none"},
				{name: "both", path: "both"},
				{name: "renamed", path: "vendor"},
				{name: "missing", path: "missing"},
				{name: "default", path: "default"},
				{name: "below", path: "not-a-folder/below"},
				{name: "sealed", path: "sealed", isEncrypted: true},
				{name: "tpm", path: "/root/sealed", isEncrypted: true},
				{name: "prelet.var.*", isPattern: true},
				{name: "default", data: []byte("set")},
				{name: "token", data: []byte("not used")},
				{name: "set-sealed", data: []byte("x"), isEncrypted: true},
			}, nil
		},
	}

	for name, want := range map[string]struct {
		text string
		err  error
	}{
		"token":           {"from a path", nil},
		"gone":            {"", fs.ErrNotExist},
		"both":            {"received", nil},
		"renamed":         {"of the image", nil},
		"missing":         {"", fs.ErrNotExist},
		"below":           {"", fs.ErrNotExist},
		"default":         {"set", nil},
		"sealed":          {"decrypted at boot", nil},
		"tpm":             {"", ErrEncrypted},
		"set-sealed":      {"", ErrEncrypted},
		"prelet.var.zone": {"az1", nil},
		"prelet.var.rack": {"", ErrEncrypted},
		"prelet.var.none": {"", fs.ErrNotExist},
		"not-loaded":      {"", fs.ErrNotExist},
	} {
		got, err := Credentials{unit: u}.Read(name)
		if string(got) != want.text || !errors.Is(err, want.err) || (err == nil) != (want.err == nil) {
			t.Errorf("%s: got %q, %v; want %q, %v", name, got, err, want.text, want.err)
		}
	}

	names, err := Credentials{unit: u}.Names()
	want := []string{
		"below", "both", "default", "gone", "missing", "prelet.var.rack", "prelet.var.zone", "renamed", "sealed",
		"set-sealed", "token", "tpm",
	}
	if err != nil || !reflect.DeepEqual(names, want) {
		t.Errorf("Names: got %q, %v; want %q", names, err, want)
	}

	inUnit := Credentials{folder: filepath.Join(root, "etc/credstore")}.OfUnit("prelet-apply.service")
	if inUnit.unit != nil {
		t.Error("a process with credentials of its own: got those of another unit")
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
	if err != nil || len(none) != 0 {
		t.Errorf("a unit without credentials: got %+v, %v", none, err)
	}
	_, err = decodeCredentialLines(map[string]any{"LoadCredential": "x"})
	if err == nil {
		t.Error("a property of another type: got no error")
	}
}
