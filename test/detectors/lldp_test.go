package detectors

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// wire builds the detector "lldp", and configures networkd for both ends of a wire: one sends LLDP, one receives it.
func wire(m *machine) {
	m.T.Helper()
	build := exec.Command("go", "build", "-trimpath", "-tags", "grpcnotrace", "-o", m.Root+programs+"/lldp", "./cmd/lldp")
	build.Dir = "../../plugins"
	if out, err := build.CombinedOutput(); err != nil {
		m.T.Fatalf("go build: got %v, want no error:\n%s", err, out)
	}
	const network = "[Match]\nName=%s\n[Network]\nLLDP=yes\nEmitLLDP=%s\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n"
	for name, sends := range map[string]string{"here0": "no", "there0": "yes"} {
		m.Put("/etc/systemd/network/"+name+".network", fmt.Sprintf(network, name, sends), 0o644)
	}
}

// TestLLDP is the detector on a node with systemd-networkd 252, under the unit: real frames of a networkd at the other
// end of a wire. Without the site's grant there are no neighbours, and the reason.
func TestLLDP(t *testing.T) {
	m := boot(t, wire)
	for _, command := range []string{
		"prelet detectors lock " + programs + "/lldp",
		"ip link add here0 type veth peer name there0",
		"systemctl restart systemd-networkd.service",
	} {
		m.Do(strings.Fields(command)...)
	}

	const site = `detector "lldp" {
  timeout = "40s"
  config {
    interfaces   = ["here0"]
    wait_seconds = 30
  }
  ALLOW
}`
	s := m.detect("granted", strings.Replace(site, "ALLOW", `allow {
    sockets = ["/run/systemd/netif/io.systemd.Network"]
    read    = ["/run/systemd/netif/lldp"]
  }`, 1))
	d := s.facts.Facts.Detectors["lldp"]
	t.Logf("%s: %v %q", s.took, d.Facts, d.Warnings)
	list, _ := d.Facts["lldp_neighbors"].([]any)
	if s.exit != 0 || d.State != "ok" || len(list) != 1 || len(d.Warnings) > 0 {
		status, _ := m.try("networkctl", "lldp", "--no-pager")
		t.Fatalf("exit %d: got %+v; want one neighbour and no warning:\n%s\nnetworkctl:\n%s", s.exit, d, s.messages, status)
	}
	host, _ := m.try("cat", "/proc/sys/kernel/hostname")
	host = strings.TrimSpace(host)
	if n, _ := list[0].(map[string]any); n["interface"] != "here0" || n["port"] != "there0" || n["system"] != host {
		t.Errorf("got %v, want port there0 of %s at here0", n, host)
	}

	s = m.detect("ungranted", strings.NewReplacer("ALLOW", "", "30", "0").Replace(site))
	d = s.facts.Facts.Detectors["lldp"]
	list, _ = d.Facts["lldp_neighbors"].([]any)
	if text := strings.Join(d.Warnings, ""); s.exit != 0 || len(list) > 0 ||
		!strings.Contains(text, "grant it with allow { sockets =") {
		t.Errorf("ungranted: exit %d: got %v, %q; want no neighbours, and the grant:\n%s",
			s.exit, d.Facts, text, s.messages)
	}
	m.nothingLeft("lldp")
}
