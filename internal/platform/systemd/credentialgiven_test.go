package systemd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeFile(t *testing.T, root, path, text string) {
	t.Helper()
	file := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCheckGiven(t *testing.T) {
	root, given := t.TempDir(), t.TempDir()
	writeFile(t, given, "process", "x")
	writeFile(t, root, "/root/token", "x")
	// A line of any length, such as one with a certificate.
	long := "SetCredential=other:" + strings.Repeat("x", 4096) + "\n"
	writeFile(t, root, "/etc/systemd/system/prelet.service.d/10.conf", "[Service]\n"+long+
		"LoadCredential=loaded:/root/token\n"+
		"LoadCredentialEncrypted=gone:/root/none\n"+
		"LoadCredential=relative:name\n"+
		"LoadCredential=twice:/root/none\nLoadCredential=twice:/root/token\n")
	writeFile(t, root, "/usr/lib/systemd/system/prelet.service",
		"[Service]\nLoadCredential=own:/root/token\nSetCredential=set:x\nImportCredential=prelet.var.*\n")
	writeFile(t, root, "/etc/credstore/prelet.var.zone", "x")
	writeFile(t, root, "/etc/credstore/stored", "x")

	creds := NewCredentials(func(string) string { return given })
	for name, want := range map[string]string{
		"process": "",
		"loaded":  "",
		"twice":   "",
		"own":     "",
		"set":     "",
		"stored":  "prelet.service does not get it",
		"other":   "",

		"prelet.var.zone": "",
		"gone":            "prelet.service loads it from /root/none",
		"relative":        "prelet.service does not get it",
		"nosuch":          "prelet.service does not get it",
	} {
		err := creds.CheckGiven(root, "prelet.service", name)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}

// TestCheckGivenFolders looks into each folder of an image that systemd looks into, also where this process has no
// credentials at all.
func TestCheckGivenFolders(t *testing.T) {
	creds := NewCredentials(func(string) string { return "" })
	for _, path := range []string{
		"/etc/credstore/x", "/etc/credstore.encrypted/x", "/run/credstore/x", "/run/credstore.encrypted/x",
		"/usr/lib/credstore/x", "/usr/lib/credstore.encrypted/x",
		"/run/credentials/@system/x", "/run/credentials/@encrypted/x",
		"/etc/systemd/system/a.service", "/usr/local/lib/systemd/system/a.service",
		"/usr/lib/systemd/system/a.service", "/etc/systemd/system/a.service.d/x.conf",
	} {
		root := t.TempDir()
		writeFile(t, root, "/secret", "x")
		writeFile(t, root, "/usr/lib/systemd/system/a.service", "[Service]\nImportCredential=x*\n")
		writeFile(t, root, path, "[Service]\nLoadCredential=x:/secret\n")
		if err := creds.CheckGiven(root, "a.service", "x"); err != nil {
			t.Errorf("with %s: got %v, want no error", path, err)
		}
	}
}

// TestCheckGivenDenied returns the error of a store that this user may not look into, unless the unit loads the
// credential itself.
func TestCheckGivenDenied(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("needs a user other than root, who may read every file")
	}
	root := t.TempDir()
	writeFile(t, root, "/etc/credstore/x", "x")
	writeFile(t, root, "/usr/lib/systemd/system/a.service", "[Service]\nLoadCredential=x\n")
	if err := os.Chmod(filepath.Join(root, "etc/credstore/x"), 0); err != nil {
		t.Fatal(err)
	}

	creds := NewCredentials(func(string) string { return "" })
	if err := creds.CheckGiven(root, "a.service", "x"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a store that may not be read: got %v, want %v", err, fs.ErrPermission)
	}

	writeFile(t, root, "/secret", "x")
	writeFile(t, root, "/etc/systemd/system/a.service", "[Service]\nLoadCredential=x:/secret\n")
	if err := creds.CheckGiven(root, "a.service", "x"); err != nil {
		t.Errorf("loaded by the unit: got %v, want no error", err)
	}
}
