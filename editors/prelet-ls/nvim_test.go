package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestNeovim is a session of the real editor, without a screen. It is skipped where Neovim is not installed.
func TestNeovim(t *testing.T) {
	editor, err := exec.LookPath("nvim")
	if err != nil {
		t.Skip("nvim is not installed")
	}
	site := t.TempDir()
	must(t, os.CopyFS(site, os.DirFS("testdata/site")))
	script, err := filepath.Abs("testdata/session.lua")
	must(t, err)

	cmd := exec.CommandContext(t.Context(), editor, "--clean", "--headless", "main.hcl", "-c", "luafile "+script)
	cmd.Dir = site
	cmd.WaitDelay = time.Minute
	cmd.Env = append(os.Environ(), asServer+"=1", "PRELET_LS="+os.Args[0], "XDG_STATE_HOME="+site, "XDG_DATA_HOME="+site)
	out, err := cmd.Output()
	want := `diagnostic: 8 Unknown variable "zoen"
formatted:   rack = split("-", var.zone)[1]
renamed:   row = split("-", var.zone)[1], "example.com/rack"            = local.row
`
	if got := strings.ReplaceAll(string(out), "\r", ""); got != want || err != nil {
		t.Errorf("Neovim: got %q, %v; want %q", got, err, want)
	}
}
