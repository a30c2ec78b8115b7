package boot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/testing/demo"
	"github.com/prelet/prelet/test/matrix"
	"github.com/prelet/prelet/test/nspawn"
)

const nodeName = "n1"

// machine is a node of a cluster.
type machine struct {
	*nspawn.Machine
	cluster *cluster
	site    string

	image string // of its disk, where that can lose its power; else the disk is memory
	loop  int    // the device that it is on
}

// ran is a command that ended inside.
type ran = nspawn.Ran

const site = `
cluster {
  servers        = ["SERVER"]
  ca_cert_hashes = ["PIN"]
  token          = credential("bootstrap-token")
  retry          = "1s"
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "label" "node" { labels = { "example.com/pool" = "a" } }
stage "write" "kubelet" {}
stage "restart" "kubelet" {
  verify {
    settle  = "1s"
    timeout = "60s"
  }
}
`

// newMachine is one that was never booted: packages installed and enabled, a site, a token, a cluster that answers.
// more are layers of the image that most machines have not.
func newMachine(t *testing.T, more ...string) *machine {
	t.Helper()
	return machineOn(t, func(m *machine, cache string) error { return m.layers(cache, more...) })
}

// layers is a disk in memory over the image.
func (m *machine) layers(cache string, more ...string) error {
	layers := []string{cache + "/layer"}
	for _, layer := range more {
		layers = append(layers, cache+"/"+layer)
	}
	return m.Overlay(append(layers, cache+"/debian")...)
}

// machineOn is newMachine on a disk that is made by disk.
func machineOn(t *testing.T, disk func(m *machine, cache string) error) *machine {
	t.Helper()
	cache := nspawn.Cache(t)
	m := &machine{Machine: nspawn.New(t, filepath.Join(cache, "run"))}
	m.cluster = newCluster(t, m.Name)
	m.useNetwork(m.Name)
	must(t, disk(m, cache))
	m.put("/etc/machine-id", fmt.Sprintf("%032x\n", time.Now().UnixNano()))
	m.put("/etc/hostname", nodeName+"\n")
	m.put("/var/log/journal/.keep", "") // a folder there is what keeps the journal over a kill
	m.site = strings.NewReplacer("SERVER", m.cluster.URL, "PIN", m.cluster.CAHash()).Replace(site)
	m.put("/etc/prelet/site.hcl", m.site)
	m.put("/etc/credstore/bootstrap-token", demo.Token+"\n")
	conf := m.cluster.NodeKubeconfig(nodeName)
	m.put("/etc/standin/kubelet.conf", string(conf))
	m.command("systemd-sysusers", "--root="+m.Root) // as the package does; that of 247 fails in a chroot without /proc
	m.chroot("systemctl", "enable", "kubelet.service", "prelet.service", "prelet-verify.service")
	m.cluster.back()
	return m
}

// chroot runs a command on the disk of a machine that is off.
func (m *machine) chroot(args ...string) {
	m.T.Helper()
	m.command("chroot", append([]string{m.Root}, args...)...)
}

// command runs a command of this machine.
func (m *machine) command(name string, args ...string) {
	m.T.Helper()
	c := exec.CommandContext(m.T.Context(), name, args...)
	if out, err := c.CombinedOutput(); err != nil {
		m.T.Fatalf("%s: %v\n%s", c, err, out)
	}
}

// hasSystemd reports whether the image has this version of systemd or a newer one.
func (m *machine) hasSystemd(least int) bool {
	m.T.Helper()
	version, err := matrix.Systemd(m.Root)
	var got int
	if err == nil {
		_, err = fmt.Sscan(strings.FieldsFunc(version, func(c rune) bool { return c < '0' || c > '9' })[0], &got) // 262~rc1
	}
	must(m.T, err)

	return got >= least
}

// TestMain runs the tests in their own mount namespace.
func TestMain(tests *testing.M) { os.Exit(nspawn.Main(tests, "./image.sh")) }

// useNetwork puts the machine into the network namespace of that name.
func (m *machine) useNetwork(name string) {
	m.Options = []string{"--network-namespace-path=/run/netns/" + name, "--machine=" + m.Name, "--hostname=" + nodeName}
}

// property is one of a unit's, as systemctl shows it.
func (m *machine) property(unit, name string) string {
	m.T.Helper()
	return strings.TrimSpace(m.Try("systemctl", "show", unit, "--value", "-p", name).Out)
}

// status is what `prelet status -o json` says of the last run.
type status struct {
	State      string
	Exit       int
	Summary    string
	Generation int
	Verdict    string
	Why        string
	Held       *struct{ Why string }
	Degraded   []struct{ Code, Summary string }
	Notes      []struct{ Code, Summary string }
	Gate       struct {
		Open       bool
		Generation int
		Why        string
	}
	Code int `json:"status_exit"`
}

func (m *machine) status() status {
	m.T.Helper()
	var s status
	r := m.Try("prelet", "status", "-o", "json")
	if err := json.Unmarshal([]byte(r.Out), &s); err != nil {
		m.T.Fatalf("prelet status: exit %d: got %v; want no error:\n%s%s", r.Exit, err, r.Out, r.Errors)
	}
	if r.Exit != s.Code {
		m.T.Errorf("prelet status: exit %d, and says %d; want %d", r.Exit, s.Code, s.Code)
	}
	return s
}

// verdict waits for the one on what is in place.
func (m *machine) verdict(want string) status {
	m.T.Helper()
	var s status
	m.Within(90*time.Second, "verdict "+want, func() string {
		if s = m.status(); s.Verdict == want && s.State != "running" {
			return ""
		}
		return fmt.Sprintf("%+v", s)
	})
	return s
}

// start is what the stand-in wrote down at its exec.
type start struct {
	PID        int
	Unix       int64 `json:"unix_ms"`
	Generation string
	Labels     map[string]string
	Domain     string
	Joined     bool
	Error      string
}

// starts are those of the kubelet, of all boots.
func (m *machine) starts() (out []start) {
	m.T.Helper()
	for line := range strings.Lines(m.read("/var/log/standin/starts")) {
		var s start
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			m.T.Fatalf("%q: got %v; want no error", line, err)
		}
		out = append(out, s)
	}
	return out
}

func (m *machine) put(path, text string) {
	m.T.Helper()
	m.Put(path, text, 0o644)
}

// read is "" for a file that is not there.
func (m *machine) read(path string) string {
	m.T.Helper()
	b, err := os.ReadFile(m.Root + path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.T.Fatal(err)
	}
	return string(b)
}

// disk is what a boot that has nothing to do must not write to: path → mode, inode, times. Content that changes
// changes a time.
func (m *machine) disk() map[string]string {
	m.T.Helper()
	out := map[string]string{}
	for _, top := range []string{"/etc", "/var/lib/kubelet", "/var/lib/prelet"} {
		err := filepath.WalkDir(m.Root+top, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			st := info.Sys().(*syscall.Stat_t)
			out[strings.TrimPrefix(p, m.Root)] = fmt.Sprintf(
				"%s inode %d, modified %d.%09d, changed %d.%09d",
				info.Mode(),
				st.Ino,
				st.Mtim.Sec,
				st.Mtim.Nsec,
				st.Ctim.Sec,
				st.Ctim.Nsec,
			)
			return nil
		})
		must(m.T, err)
	}
	return out
}
