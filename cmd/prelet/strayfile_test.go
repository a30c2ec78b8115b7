package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file of another user lies in the state folder, as a copy that kept its owner leaves one: what bears no name of
// prelet's is passed over, a generation or a verdict counts as damaged, and the node comes up.
func TestStrayFile(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a file to another user")
	}

	for name, c := range map[string]struct {
		path, text string // no text: what is there, with another owner
		folder     bool
		link       string
	}{
		"a copy of a site":              {path: "site.bak", text: "x"},
		"a marker among generations":    {path: "generations/.backup", text: "x"},
		"a folder":                      {path: "lost+found", folder: true},
		"the kubelet's flags":           {path: "kubelet.json", text: "{}"},
		"held plans":                    {path: "held.json", text: "{}"},
		"a generation that never was":   {path: "generations/9", text: "{}"},
		"a staged one":                  {path: "generations/9.staged", text: "{}"},
		"a verdict on none":             {path: "generations/9.status.json", text: "{}"},
		"the newest generation":         {path: "generations/3"},
		"the verdict on it":             {path: "generations/3.status.json"},
		"an older generation":           {path: "generations/2"},
		"the verdict on that":           {path: "generations/2.status.json"},
		"a generation that is a folder": {path: "generations/9", folder: true},
		"a generation that is a link":   {path: "generations/9", link: "3"},
		"a verdict that is a link":      {path: "generations/3.status.json", link: "2.status.json"},
	} {
		t.Run(name, func(t *testing.T) {
			m := goodThree(t)
			path := filepath.Join(m.stateDir(), c.path)
			var err error
			switch {
			case c.folder:
				err = os.Mkdir(path, 0o700)
			case c.link != "":
				_ = os.Remove(path)
				err = os.Symlink(c.link, path)
			case c.text != "":
				err = os.WriteFile(path, []byte(c.text), 0o600)
			}
			if err == nil {
				err = os.Lchown(path, 1000, 1000)
			}
			if err != nil {
				t.Fatal(err)
			}

			for range 2 {
				m.reboot()
				run, verify := m.boot()
				m.want("run", run, ended{0, "", ""})
				if verify.exit > 0 { // -1: its unit was not started
					m.want("verify", verify, ended{0, "", ""})
				}
				if m.gateSays() == "" || m.kubelet.Active != "active" {
					t.Errorf("gate %q, kubelet %+v; want it to run", m.gateSays(), m.kubelet)
				}
			}
			if c.path == "held.json" { // holds every plan until somebody looks
				return
			}
			m.relabel("d")
			m.want("a change", m.as("", "run"), ended{0, "is in place", ""})
			m.relabel("bad")
			m.want("a bad one", m.as("", "run"), ended{50, "", "was unhealthy and was rolled back"})
			if flags := m.read("/etc/default/kubelet"); !strings.Contains(flags, "pool=d") {
				t.Errorf("flags: got %s, want those that were good", flags)
			}
		})
	}
}
