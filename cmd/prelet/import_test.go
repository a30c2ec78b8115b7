package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const importPin = "sha256:c4fb9ec8e0051b9a7bec575444da6356eb9bad26f409264e7719b16424e2c270"

// imports runs `prelet import`.
func imports(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(append([]string{"import"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// TestImport makes a site, validates it strictly and finds it laid out as fmt does.
func TestImport(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "site")
	code, stdout, stderr := imports(
		"../../internal/app/importer/testdata/troubled.json",
		"--ca-cert-hash",
		importPin,
		"--ca-cert-hash",
		strings.Replace(importPin, "c4", "c5", 1),
		"--token-credential",
		"join",
		"--out",
		dir,
	)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, want := range []string{"prelet validate " + dir, "prelet plan --config " + dir, `credential "join"`, "TLS"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("stdout does not say %q:\n%s", want, stdout)
		}
	}
	if !strings.Contains(stderr, "A taint is not imported") || strings.Contains(stdout, "A taint is not imported") {
		t.Errorf("what is left out belongs on stderr:\n%s", stderr)
	}
	for _, line := range strings.Split(stdout, "\n") {
		if len(line) > 80 && !strings.Contains(line, dir) {
			t.Errorf("a line of %d columns: %s", len(line), line)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "site.hcl" {
		t.Fatalf("%v, %v", entries, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "site.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{importPin, `credential("join")`, "LoadCredential=join:"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the site does not hold %s", want)
		}
	}
	var out, errs bytes.Buffer
	if code := run([]string{"validate", "--strict", dir}, &out, &errs); code != 0 {
		t.Errorf("validate --strict: exit %d: %s", code, errs.String())
	}
	if code := run([]string{"fmt", "--check", dir}, &out, &errs); code != 0 {
		t.Errorf("fmt --check: exit %d", code)
	}
	if code, _, _ := imports(
		"../../internal/app/importer/testdata/troubled.json",
		"--ca-cert-hash",
		importPin,
		"--out",
		dir,
	); code != 64 {
		t.Errorf("a second import over the first: exit %d, want 64", code)
	}
}

// TestImportRefuses: each refusal has its exit status, says what to do, and leaves no folder.
func TestImportRefuses(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	file := func(name, text string) string {
		p := filepath.Join(tmp, name)
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	good, bad := file("good.json", `{"apiserver": "h:6443"}`), file("bad.json", "{\n\"apiserver\": }")
	full := filepath.Join(tmp, "full")
	if err := os.MkdirAll(filepath.Join(full, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(tmp, "fresh")
	for _, c := range []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"no pin", []string{good, "--out", fresh}, 64, []string{"--ca-cert-hash", "kubeadm token create " +
			"--print-join-command", "openssl x509", "not offered"}},
		{"a bad pin", []string{good, "--out", fresh, "--ca-cert-hash", "c4fb"}, 64, []string{"sha256:", "openssl x509"}},
		{"no folder", []string{good, "--ca-cert-hash", importPin}, 64, []string{"--out is missing"}},
		{"no file", []string{"--out", fresh, "--ca-cert-hash", importPin}, 64, []string{"/etc/kubernetes/init-config"}},
		{"a file that is not there", []string{tmp + "/none.json", "--out", fresh, "--ca-cert-hash", importPin}, 64, []string{"none.json"}},
		{"a folder as the file", []string{tmp, "--out", fresh, "--ca-cert-hash", importPin}, 64, []string{"directory"}},
		{"a full folder", []string{good, "--out", full, "--ca-cert-hash", importPin}, 64, []string{"not empty"}},
		{"a file for a folder", []string{good, "--out", bad, "--ca-cert-hash", importPin}, 64, []string{"this is a file"}},
		{"below a file", []string{good, "--out", bad + "/x", "--ca-cert-hash", importPin}, 64, []string{"this is a file"}},
		{"a bad credential", []string{good, "--out", fresh, "--ca-cert-hash", importPin, "--token-credential", "a/b"}, 64, []string{"--token-credential"}},
		{"no JSON", []string{bad, "--out", fresh, "--ca-cert-hash", importPin}, 10, []string{"Line 2: invalid character", "Invalid JSON"}},
		{"http", []string{file("http.json", `{"apiserver": "http://h:8080"}`), "--out", fresh, "--ca-cert-hash", importPin}, 10, []string{"The API server cannot be used", "http is refused"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := imports(c.args...)
			if code != c.code {
				t.Errorf("exit %d, want %d: %s", code, c.code, stderr)
			}
			for _, s := range c.says {
				if !strings.Contains(stderr, s) {
					t.Errorf("stderr does not say %q:\n%s", s, stderr)
				}
			}
			if stdout != "" {
				t.Errorf("stdout is not empty: %s", stdout)
			}
			if _, err := os.Stat(fresh); err == nil {
				t.Error("a folder was made")
			}
		})
	}
}
