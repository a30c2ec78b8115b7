//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/prelet/prelet/internal/model/texts"
)

// TestKindOf recognises a file by its content. A folder, a pipe and a file that does not exist are of no kind.
func TestKindOf(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"config": "apiVersion: v1\nkind: Config\n",
		"ca.crt": "-----BEGIN CERTIFICATE-----\nMII",
		"site":   "# a site\ncluster {}\n",
	} {
		must(t, os.WriteFile(in(name), []byte(text), 0o600))
	}
	must(t, syscall.Mkfifo(in("pipe"), 0o600))

	for name, want := range map[string]string{
		"config": texts.KindKubeconfig, "ca.crt": texts.KindCertificate, "site": "", "pipe": "", ".": "", "gone": "",
	} {
		if got := kindOf(in(name)); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
