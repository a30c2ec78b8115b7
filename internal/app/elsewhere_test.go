package app

import (
	"os"
	"testing"
)

// The root of the running system is not one to write below while its units run, by whatever name.
func TestRootOfTheRunningSystem(t *testing.T) {
	link := t.TempDir() + "/link"
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{"/", "/usr/..", link, link + "/"} {
		for _, systemd := range []bool{true, false} {
			a := &Env{On: &Host{Systemd: systemd}}
			if err := a.refuseRunningRoot(root); (err != nil) != systemd {
				t.Errorf("%s, systemd %v: %v", root, systemd, err)
			}
		}
	}
	if err := (&Env{On: &Host{Systemd: true}}).refuseRunningRoot(t.TempDir()); err != nil {
		t.Errorf("a folder of somebody's: %v", err)
	}
}
