package recipes

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

const cloudInit = "../../packaging/image/recipes/cloud-init/"

// newCloudMachine has the recipe's drop-in, and user data where a NoCloud disk or a metadata service would have it.
func newCloudMachine(t *testing.T, name, userData string) *machine {
	t.Helper()
	m := newMachine(t, name)
	m.Put("/etc/systemd/system/prelet.service.d/10-cloud-init.conf", readFile(t, cloudInit+"10-cloud-init.conf"), 0o644)
	m.Put("/var/lib/cloud/seed/nocloud/meta-data", "instance-id: i-"+name+"\n", 0o644)
	m.Put("/var/lib/cloud/seed/nocloud/user-data", userData, 0o644)
	t.Cleanup(func() {
		if t.Failed() && m.Leader != 0 {
			out, _ := m.try("sh", "-c", "grep -iE -A3 'curl|error|warn|fail' /var/log/cloud-init*.log | head -n 50")
			t.Logf("cloud-init:\n%s", out)
		}
	})

	return m
}

// TestCloudInit joins with a token that the machine downloads, and looks for copies of it. A second boot does not need
// the server, which gives the token only once.
func TestCloudInit(t *testing.T) {
	requireWanted(t)
	server := newEnrollServer(t)
	m := newCloudMachine(t, "cloud-init", server.fill(readFile(t, cloudInit+"user-data")))
	m.Put("/etc/prelet/enroll-ca.crt", server.ca, 0o644)

	m.Boot()
	m.requireJoined("az1-r07")
	requireOrder(t, m, "cloud-init.service")
	requireToken(t, m)
	if got := m.Do("cloud-init", "status"); !strings.Contains(got, "done") {
		t.Errorf("cloud-init status: got %q, want done", got)
	}

	m.Off()
	m.Boot()
	if s := m.status(); s.State != "ok" || s.Generation != 1 || !s.Gate.Open {
		t.Errorf("status after a second boot: got %+v, want ok with generation 1 and an open gate", s)
	}
	if got := server.requests(); got != 1 {
		t.Errorf("requests of the token in two boots: got %d, want 1", got)
	}
}

// requireOrder fails if prelet started before a unit had ended, or if nothing but chance made it wait.
func requireOrder(t *testing.T, m *machine, unit string) {
	t.Helper()
	times := map[string]int{}
	for name, property := range map[string]string{
		unit: "ExecMainExitTimestampMonotonic", "prelet.service": "ExecMainStartTimestampMonotonic",
	} {
		value := strings.TrimSpace(m.Do("systemctl", "show", name, "--value", "-p", property))
		times[name], _ = strconv.Atoi(value)
	}
	after := strings.Fields(m.Do("systemctl", "show", "prelet.service", "--value", "-p", "After"))
	if !slices.Contains(after, unit) {
		t.Errorf("After= of prelet.service: got %q, want %s in it", after, unit)
	}
	if times[unit] == 0 || times[unit] >= times["prelet.service"] {
		t.Errorf("start of prelet: got %d µs, want it after the end of %s at %d µs",
			times["prelet.service"], unit, times[unit])
	}
}

// requireToken fails if the token is readable by others than root, or in a file that the recipe did not name.
func requireToken(t *testing.T, m *machine) {
	t.Helper()
	const file = "/etc/credstore/bootstrap-token"
	if got := strings.TrimSpace(m.Do("stat", "-c", "%a %U", file)); got != "400 root" {
		t.Errorf("%s: got %q, want 400 root", file, got)
	}
	places := []string{}
	for _, path := range m.search(shared.token) {
		if !strings.HasPrefix(path, "/var/lib/prelet/") { // 0700: generations, also those with the first kubeconfig
			places = append(places, path)
		}
	}
	if !slices.Equal(places, []string{file}) {
		t.Errorf("files with the token: got %q, want only %s", places, file)
	}
}

// TestCloudInitCopies shows why the recipe downloads the token: where it stays if user data contains it. The recipe's
// page has this list.
func TestCloudInitCopies(t *testing.T) {
	requireWanted(t)
	m := newCloudMachine(t, "copies", `#cloud-config
write_files:
  - {path: /etc/credstore/bootstrap-token, permissions: "0400", content: "`+shared.token+`\n"}
`)
	m.Put("/etc/prelet/machine.prelet.vars", shared.variables(), 0o644)
	m.Boot()
	m.requireJoined("unknown")

	var got []string
	for _, path := range m.search(shared.token) {
		if name, ok := strings.CutPrefix(path, "/var/lib/cloud/instances/i-copies/"); ok {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	if want := []string{"cloud-config.txt", "obj.pkl", "user-data.txt", "user-data.txt.i"}; !slices.Equal(got, want) {
		t.Errorf("copies in /var/lib/cloud/instances: got %q, want %q", got, want)
	}
}

// TestCloudInitMalformed: cloud-init ignores user data that it cannot parse. prelet then has no value of a variable,
// and says which; the gate stays shut.
func TestCloudInitMalformed(t *testing.T) {
	requireWanted(t)
	m := newCloudMachine(t, "malformed", "#cloud-config\nwrite_files:\n  - path: [/etc/prelet\n")
	m.Boot()
	s := m.status()
	if s.State != "failed" || s.Exit != 10 || s.Gate.Open || !strings.Contains(s.Summary, "api_server") {
		t.Errorf("status: got %+v, want failed with 10, a shut gate and a summary with api_server", s)
	}
	started := m.Do("systemctl", "show", "kubelet", "--value", "-p", "ExecMainStartTimestampMonotonic")
	if strings.TrimSpace(started) != "0" {
		t.Errorf("start of the kubelet: got %s, want none (0)", started)
	}

	// A person repairs it on the machine, without a reboot.
	m.Put("/etc/prelet/machine.prelet.vars", shared.variables(), 0o644)
	m.Put("/etc/credstore/bootstrap-token", shared.token, 0o400)
	m.Do("systemctl", "restart", "prelet.service")
	m.requireJoined("unknown")
}
