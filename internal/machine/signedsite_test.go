package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
)

func TestCheckCounter(t *testing.T) {
	for text, isRefused := range map[string]bool{
		"6\n": false, "7": false, "8\n": true, "": true, "x": true, "-1": true, "5 6": true,
		"99999999999999999999999": true,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, counterFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}

		got := checkCounter(dir, 7)
		if (got != nil) != isRefused || got != nil && origin.CodeOf(got) != fault.SiteSignature {
			t.Errorf("checkCounter(7) after %q: got %v, want refused %t", text, got, isRefused)
		}
		if got := checkCounter(dir, 0); got != nil {
			t.Errorf("checkCounter of a site that was not checked, after %q: got %v, want nil", text, got)
		}
	}

	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, counterFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := checkCounter(folder, 7); got == nil {
		t.Error("checkCounter with a folder in place of the file: got nil, want it refused")
	}

	dangling := t.TempDir()
	if err := os.Symlink("nowhere", filepath.Join(dangling, counterFile)); err != nil {
		t.Fatal(err)
	}
	if got := checkCounter(dangling, 7); got == nil || !strings.Contains(got.Detail, "a link that leads nowhere") {
		t.Errorf("checkCounter with a link to nothing: got %v, want it refused as such", got)
	}
	if got := checkCounter(t.TempDir(), 7); got != nil {
		t.Errorf("checkCounter on a new node: got %v, want nil", got)
	}
}

func TestKeepCounter(t *testing.T) {
	dir := t.TempDir()
	plan := func() *evaluate.Plan {
		return &evaluate.Plan{Site: &lang.Site{Counter: 7}, Complete: true}
	}

	p := plan()
	KeepCounter(dir, p)
	if got, err := os.ReadFile(filepath.Join(dir, counterFile)); string(got) != "7\n" || len(p.Degraded) != 0 {
		t.Errorf("keepCounter: got %q, %v, degraded %v; want 7", got, err, p.Degraded)
	}

	p = plan()
	KeepCounter(filepath.Join(dir, "none"), p)
	if len(p.Degraded) != 1 || p.Degraded[0].Code != fault.SiteSignature {
		t.Errorf("keepCounter in a folder that does not exist: got %v, want it degraded", p.Degraded)
	}

	p = plan()
	p.Complete = false
	KeepCounter(filepath.Join(dir, "none"), p)
	if len(p.Degraded) != 0 {
		t.Errorf("keepCounter of an incomplete plan: got %v, want nothing", p.Degraded)
	}
}
