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
	m.t.Helper()
	for _, unit := range []string{"prelet", "prelet-apply"} {
		m.put("/etc/systemd/system/"+unit+".service.d/50-credentials.conf",
			"[Service]\n"+strings.Join(lines, "\n")+"\n")
	}
	m.do("systemctl", "daemon-reload")
}

// planned is the part of the JSON of plan and run that both have.
type planned struct {
	Hash string `json:"plan_hash"`
}

// hashOf runs a command by hand and returns the hash of its plan.
func (m *machine) hashOf(command string) string {
	m.t.Helper()
	r := m.try("prelet", command, "-o", "json")
	var p planned
	if err := json.Unmarshal([]byte(r.out), &p); err != nil || r.exit != 0 || p.Hash == "" {
		m.t.Fatalf("%s: exit %d, %v; want 0 and a plan_hash:\n%s%s", command, r.exit, err, r.out, r.errors)
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
	m.boot("--set-credential=prelet.var.received:received")
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
			m.do("rm", "/etc/credstore/prelet.var.zone")
			m.do("mkdir", "-p", "-m", "700", "/run/credstore")
			m.do("sh", "-c", "echo this-boot > /run/credstore/prelet.var.zone")
			m.dropIn(loadKey, "LoadCredential=prelet.var.zone")
		}},
		{"a store of the image", "image", func() {
			m.do("rm", "/run/credstore/prelet.var.zone")
			m.put("/usr/lib/credstore/prelet.var.zone", "image\n")
		}},
		{"a variables file", "file", func() {
			m.put("/etc/prelet/zone.prelet.vars", "zone = \"file\"\n")
			m.dropIn(loadKey)
			m.do("prelet", "run", "--accept-missing-variables")
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
	m.off()
	m.boot()
	m.running()
	m.well(len(sources)) // the boot has changed nothing
	if boot := m.hashOf("plan"); boot != byHand {
		t.Errorf("after a boot the plan has the hash %s, before it %s; want one", boot, byHand)
	}
}

// commandsByHand runs the commands that evaluate the site, as root in a shell. None lacks a variable, and none shows the
// secret.
func (m *machine) commandsByHand() {
	m.t.Helper()
	for _, args := range []string{
		"plan", "explain label/example.com/zone", "record /root/r.json", "doctor", "report --html /root/r.html",
		"bundle /root/b.tar.gz", "eval var.zone",
	} {
		r := m.try(append([]string{"prelet"}, strings.Fields(args)...)...)
		text := r.out + r.errors
		if r.exit == 10 || strings.Contains(text, "variable-missing") || strings.Contains(text, "no value") {
			m.t.Errorf("%s: exit %d; want a variable with its value:\n%s", args, r.exit, text)
		}
		if strings.Contains(text, "secret-of-the-agent") {
			m.t.Errorf("%s shows the secret:\n%s", args, text)
		}
	}
	m.do("tar", "--extract", "--file=/root/b.tar.gz", "--directory=/root")
	plan := m.read("/root/prelet-bundle/plan.txt")
	if !strings.Contains(plan, "/etc/agent/key") || strings.Contains(plan, "variable-missing") {
		m.t.Errorf("plan.txt of the bundle is\n%s\nwant the file with the sensitive variable", plan)
	}
	for _, file := range []string{"/root/r.json", "/root/r.html", "/root/prelet-bundle/plan.txt"} {
		if strings.Contains(m.read(file), "secret-of-the-agent") {
			m.t.Errorf("%s contains the secret", file)
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
	m.boot()
	m.verdict("good")
	m.put("/root/zone", "sealed-zone")
	m.do("systemd-creds", "encrypt", "--with-key=host", "--name=prelet.var.zone", "/root/zone", "/root/zone.sealed")
	m.dropIn("LoadCredentialEncrypted=prelet.var.zone:/root/zone.sealed")

	plan := m.try("prelet", "plan")
	if plan.exit != 10 || !strings.Contains(unwrap(plan.errors), "only systemd can decrypt it") {
		t.Errorf("a plan before any unit has it: exit %d; want 10 and the reason:\n%s%s", plan.exit, plan.out, plan.errors)
	}

	m.do("prelet", "run")
	m.verdict("good")
	plan = m.try("prelet", "plan")
	const want = `The value of variable "zone" is from the last good generation`
	if plan.exit != 0 || !strings.Contains(plan.out, "No changes") || !strings.Contains(plan.errors, want) {
		t.Errorf("a plan after the run: exit %d; want no changes and %q:\n%s%s", plan.exit, want, plan.out, plan.errors)
	}

	m.off()
	m.boot()
	plan = m.try("prelet", "plan")
	if plan.exit != 0 || !strings.Contains(plan.out, "No changes") || strings.Contains(plan.errors, "last good") {
		t.Errorf("a plan while prelet.service has it decrypted: exit %d; want no changes and no warning:\n%s%s",
			plan.exit, plan.out, plan.errors)
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
	m.boot()
	m.verdict("good")
	if err := os.Remove(m.root + "/etc/credstore/prelet.var.zone"); err != nil {
		t.Fatal(err)
	}
	m.off()
	m.boot()

	s := m.status()
	isStale := len(s.Degraded) == 1 && s.Degraded[0].Code == "stale"
	if flags := m.read("/etc/default/kubelet"); !strings.Contains(flags, "example.com/zone=az1") || !isStale || s.Exit != 0 {
		t.Errorf("got %s and %+v; want the zone of the first boot, degraded as stale", flags, s)
	}
}
