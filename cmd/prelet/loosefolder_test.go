package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/app"
)

// withApp is a node with a good generation 1 that writes a file to a folder of the site's own, and a site whose next
// plan is bad.
func withApp(t *testing.T) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a folder to another user")
	}
	m := newMachine(t)
	m.writeApp("a", "")
	if run, verify := m.boot(); run.exit != 0 || verify.exit != 0 {
		t.Fatalf("the first boot: %+v, %+v", run, verify)
	}
	m.sick = func() error {
		if strings.Contains(m.read("/etc/app/app.conf"), "bad") {
			return errors.New("500")
		}
		return nil
	}

	return m
}

// writeApp makes the site write a folder, with some more arguments, and a file in it.
func (m *machine) writeApp(text, more string) {
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `stage "write" "kubelet" {}`, `stage "write" "kubelet" {
  directory "app" {
    path = "/etc/app"
`+more+`
  }
  file "app" {
    path    = "/etc/app/app.conf"
    content = "`+text+`"
    notify  = [stage.restart.kubelet]
  }
}`, 1))
}

func (m *machine) giveApp() {
	m.t.Helper()
	if err := os.Chown(m.root+"/etc/app", 1000, 1000); err != nil {
		m.t.Fatal(err)
	}
}

// TestFolderOfAnotherUser refuses a folder in which another user could replace a target, before anything is written.
func TestFolderOfAnotherUser(t *testing.T) {
	t.Parallel()
	m := withApp(t)
	for _, more := range []string{`owner = "1000:1000"`, `mode = "0777"`, "owner = \"0:1000\"\nmode = \"0775\""} {
		m.writeApp("bad", more)
		for _, command := range [][]string{{"validate", "--config", m.root + "/etc/prelet"}, {"run"}} {
			m.want(command[0], m.as("", command...), ended{exit: 10, errors: "/etc/app must be writable by root only"})
		}
	}
	if got := m.read("/etc/app/app.conf"); got != "a" {
		t.Errorf("the file holds %q, want a", got)
	}
}

// TestFolderMended gets out of a folder that became another user's: by a site that takes it back, by one that leaves
// it, by hand, and not by one that goes on writing there.
func TestFolderMended(t *testing.T) {
	t.Parallel()
	m := withApp(t)
	m.giveApp()
	m.put(
		"/etc/prelet/site.hcl",
		strings.Replace(m.read("/etc/prelet/site.hcl"), "directory \"app\"", "directory \"other\"", 1),
	)
	m.want("the site that says nothing of the owner", m.as("", "run"), ended{})
	var st unix.Stat_t
	if err := unix.Stat(m.root+"/etc/app", &st); err != nil || st.Uid != 0 {
		t.Errorf("the folder belongs to %d (%v), want 0", st.Uid, err)
	}

	m.giveApp()
	m.writeApp("b", `owner = "root:root"`)
	m.want("the site that takes it back", m.as("", "run"), ended{})
	if got := m.read("/etc/app/app.conf"); got != "b" {
		t.Errorf("the file holds %q, want b", got)
	}

	m.giveApp()
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `stage "write" "kubelet" {}`, `stage "write" "kubelet" {
  file "app" {
    path    = "/etc/app/app.conf"
    content = "c"
  }
}`, 1))
	m.want("the site that goes on", m.as("", "run"), ended{exit: 40, errors: "chown root: /etc/app"})
	m.want("by hand", m.as("", "rollback", "1"), ended{})
	m.want("release", m.as("", "rollback", "--release"), ended{})

	m.giveApp()
	m.put("/etc/prelet/site.hcl", m.site)
	m.want("the site without both", m.as("", "run"), ended{})
	if got := m.read("/etc/app/app.conf"); got != "" {
		t.Errorf("the file still holds %q", got)
	}
}

// TestWayBackThroughFolderOfAnotherUser goes back though the folder became another user's after the commit, and says
// so.
func TestWayBackThroughFolderOfAnotherUser(t *testing.T) {
	t.Parallel()
	m := withApp(t)
	m.writeApp("bad", "")
	m.reboot()
	m.inside = true
	m.want("run", m.as(app.BootUnit, "run"), ended{})
	m.inside = false
	m.giveApp()
	if err := os.Chown(m.root+"/etc", 1000, 1000); err != nil {
		t.Fatal(err)
	}
	m.units.start()
	m.want("verify", m.as(app.VerifyUnit, "verify"), ended{exit: 50})
	if got := m.read("/etc/app/app.conf"); got != "a" {
		t.Errorf("the file holds %q, want a", got)
	}
	if got := m.gateSays(); !strings.Contains(got, "3") || m.kubelet.Active != "active" {
		t.Errorf("the gate says %q, the kubelet is %s; want generation 3 and active", got, m.kubelet.Active)
	}
	if !strings.Contains(m.log.String(), "chown root: /etc") {
		t.Errorf("nothing says that /etc belongs to another user:\n%s", &m.log)
	}
}

// TestNoWayBack leaves the kubelet on a bad generation, with the reason, where the way back leads over a link.
func TestNoWayBack(t *testing.T) {
	t.Parallel()
	m := withApp(t)
	m.writeApp("bad", "")
	m.reboot()
	m.inside = true
	m.want("run", m.as(app.BootUnit, "run"), ended{})
	m.inside = false
	if err := errors.Join(
		os.Rename(m.root+"/etc/app", m.root+"/etc/moved"),
		os.Symlink("moved", m.root+"/etc/app"),
	); err != nil {
		t.Fatal(err)
	}
	m.units.start()
	for range 2 {
		m.want("verify", m.as(app.VerifyUnit, "verify"), ended{exit: 50})
		if got := m.gateSays(); !strings.Contains(got, "2") || m.kubelet.Active != "active" {
			t.Errorf("the gate says %q, the kubelet is %s; want generation 2 and active", got, m.kubelet.Active)
		}
	}
	if got := m.says().Summary; !strings.Contains(got, "so the current one stays") {
		t.Errorf("status says %q, want why it stays", got)
	}
	m.want("by hand", m.as("", "rollback", "1"), ended{exit: 40, errors: "/etc/app"})

	if err := errors.Join(os.Remove(m.root+"/etc/app"), os.Rename(m.root+"/etc/moved", m.root+"/etc/app")); err != nil {
		t.Fatal(err)
	}
	m.want("with the folder again", m.as(app.VerifyUnit, "verify"), ended{exit: 50})
	if got := m.read("/etc/app/app.conf"); got != "a" {
		t.Errorf("the file holds %q, want a", got)
	}
}

// TestFolderOfKube lets another user own /etc/kubernetes on a node that has joined, as Kubespray does. A site that
// reads nothing from the cluster is applied, with the command that fixes the owner. No request is made with
// kubelet.conf, and no file is written there; the kubelet of a good generation starts.
func TestFolderOfKube(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a folder to another user")
	}
	hasJoined := func(m *machine) {
		conf, err := m.server.NodeKubeconfig("n1")
		if err != nil {
			m.t.Fatal(err)
		}
		m.put("/etc/kubernetes/kubelet.conf", string(conf))
	}
	giveAway := func(m *machine) {
		if err := os.Chown(m.root+"/etc/kubernetes", 998, 0); err != nil {
			m.t.Fatal(err)
		}
	}
	const fix = "chown root: /etc/kubernetes"

	t.Run("without a cluster", func(t *testing.T) {
		m := newMachine(t)
		hasJoined(m)
		giveAway(m)
		m.put("/etc/prelet/site.hcl", `
stage "label" "node" { labels = { "example.com/pool" = "a" } }
stage "write" "kubelet" {
  kubelet_config { base = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" }
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
}
stage "restart" "kubelet" {}
`)
		run, verify := m.boot()
		m.want("run", run, ended{exit: 0, errors: fix})
		if verify.exit != 0 || len(m.starts) != 1 || m.gateSays() == "" {
			t.Errorf("verify %+v, starts %q, gate %q; want a kubelet that was started", verify, m.starts, m.gateSays())
		}
		if s := m.says(); len(s.Degraded) != 1 || s.Degraded[0].Code != "cluster-untrusted" {
			t.Errorf("got degraded %+v, want cluster-untrusted", s.Degraded)
		}
	})

	t.Run("with a cluster", func(t *testing.T) {
		m := newMachine(t)
		hasJoined(m)
		giveAway(m)
		run, _ := m.boot()
		m.want("run", run, ended{exit: 21, errors: fix})
		if got := m.server.Authorizations(); got != 0 {
			t.Errorf("the server was shown %d credentials, want none", got)
		}
	})

	t.Run("with a cluster and a good generation", func(t *testing.T) {
		m := goodNode(t)
		giveAway(m)
		m.reboot()
		run, _ := m.boot()
		m.want(
			"run",
			run,
			ended{exit: 40, errors: "/etc/kubernetes/pki/ca.crt: the folder /etc/kubernetes belongs to uid 998"},
		)
		if len(m.starts) != 1 || m.gateSays() == "" {
			t.Errorf("starts %q, gate %q; want the kubelet of generation 1", m.starts, m.gateSays())
		}
	})
}
