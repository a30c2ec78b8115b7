package planning

import (
	"os"
	"testing"

	"github.com/prelet/prelet/internal/machine"
)

// The root of the running system is not one to write below while its units run, by whatever name.
func TestRootOfTheRunningSystem(t *testing.T) {
	link := t.TempDir() + "/link"
	must(t, os.Symlink("/", link))
	for _, root := range []string{"/", "/usr/..", link, link + "/"} {
		for _, systemd := range []bool{true, false} {
			a := &machine.Env{On: &machine.Host{Systemd: systemd}}
			if err := a.RefuseRunningRoot(root); (err != nil) != systemd {
				t.Errorf("%s, systemd %v: %v", root, systemd, err)
			}
		}
	}
	if err := (&machine.Env{On: &machine.Host{Systemd: true}}).RefuseRunningRoot(t.TempDir()); err != nil {
		t.Errorf("a folder of somebody's: %v", err)
	}
}
