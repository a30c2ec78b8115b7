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
	for path, text := range table.Map[string](t, `
		/root/token                              | from a path
		/run/credentials/@system/both            | received
		/etc/credstore/both                      | stored
		/usr/lib/credstore/vendor                | of the image
		/etc/credstore/prelet.var.zone           | az1
		/etc/credstore/not-loaded                | x
		/etc/credstore.encrypted/prelet.var.rack | sealed
		/etc/credstore.encrypted/sealed          | sealed
		/run/credentials/prelet.service/sealed   | decrypted at boot
		/etc/credstore/not-a-folder              | x
	`) {
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
	loaded := credentialLine{name: "bootstrap-token", path: "bootstrap-token"}
	imported := credentialLine{name: "prelet.var.*", isPattern: true}
	for _, c := range []struct {
		systemd string
		lines   []credentialLine
		passed  string // names, in the folder of the unit's credentials
		stored  string // names, in a plain store
		want    string // names that can be read, and that Names returns
		asks    bool   // whether the lines are asked for
	}{
		{"247", []credentialLine{loaded}, "-", "bootstrap-token other", "bootstrap-token", true},
		{"249", []credentialLine{loaded}, "", "bootstrap-token prelet.var.zone other", "bootstrap-token", true},
		{"249, with a drop-in", []credentialLine{loaded, {name: "db", path: "db"}}, "", "db", "db", true},
		{"249, missing, with another one", []credentialLine{loaded, {name: "db", path: "db"}}, "", "other", "", true},
		{"249, missing", []credentialLine{loaded}, "", "", "", false},
		{"249, given by a path", []credentialLine{loaded}, "bootstrap-token", "", "bootstrap-token", false},
		{"252", []credentialLine{loaded}, "bootstrap-token", "bootstrap-token", "bootstrap-token", false},
		{"254, and a token of later", []credentialLine{loaded, imported}, "prelet.var.zone",
			"bootstrap-token prelet.var.zone", "bootstrap-token prelet.var.zone", true},
	} {
		root := t.TempDir()
		for name := range strings.FieldsSeq(c.stored) {
			writeFile(t, root, "/usr/lib/credstore/"+name, "of "+name)
		}
		asked := false
		in := Credentials{unit: &unitCredentials{root: root, unit: "prelet.service", lines: func() ([]credentialLine, error) {
			asked = true
			return c.lines, nil
		}}}
		if c.passed != "-" {
			in.folder = t.TempDir()
			for name := range strings.FieldsSeq(c.passed) {
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
				t.Errorf("%s: %s: got %q, %v; names %q", c.systemd, name, content, readErr, names)
			}
		}
		if strings.Join(got, " ") != c.want || len(names) != len(got) || err != nil || asked != c.asks {
			t.Errorf("%s: got %q, names %q, %v, asked %t; want %q, asked %t",
				c.systemd, got, names, err, asked, c.want, c.asks)
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
	want = []credentialLine{{name: "bootstrap-token", path: "bootstrap-token"}}
	if err != nil || !reflect.DeepEqual(none, want) {
		t.Errorf("systemd 247, which drops the line of the token: got %+v, %v; want %+v", none, err, want)
	}
	_, err = decodeCredentialLines(map[string]any{"LoadCredential": "x"})
	if err == nil {
		t.Error("a property of another type: got no error")
	}
}
