package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/report"
)

const (
	kubeletConf = "/etc/kubernetes/kubelet.conf"
	oldPEM      = "/var/lib/kubelet/pki/kubelet-client-2026-01-01-00-00-00.pem"
	current     = "/var/lib/kubelet/pki/kubelet-client-current.pem"
)

// template is a node that has joined as n1, with its certificate where a kubelet keeps it.
func template(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	m.put("/etc/hostname", "n1\n")
	m.onStart = m.joinAs("n1")
	run, verify := m.boot()
	if run.exit != 0 || verify.exit != 0 {
		t.Fatalf("the template's first boot: %+v, %+v", run, verify)
	}
	m.put("/var/lib/kubelet/cpu_manager_state", `{"policyName":"none"}`)
	return m
}

// joinAs is what a kubelet does: with a bootstrap kubeconfig and no identity of its own it gets a certificate for its
// name.
func (m *machine) joinAs(name string) func() {
	return func() {
		if m.read("/etc/kubernetes/bootstrap-kubelet.conf") == "" ||
			m.read(current) != "" && m.read(kubeletConf) != "" {
			return
		}
		cert, key, err := m.server.IssueNode(name)
		if err != nil {
			m.t.Fatal(err)
		}
		pem := oldPEM
		if name != "n1" {
			pem = strings.Replace(oldPEM, "01-01", "02-02", 1)
		}
		m.put(pem, string(cert)+string(key))
		_ = os.Remove(m.root + current)
		if err := os.Symlink(pem, m.root+current); err != nil {
			m.t.Fatal(err)
		}
		conf, err := m.server.NodeKubeconfig(name)
		if err != nil {
			m.t.Fatal(err)
		}
		m.put(kubeletConf, fileConf(string(conf)))
	}
}

// fileConf is a kubelet.conf that names its certificate, as a kubelet writes it.
func fileConf(conf string) string {
	var out []string
	for line := range strings.Lines(conf) {
		for _, what := range []string{"client-certificate", "client-key"} {
			if strings.HasPrefix(strings.TrimSpace(line), what+"-data:") {
				line = "    " + what + ": " + current + "\n"
			}
		}
		out = append(out, line)
	}
	return strings.Join(out, "")
}

// node is the name in the certificate that the kubelet would start with; "" for none.
func (m *machine) node() string {
	link, err := os.Readlink(m.root + current)
	if err != nil || m.read(kubeletConf) == "" || m.read(link) == "" {
		return ""
	}
	if strings.Contains(link, "01-01") {
		return "n1"
	}
	return "n2"
}

// copied makes another machine of the disk, which gets another host name.
func (m *machine) copied(path, text string) {
	m.t.Helper()
	m.put(path, text)
	m.put("/etc/hostname", "n2\n")
	m.onStart = m.joinAs("n2")
	m.reboot()
}

// A disk that was copied to another machine: that one sets the identity aside and joins under its own name.
func TestClone(t *testing.T) {
	t.Parallel()
	for what, change := range map[string][2]string{
		"machine id":   {"/etc/machine-id", "fedcba9876543210fedcba9876543210\n"},
		"product uuid": {"/sys/class/dmi/id/product_uuid", "4c4c4544-0042-3510-8054-b4c04f4d3332\n"},
	} {
		t.Run(what, func(t *testing.T) {
			m := newMachine(t)
			m.put("/etc/hostname", "n1\n")
			m.put("/sys/class/dmi/id/product_uuid", "4c4c4544-0042-3510-8054-b4c04f4d3331\n")
			m.onStart = m.joinAs("n1")
			m.boot()
			m.put("/var/lib/kubelet/cpu_manager_state", `{"policyName":"none"}`)
			if m.node() != "n1" {
				t.Fatal("the template did not join")
			}
			key := m.read(oldPEM)
			m.copied(change[0], change[1])
			plan := m.as("", "plan", "-o", "json", "--root", m.root)
			m.want("plan", plan, ended{0, what + " and the host name are not those of generation 1", ""})
			if strings.Contains(plan.out, "PRIVATE KEY") || !strings.Contains(plan.out, `"purpose":"identity"`) {
				t.Errorf("plan: %s", plan.out)
			}
			m.want(
				"explain",
				m.as("", "explain", "file/"+kubeletConf, "--root", m.root),
				ended{0, "It is to be absent: it belongs to node n1.", ""},
			)

			m.inside = true
			run := m.as(app.BootUnit, "run")
			m.inside = false
			m.want("run", run, ended{0, "Generation 2 is in place", "The identity on this disk belongs to node n1"})
			if m.node() != "" || m.read(kubeletConf) != "" || m.read(oldPEM) != "" ||
				m.read("/var/lib/kubelet/cpu_manager_state") != "" {
				t.Error("the kubelet would start with what is of the other machine")
			}
			m.units.start()
			m.want("verify", m.as(app.VerifyUnit, "verify"), ended{0, "the kubelet is healthy on it", ""})
			if m.node() != "n2" {
				t.Errorf("it joined as %q", m.node())
			}
			if s := m.says(); s.State != report.OK || len(s.Notes) != 1 ||
				!strings.Contains(s.Notes[0].Summary, "the identity of node n1 was on this disk") {
				t.Errorf("status: got %+v; want generation 2 and no good generation", s)
			}
			m.want("status", m.as("", "status"), ended{0, "note", ""})
			if len(m.entries("it is removed, and the node joins again")) == 0 {
				t.Error("the journal does not say it")
			}
			if !m.inGenerations(key) {
				t.Error("what was set aside is nowhere")
			}
			if rec := m.blob(2, "recording.json"); !strings.Contains(rec, kubeletConf) ||
				strings.Contains(rec, "PRIVATE KEY") {
				t.Errorf("the recording holds a key, or does not know the file: %s", rec)
			}

			m.reboot()
			before := m.disk()
			run, _ = m.boot()
			m.want("the boot after", run, ended{0, "No changes; generation 2 is in place.", ""})
			m.unchanged("the boot after", before)
			// Neither a way back nor a new generation brings the old identity back.
			m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `"a"`, `"b"`, 1))
			m.want("a change", m.as("", "run"), ended{0, "Generation 3 is in place", ""})
			m.want("back to the template's", m.as("", "rollback", "1"), ended{64, "", "was made on another machine"})
			m.want("as before prelet", m.as("", "rollback", "0"), ended{0, "", ""})
			if m.read(oldPEM) != "" || m.node() != "n2" {
				t.Error("the identity of the other machine is back")
			}
		})
	}
}

func (m *machine) inGenerations(text string) bool {
	m.t.Helper()
	store, err := generation.OpenReadOnly(generation.Options{Root: m.root, Dir: m.root + "/var/lib/prelet"})
	if err != nil {
		m.t.Fatal(err)
	}
	defer store.Close()
	sum := sha256.Sum256([]byte(text))
	got, err := store.Content(hex.EncodeToString(sum[:]))
	return err == nil && string(got) == text
}

func (m *machine) blob(gen int, name string) string {
	m.t.Helper()
	store, err := generation.OpenReadOnly(generation.Options{Root: m.root, Dir: m.root + "/var/lib/prelet"})
	if err != nil {
		m.t.Fatal(err)
	}
	defer store.Close()
	b, err := store.Blob(gen, name)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(b)
}

func (m *machine) unchanged(what string, before map[string]string) {
	m.t.Helper()
	for p, now := range m.disk() {
		if before[p] != now && p != "/var/lib/prelet/lock" {
			m.t.Errorf("%s: %s was %q and is %q", what, p, before[p], now)
		}
	}
}

// A copy that cannot be planned for must not start as the other machine: the gate stays shut, whatever is in place.
func TestCloneWithoutCluster(t *testing.T) {
	t.Parallel()
	m := template(t)
	_ = m.server.Close()
	m.copied("/etc/machine-id", "fedcba9876543210fedcba9876543210\n")
	run, _ := m.boot()
	m.want("run", run, ended{20, "", "generation 1 was made on another machine"})
	if m.gateSays() != "" || len(m.starts) != 0 {
		t.Errorf("gate %q, starts %q", m.gateSays(), m.starts)
	}
	if err := os.RemoveAll(m.root + "/etc/prelet"); err != nil {
		t.Fatal(err)
	}
	m.reboot()
	if run, _ = m.boot(); run.exit == 0 || m.gateSays() != "" {
		t.Errorf("without a site: %+v, gate %q", run, m.gateSays())
	}
}

// A copy that has joined under its own name stays that node when the generation in place is damaged or lost, and the
// newest that is left is of the machine that was copied.
func TestCloneWithoutItsGeneration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		spoil func(m *machine)
	}{
		{"its plan is damaged", func(m *machine) { m.flip("generations/2", `"plan_hash"`) }},
		{"its plan is damaged, at a boot", func(m *machine) { m.flip("generations/2", `"plan_hash"`); m.reboot(); m.boot() }},
		{"it is gone, at a boot", func(m *machine) { m.lose("generations/2"); m.reboot(); m.boot() }},
		{"its first line is damaged", func(m *machine) { m.damage("generations/2", 9) }},
		{"it is gone", func(m *machine) { m.lose("generations/2") }},
		{"the image's folder is back", func(m *machine) {
			m.lose("")
			m.copyState(m.root+"/image", m.stateDir())
		}},
		{"a later one is as before prelet, and it is gone", func(m *machine) {
			m.want("rollback 0", m.as("", "rollback", "0"), ended{0, "", ""})
			m.want("release", m.as("", "rollback", "--release"), ended{0, "", ""})
			m.lose("generations/2")
		}},
	} {
		for _, token := range []bool{true, false} {
			if !token && strings.HasPrefix(c.name, "a later one") {
				continue // as before prelet, the cluster is read with the token
			}
			t.Run(fmt.Sprintf("%s, token %v", c.name, token), func(t *testing.T) {
				m := template(t)
				m.copyState(m.stateDir(), m.root+"/image")
				m.copied("/etc/machine-id", "fedcba9876543210fedcba9876543210\n")
				m.boot()
				identity := m.read(kubeletConf) + m.read(strings.Replace(oldPEM, "01-01", "02-02", 1))
				if !token {
					if err := os.Remove(m.creds + "/bootstrap-token"); err != nil {
						t.Fatal(err)
					}
				}
				c.spoil(m)
				starts := len(m.starts)
				run := m.as("", "run")
				if run.exit == 41 {
					for _, line := range commands(run.errors) {
						run = m.paste(line)
					}
				}
				m.want("run", run, ended{0, "", ""})
				if len(m.starts) != starts && !strings.HasPrefix(c.name, "a later one") {
					t.Errorf("starts of the kubelet: got %q, want none by a run that changes no file",
						m.starts[starts:])
				}
				m.reboot()
				run, _ = m.boot()
				m.want("the boot after", run, ended{0, "", ""})

				now := m.read(kubeletConf) + m.read(strings.Replace(oldPEM, "01-01", "02-02", 1))
				if m.node() != "n2" || now != identity {
					t.Errorf("node: got %q, identity kept: %v; want n2 with the identity that it had",
						m.node(), now == identity)
				}
				if m.gateSays() == "" || m.kubelet.Active != "active" {
					t.Errorf("gate %q, kubelet %s; want it open, and the kubelet to run",
						m.gateSays(), m.kubelet.Active)
				}
			})
		}
	}
}

// flip changes one bit of a text that a generation keeps.
func (m *machine) flip(name, text string) {
	m.t.Helper()
	b, err := os.ReadFile(m.stateDir() + "/" + name)
	if err != nil {
		m.t.Fatal(err)
	}
	head := bytes.IndexByte(b, '\n')
	at := bytes.Index(b[head:], []byte(text))
	if at < 0 {
		m.t.Fatalf("%s keeps no %q", name, text)
	}
	m.damage(name, head+at)
}

// A copy on which the kubelet is unhealthy has no generation to roll back to: a verdict from the other machine does
// not count.
func TestCloneThatIsIll(t *testing.T) {
	t.Parallel()
	m := template(t)
	m.sick = func() error { return errors.New("503 Service Unavailable") }
	m.copied("/etc/machine-id", "fedcba9876543210fedcba9876543210\n")
	_, verify := m.boot()
	m.want("verify", verify, ended{50, "", ""})
	if s := m.says(); s.Generation != 2 || !strings.Contains(s.Why, "no good generation exists") {
		t.Errorf("status: got %+v; want generation 2 and no good generation", s)
	}
}

// A held plan or a pinned generation of the copied machine does not apply to the copy.
func TestCloneOfHeld(t *testing.T) {
	t.Parallel()
	m := template(t)
	m.want("rollback", m.as("", "rollback", "0"), ended{0, "", ""})
	m.copied("/etc/machine-id", "fedcba9876543210fedcba9876543210\n")
	run, verify := m.boot()
	m.want("run", run, ended{0, "is in place", ""})
	m.want("verify", verify, ended{0, "healthy", ""})
	if m.node() != "n2" {
		t.Errorf("it is %q", m.node())
	}
}

// The copy does not roll back to a generation of the copied machine, and a refused rollback does not prevent the next
// apply.
func TestBackToForeign(t *testing.T) {
	t.Parallel()
	m := template(t)
	m.copied("/etc/machine-id", "fedcba9876543210fedcba9876543210\n")
	m.boot()
	m.want("rollback", m.as("", "rollback", "1"), ended{64, "", "made on another machine"})
	if got := m.as("", "rollback", "1"); strings.Contains(got.errors, "internal") {
		t.Errorf("a question that cannot be answered is reported as a fault of prelet: %s", got.errors)
	}
	if got := m.read("/var/lib/prelet/held.json"); got != "" {
		t.Errorf("the node is pinned: %s", got)
	}
}

// A retry below a root that cannot write keeps the pin.
func TestRetryBelowRootThatCannotWrite(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.gone = true
	with := func(args ...string) ended { return m.as("", append(args, "--root", m.root)...) }
	m.want("run", with("run"), ended{0, "Generation 1", ""})
	m.want("rollback", with("rollback", "0"), ended{0, "", ""})
	pin := m.read("/var/lib/prelet/held.json")
	m.put("/elsewhere/here", "")
	if err := os.RemoveAll(m.root + "/etc/default"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../elsewhere", m.root+"/etc/default"); err != nil {
		t.Fatal(err)
	}
	if got := with("run", "--retry"); got.exit != 40 {
		t.Fatalf("%+v", got)
	}
	if got := m.read("/var/lib/prelet/held.json"); !strings.Contains(got, `"pin"`) || !strings.Contains(pin, `"pin"`) {
		t.Errorf("the pin is gone: %q", got)
	}
}

// An image without an identity and with a generation is taken over: later failures then find one of this machine.
func TestImageWithGeneration(t *testing.T) {
	t.Parallel()
	m := template(t)
	for _, p := range []string{kubeletConf, oldPEM, current} {
		if err := os.Remove(m.root + p); err != nil {
			t.Fatal(err)
		}
	}
	m.copied("/etc/machine-id", "fedcba9876543210fedcba9876543210\n")
	run, verify := m.boot()
	m.want("run", run, ended{0, "Generation 2 is in place", ""})
	m.want("verify", verify, ended{0, "healthy", ""})
	_ = m.server.Close()
	m.reboot()
	run, _ = m.boot()
	m.want("the apiserver away", run, ended{0, "generation 2", ""})
	if m.gateSays() != "PRELET_GENERATION=2" {
		t.Errorf("gate %q", m.gateSays())
	}
}

// An image made from a node that joined without prelet has no generation: it is recognised only by names and times.
func TestImageWithoutGeneration(t *testing.T) {
	t.Parallel()
	older := time.Now().Add(-time.Hour)
	for _, c := range []struct {
		name, site, host string
		older, aside     bool
	}{
		{"the site names another node", "node { name = \"n2\" }\n", "n1", false, true},
		{"the site names this node", "node { name = \"n1\" }\n", "n2", true, false},
		{"another host, and the machine id is younger", "", "n2", true, true},
		{"another host name, of the machine that joined", "", "n2", false, false},
		{"the host has no name yet", "", "localhost", true, false},
		{"the same host", "", "N1", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			m.put("/etc/hostname", c.host+"\n")
			m.put("/etc/prelet/site.hcl", c.site+m.site)
			m.put("/etc/kubernetes/bootstrap-kubelet.conf", "x")
			m.joinAs("n1")()
			if err := os.Remove(m.root + "/etc/kubernetes/bootstrap-kubelet.conf"); err != nil {
				t.Fatal(err)
			}
			if c.older {
				if err := os.Chtimes(m.root+oldPEM, older, older); err != nil {
					t.Fatal(err)
				}
			} else if err := os.Chtimes(m.root+"/etc/machine-id", older, older); err != nil {
				t.Fatal(err)
			}
			m.onStart = m.joinAs("n2")
			run, verify := m.boot()
			m.want("run", run, ended{0, "Generation 1 is in place", ""})
			m.want("verify", verify, ended{0, "healthy", ""})
			want := "n1"
			if c.aside {
				want = "n2"
			}
			if m.node() != want {
				t.Errorf("it is %q", m.node())
			}
		})
	}
}

// A node that has joined keeps its name: a typing error in a site must not make new nodes of a fleet.
func TestRenamedBySite(t *testing.T) {
	t.Parallel()
	m := template(t)
	m.put("/etc/prelet/site.hcl", "node { name = \"n3\" }\n"+m.site)
	m.want("run", m.as("", "run"), ended{10, "", "A node that has joined keeps its name"})
	if m.node() != "n1" {
		t.Errorf("it is %q", m.node())
	}
}

// A node comes back while another machine runs under its name: the boot says so, verify finds it although the Node is
// this machine's at its first look, and the status is ok again only when the other one has stopped.
func TestNodeOfTwoMachines(t *testing.T) {
	t.Parallel()
	m := template(t)
	own := strings.TrimSpace(m.read("/etc/machine-id"))
	another := func(*machine) string { return "fedcba9876543210fedcba9876543210" }
	wantState := func(what, state string) {
		t.Helper()
		s := m.says()
		if isFound := len(s.Degraded) == 1 && s.Degraded[0].Code == "node-is-another-machine"; s.State != state ||
			isFound != (state == report.Degraded) {
			t.Errorf("%s: got state %s, degraded %v; want %s, by node-is-another-machine if degraded",
				what, s.State, s.Degraded, state)
		}
	}

	m.nodeReady, m.nodeID = false, another
	m.reboot()
	run, _ := m.boot()
	m.want("the other machine has stopped", run, ended{0, "No changes", ""})
	wantState("the other machine has stopped", report.OK)

	m.nodeReady = true
	m.reboot()
	run, _ = m.boot()
	m.want("the other machine runs", run, ended{0, "No changes", ""})
	wantState("the other machine runs", report.Degraded)
	m.want("status", m.as("", "status"), ended{2, "node n1 is another machine: two", ""})

	began := m.now
	m.nodeID = func(m *machine) string { // each kubelet updates the Node every 10 s
		if (m.now-began)/(10*time.Second)%2 == 0 {
			return own
		}
		return another(m)
	}
	for range 3 {
		began = m.now
		m.want("verify", m.as("", "verify"), ended{50, "", "node n1 is another machine"})
		wantState("verify", report.Degraded)
	}
	m.want("run", m.as("", "run"), ended{0, "No changes", ""})
	wantState("run", report.Degraded)

	m.nodeID = func(*machine) string { return own }
	began = m.now
	m.want("verify without the other machine", m.as("", "verify"), ended{0, "machine", ""})
	if took := m.now - began; took < 20*time.Second {
		t.Errorf("verify without the other machine: got %s, want two updates of the Node", took)
	}
	wantState("verify without the other machine", report.OK)
	began = m.now
	m.want("verify again", m.as("", "verify"), ended{0, "machine", ""})
	if took := m.now - began; took > time.Second {
		t.Errorf("verify again: got %s, want no wait", took)
	}
}

// The host of a node is renamed: nothing changes, and the status has both names.
func TestRenamedHost(t *testing.T) {
	t.Parallel()
	m := template(t)
	m.put("/etc/hostname", "n2\n")
	run, _ := m.boot()
	m.want("run", run, ended{0, "No changes", "The node and the host have different names"})
	m.want("status", m.as("", "status"), ended{0, "this host is called n2", ""})
	if s := m.says(); s.State != report.OK || len(s.Notes) != 1 || s.Notes[0].Code != "identity" {
		t.Errorf("status: got state %s and notes %v, want ok and one note with the code identity", s.State, s.Notes)
	}

	m.put("/etc/hostname", "n1\n")
	run, _ = m.boot()
	m.want("with its name again", run, ended{0, "No changes", ""})
	if s := m.says(); len(s.Notes) != 0 {
		t.Errorf("with its name again: got notes %v, want none", s.Notes)
	}
}

// A kubelet.conf whose key does not belong to its certificate is not an identity: the kubelet would bootstrap, and so
// does the plan.
func TestForeignKey(t *testing.T) {
	t.Parallel()
	m := template(t)
	_, key, err := m.server.IssueNode("n1")
	if err != nil {
		t.Fatal(err)
	}
	cert, _, err := m.server.IssueNode("n1")
	if err != nil {
		t.Fatal(err)
	}
	m.put(oldPEM, string(cert)+string(key))
	m.want("plan", m.as("", "plan", "-o", "json", "--root", m.root), ended{0, `"purpose":"bootstrap-kubeconfig"`, ""})
}

// One mark of the machine that has changed does not show a copy while another is the same, and a machine id that is
// empty or of this boot only does not count at all.
func TestSameMachine(t *testing.T) {
	t.Parallel()
	const uuid = "/sys/class/dmi/id/product_uuid"
	for _, c := range []struct {
		name, note string
		change     func(m *machine)
	}{
		{"an empty machine id", "", func(m *machine) { m.put("/etc/machine-id", "") }},
		{"an image's machine id", "", func(m *machine) { m.put("/etc/machine-id", "uninitialized\n") }},
		{"a transient machine id", "", func(m *machine) {
			m.put("/run/machine-id", "fedcba9876543210fedcba9876543210\n")
			if err := os.Remove(m.root + "/etc/machine-id"); err != nil {
				m.t.Fatal(err)
			}
			if err := os.Link(m.root+"/run/machine-id", m.root+"/etc/machine-id"); err != nil {
				m.t.Fatal(err)
			}
		}},
		{"another machine id", "machine id is not the one of generation 1", func(m *machine) {
			m.put("/etc/machine-id", "fedcba9876543210fedcba9876543210\n")
		}},
		{"another product uuid", "product uuid is not the one of generation 1", func(m *machine) {
			m.put(uuid, "4c4c4544-0042-3510-8054-b4c04f4d3332\n")
		}},
	} {
		for _, token := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, token %v", c.name, token), func(t *testing.T) {
				m := newMachine(t)
				m.put("/etc/hostname", "n1\n")
				m.put(uuid, "4c4c4544-0042-3510-8054-b4c04f4d3331\n")
				m.onStart = m.joinAs("n1")
				m.boot()
				if !token {
					if err := os.Remove(m.creds + "/bootstrap-token"); err != nil {
						t.Fatal(err)
					}
				}
				identity := m.read(kubeletConf) + m.read(oldPEM)
				c.change(m)
				m.onStart = m.joinAs("n2")
				m.reboot()
				plan := m.as("", "plan", "--root", m.root)
				if got := strings.Contains(plan.errors, "A mark of this machine has changed"); got != (c.note != "") {
					t.Errorf("plan says that a mark has changed: got %t, want %t:\n%s", got, c.note != "", plan.errors)
				}

				run, _ := m.boot()
				m.want("run", run, ended{0, "No changes", ""})
				if got := m.read(kubeletConf) + m.read(oldPEM); got != identity || m.gateSays() == "" {
					t.Errorf("identity kept: %v, gate %q; want it kept, and the gate open", got == identity, m.gateSays())
				}
				notes := m.says().Notes
				if c.note == "" && len(notes) > 0 || c.note != "" &&
					(len(notes) != 1 || !strings.Contains(notes[0].Summary, c.note)) {
					t.Errorf("notes: got %+v; want %q", notes, c.note)
				}

				m.reboot()
				run, _ = m.boot()
				m.want("the boot after", run, ended{0, "No changes", ""})
				if notes := m.says().Notes; len(notes) > 0 {
					t.Errorf("notes of the boot after: got %+v; want none", notes)
				}
			})
		}
	}
}

// Where the only mark that is known differs, the identity is neither used nor given up until a person decides.
func TestDoubtfulMachine(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.onStart = m.joinAs("n1")
	m.boot()
	identity := m.read(kubeletConf) + m.read(oldPEM)
	m.put("/etc/machine-id", "fedcba9876543210fedcba9876543210\n")
	m.reboot()
	run, _ := m.boot()
	m.want("run", run, ended{41, "", "prelet run --this-machine"})
	if m.gateSays() != "" || m.read(kubeletConf)+m.read(oldPEM) != identity {
		t.Errorf("gate %q; want it shut, and the identity as it was", m.gateSays())
	}
	m.want("status", m.as("", "status"), ended{1, "prelet run --this-machine", ""})

	m.want("run --this-machine", m.as("", "run", "--this-machine"), ended{0, "No changes", ""})
	m.reboot()
	run, _ = m.boot()
	m.want("the boot after", run, ended{0, "No changes", ""})
	if m.gateSays() == "" || m.read(kubeletConf)+m.read(oldPEM) != identity {
		t.Errorf("gate %q; want it open, and the identity as it was", m.gateSays())
	}

	// A copy of that disk is another machine all the same.
	m.put("/etc/machine-id", "0123456789abcdef0123456789abcd00\n")
	m.reboot()
	run, _ = m.boot()
	m.want("a copy", run, ended{41, "", "prelet run --this-machine"})
}
