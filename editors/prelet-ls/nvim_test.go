package main

import (
	"context"
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

	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	// After an error of the script it would wait for keys.
	cmd := exec.CommandContext(ctx, editor, "--clean", "--headless", "main.hcl", "-c", "luafile "+script, "-c", "cquit 2")
	cmd.Dir = site
	cmd.WaitDelay = time.Minute
	cmd.Env = append(os.Environ(), asServer+"=1", "PRELET_LS="+os.Args[0],
		"XDG_STATE_HOME="+site, "XDG_DATA_HOME="+site, "XDG_CACHE_HOME="+site)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	want := `diagnostic: 8 Unknown variable "zoen"
formatted:   rack = split("-", var.zone)[1]
renamed:   row = split("-", var.zone)[1], "example.com/rack"            = local.row
`
	if got := strings.ReplaceAll(string(out), "\r", ""); got != want || err != nil {
		t.Errorf("Neovim: got %q, %v; want %q; it said: %s", got, err, want, said.String())
	}
}
