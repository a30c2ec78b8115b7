package boot

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

const zonedSite = `
variable "zone" { type = string }
variable "key" {
  type      = string
  sensitive = true
}
`

// zoned is the site with a label from a variable and a file with a secret.
func (m *machine) zoned() string {
	site := strings.Replace(m.site, `= "a"`, `= "a", "example.com/zone" = var.zone`, 1)
	site = strings.Replace(site, `stage "write" "kubelet" {}`, `stage "write" "kubelet" {
  file "key" {
    path    = "/etc/agent/key"
    content = var.key
  }
}`, 1)

	return zonedSite + site
}

// dropIn gives both units that run the site one drop-in.
func (m *machine) dropIn(lines ...string) {
	m.T.Helper()
	for _, unit := range []string{"prelet", "prelet-apply"} {
		m.put("/etc/systemd/system/"+unit+".service.d/50-credentials.conf",
			"[Service]\n"+strings.Join(lines, "\n")+"\n")
	}
	m.Do("systemctl", "daemon-reload")
}

// planned is the part of the JSON of plan and run that both have.
type planned struct {
	Hash string `json:"plan_hash"`
}

// hashOf runs a command by hand and returns the hash of its plan.
func (m *machine) hashOf(command string) string {
	m.T.Helper()
	r := m.Try("prelet", command, "-o", "json")
	var p planned
	if err := json.Unmarshal([]byte(r.Out), &p); err != nil || r.Exit != 0 || p.Hash == "" {
		m.T.Fatalf("%s: exit %d, %v; want 0 and a plan_hash:\n%s%s", command, r.Exit, err, r.Out, r.Errors)
	}

	return p.Hash
}

// TestByHandAsAtBoot changes where the variables of a node come from, one source after the other. A plan by hand has the
// hash of the run that follows it, and no other command fails for lack of a variable.
func TestByHandAsAtBoot(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.put("/etc/prelet/site.hcl", m.zoned())
	const loadKey = "LoadCredential=prelet.var.key"
	m.put("/etc/credstore/prelet.var.key", "secret-of-the-agent\n")
	m.put("/etc/credstore/prelet.var.zone", "stored\n")
	for _, unit := range []string{"prelet", "prelet-apply"} {
		m.put("/etc/systemd/system/"+unit+".service.d/50-credentials.conf",
			"[Service]\n"+loadKey+"\nLoadCredential=prelet.var.zone\n")
	}
	m.Boot("--set-credential=prelet.var.received:received")
	m.verdict("good")

	sources := []struct {
		name, want string
		set        func()
	}{
		{"a store", "stored", func() {}},
		{"the store again, with another value", "changed", func() { m.put("/etc/credstore/prelet.var.zone", "changed\n") }},
		{"a path", "path", func() {
			m.put("/root/zone", "path")
			m.dropIn(loadKey, "LoadCredential=prelet.var.zone:/root/zone")
		}},
		{"a literal", "literal", func() {
			m.dropIn(loadKey, "SetCredential=prelet.var.zone:literal")
		}},
		{"what systemd received", "received", func() {
			m.dropIn(loadKey, "LoadCredential=prelet.var.zone:prelet.var.received")
		}},
		{"a store of this boot", "this-boot", func() {
			m.Do("rm", "/etc/credstore/prelet.var.zone")
			m.Do("mkdir", "-p", "-m", "700", "/run/credstore")
			m.Do("sh", "-c", "echo this-boot > /run/credstore/prelet.var.zone")
			m.dropIn(loadKey, "LoadCredential=prelet.var.zone")
		}},
		{"a store of the image", "image", func() {
			m.Do("rm", "/run/credstore/prelet.var.zone")
			m.put("/usr/lib/credstore/prelet.var.zone", "image\n")
		}},
		{"a variables file", "file", func() {
			m.put("/etc/prelet/zone.prelet.vars", "zone = \"file\"\n")
			m.dropIn(loadKey)
			m.Do("prelet", "run", "--accept-missing-variables")
		}},
	}
	for _, source := range sources {
		source.set()
		plan := m.hashOf("plan")
		if run := m.hashOf("run"); plan != run {
			t.Errorf("%s: plan by hand has the hash %s, the run %s; want one", source.name, plan, run)
		}
		if flags := m.read("/etc/default/kubelet"); !strings.Contains(flags, "example.com/zone="+source.want) {
			t.Errorf("%s: got %s, want the zone %s", source.name, flags, source.want)
		}
	}

	m.commandsByHand()

	byHand := m.hashOf("plan")
	m.Off()
	m.Boot()
	m.running()
	m.well(len(sources)) // the boot has changed nothing
	if boot := m.hashOf("plan"); boot != byHand {
		t.Errorf("after a boot the plan has the hash %s, before it %s; want one", boot, byHand)
	}
}

// commandsByHand runs the commands that evaluate the site, as root in a shell. None lacks a variable, and none shows the
// secret.
func (m *machine) commandsByHand() {
	m.T.Helper()
	for _, args := range []string{
		"plan", "explain label/example.com/zone", "record /root/r.json", "doctor", "report --html /root/r.html",
		"bundle /root/b.tar.gz", "eval var.zone",
	} {
		r := m.Try(append([]string{"prelet"}, strings.Fields(args)...)...)
		text := r.Out + r.Errors
		if r.Exit == 10 || strings.Contains(text, "variable-missing") || strings.Contains(text, "no value") {
			m.T.Errorf("%s: exit %d; want a variable with its value:\n%s", args, r.Exit, text)
		}
		if strings.Contains(text, "secret-of-the-agent") {
			m.T.Errorf("%s shows the secret:\n%s", args, text)
		}
	}
	m.Do("tar", "--extract", "--file=/root/b.tar.gz", "--directory=/root")
	plan := m.read("/root/prelet-bundle/plan.txt")
	if !strings.Contains(plan, "/etc/agent/key") || strings.Contains(plan, "variable-missing") {
		m.T.Errorf("plan.txt of the bundle is\n%s\nwant the file with the sensitive variable", plan)
	}
	for _, file := range []string{"/root/r.json", "/root/r.html", "/root/prelet-bundle/plan.txt"} {
		if strings.Contains(m.read(file), "secret-of-the-agent") {
			m.T.Errorf("%s contains the secret", file)
		}
	}
}

// TestVariableDecrypted: a credential that systemd decrypts for prelet's units. By hand its value at the boot is used, or
// that of the last good generation, named as such.
func TestVariableDecrypted(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	site := strings.Replace(m.site, `= "a"`, `= "a", "example.com/zone" = var.zone`, 1)
	m.put("/etc/prelet/site.hcl", "variable \"zone\" {\n  type    = string\n  default = \"unknown\"\n}\n"+site)
	m.Boot()
	m.verdict("good")
	m.put("/root/zone", "sealed-zone")
	m.Do("systemd-creds", "encrypt", "--with-key=host", "--name=prelet.var.zone", "/root/zone", "/root/zone.sealed")
	m.dropIn("LoadCredentialEncrypted=prelet.var.zone:/root/zone.sealed")

	plan := m.Try("prelet", "plan")
	if plan.Exit != 10 || !strings.Contains(unwrap(plan.Errors), "only systemd can decrypt it") {
		t.Errorf("a plan before any unit has it: exit %d; want 10 and the reason:\n%s%s", plan.Exit, plan.Out, plan.Errors)
	}

	m.Do("prelet", "run")
	m.verdict("good")
	plan = m.Try("prelet", "plan")
	const want = `The value of variable "zone" is from the last good generation`
	if plan.Exit != 0 || !strings.Contains(plan.Out, "No changes") || !strings.Contains(plan.Errors, want) {
		t.Errorf("a plan after the run: exit %d; want no changes and %q:\n%s%s", plan.Exit, want, plan.Out, plan.Errors)
	}

	m.Off()
	m.Boot()
	plan = m.Try("prelet", "plan")
	if plan.Exit != 0 || !strings.Contains(plan.Out, "No changes") || strings.Contains(plan.Errors, "last good") {
		t.Errorf("a plan while prelet.service has it decrypted: exit %d; want no changes and no warning:\n%s%s",
			plan.Exit, plan.Out, plan.Errors)
	}
}

// unwrap returns a message on one line.
func unwrap(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestVariableOfOneBoot: the provisioner gave a credential to the first boot only.
func TestVariableOfOneBoot(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	site := strings.Replace(m.site, `= "a"`, `= "a", "example.com/zone" = var.zone`, 1)
	m.put("/etc/prelet/site.hcl", "variable \"zone\" {\n  type    = string\n  default = \"unknown\"\n}\n"+site)
	for _, unit := range []string{"prelet", "prelet-apply"} {
		m.put("/etc/systemd/system/"+unit+".service.d/50-credentials.conf", "[Service]\nLoadCredential=prelet.var.zone\n")
	}
	m.put("/etc/credstore/prelet.var.zone", "az1\n")
	m.Boot()
	m.verdict("good")
	if err := os.Remove(m.Root + "/etc/credstore/prelet.var.zone"); err != nil {
		t.Fatal(err)
	}
	m.Off()
	m.Boot()

	s := m.status()
	isStale := len(s.Degraded) == 1 && s.Degraded[0].Code == "stale"
	if flags := m.read("/etc/default/kubelet"); !strings.Contains(flags, "example.com/zone=az1") || !isStale || s.Exit != 0 {
		t.Errorf("got %s and %+v; want the zone of the first boot, degraded as stale", flags, s)
	}
}
