package boot

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// install installs packages that `make packages` made, as an image builder does: no systemd runs.
func (m *machine) install(names ...string) {
	m.T.Helper()
	var paths []string
	for _, name := range names {
		found, _ := filepath.Glob("../../dist/" + name + "_*.deb")
		if len(found) != 1 {
			m.T.Fatalf("got %s is in dist/ %d times: make packages; want 1", name, len(found))
		}
		text, err := os.ReadFile(found[0])
		must(m.T, err)
		m.put("/root/"+name+".deb", string(text))
		paths = append(paths, "/root/"+name+".deb")
	}
	m.dpkg(paths...)
}

// dpkg installs packages on the disk of a machine that is off, with /proc, as tools for images do, and on a systemd that
// may be too old: test/packages checks what is refused.
func (m *machine) dpkg(paths ...string) {
	m.T.Helper()
	const install = `mount -t proc proc "$0/proc" && exec chroot "$0" dpkg --install --force-depends-version "$@"`
	m.command("unshare", append([]string{"--mount", "sh", "-ec", install, m.Root}, paths...)...)
}

// pci are the devices that the machine gets instead of the host's: an argument of systemd-nspawn.
func (m *machine) pci(devices map[string]map[string]string) string {
	m.T.Helper()
	for address, files := range devices {
		for name, text := range files {
			m.put("/srv/pci/"+address+"/"+name, text+"\n")
		}
	}
	return "--bind-ro=" + m.Root + "/srv/pci:/sys/bus/pci/devices"
}

// niantic is a port of an Intel 82599 that DPDK has taken from the kernel.
func niantic() map[string]string {
	return map[string]string{
		"vendor":           "0x8086",
		"device":           "0x10fb",
		"subsystem_vendor": "0x8086",
		"subsystem_device": "0x0003",
		"class":            "0x020000",
		"revision":         "0x01",
		"numa_node":        "0",
		"sriov_totalvfs":   "63",
		"sriov_numvfs":     "8",
		"modalias":         "pci:v00008086d000010FBsv00008086sd00000003bc02sc00i00",
	}
}

// TestOpenVSwitch boots a node of init-k8s-node.py's kind, with its site, from Debian's Open vSwitch and the packages
// of two detectors: one asks ovsdb-server over its socket, in the sandbox, as a user of the pool, with nothing but
// the group that the package's drop-in gave the socket to. The node gets the script's SR-IOV label and taint.
func TestOpenVSwitch(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "openvswitch")
	m.install("prelet-detector-ovs", "prelet-detector-intel-net")
	m.site = legacySite(m)
	m.put("/etc/prelet/site.hcl", m.site+"\ndetector \"intel-net\" {}\n")
	m.put(
		"/etc/kubernetes/init-config",
		fmt.Sprintf(
			`{"apiserver": %q, "k8s_version": "1.11", "nodeLabels": "node.netease.com/pool=online", "nodeTaints": "node.netease.com/phase=online:NoSchedule"}`,
			m.cluster.URL,
		),
	)
	m.cluster.SetConfigMap(
		"kube-system",
		"kubelet-config-1.11",
		map[string]string{"vm-kubelet-config": kubeletConfig, "default-kubelet": "KUBELET_EXTRA_ARGS=\"--v=2\"\n"},
	)
	m.openVSwitch("dpdk")
	m.Boot(landlock, m.pci(map[string]map[string]string{"0000:5e:00.0": niantic()}))
	s := m.verdict("good")
	if len(s.Degraded) > 0 {
		t.Errorf("degraded: got %+v; want no Degraded", s.Degraded)
	}
	const key, value = "network.netease.com/sriov-type", "intel-10G"
	starts := m.starts()
	if len(starts) == 0 || starts[len(starts)-1].Labels[key] != value {
		t.Errorf("the kubelet has not the label: got %+v; want some starts and starts.Labels %v", starts, value)
	}
	if written := m.read("/var/lib/kubelet/config.yaml") + m.read(
		"/etc/default/kubelet",
	); !strings.Contains(written, key) ||
		strings.Count(written, value) != 2 {
		t.Errorf("not one label and one taint: got %s; want text with %q and Count 2", written, key)
	}
	socket := strings.TrimSpace(m.Do("stat", "-c", "%a %U %G", "/run/openvswitch/db.sock"))
	if t.Logf("ovsdb-server's socket: %s", socket); socket != "770 root prelet-ovs" {
		t.Errorf("the socket is %s; want \"770 root prelet-ovs\"", socket)
	}
	found := m.detectors()
	if d := found["ovs"]; d.State != "ok" || d.Facts["dpdk"] != true || d.Facts["running"] != true {
		t.Errorf("ovs: got %+v; want State \"ok\", Facts[dpdk] true and Facts[running] true", d)
	}
	if d := found["intel-net"]; d.State != "ok" || len(d.Devices) != 1 || d.Devices[0].Address != "0000:5e:00.0" {
		t.Errorf("intel-net: got %+v; want State \"ok\", 1 Device and Devices[0].Address \"0000:5e:00.0\"", d)
	}
	if members := m.Do("getent", "group", "prelet-ovs"); !strings.HasSuffix(strings.TrimSpace(members), ":") {
		t.Errorf("the group has members for good: got %s; want suffix \":\"", members)
	}

	// Another database: no port of DPDK any more. Neither label nor taint is left.
	m.Do("ovs-vsctl", "--no-wait", "set", "interface", "p0", "type=system")
	m.Do("systemctl", "restart", "prelet-apply.service")
	m.verdict("good")
	if written := m.read("/var/lib/kubelet/config.yaml") + m.read(
		"/etc/default/kubelet",
	); strings.Contains(
		written,
		key,
	) {
		t.Errorf("without DPDK: got %s; want no %q in it", written, key)
	}

	// Who is not granted the group does not get in, and says what to do; the boot goes on without the label.
	m.Off()
	m.put("/etc/prelet/site.hcl", strings.Replace(m.site, `groups  = ["prelet-ovs"]`, `groups  = []`, 1))
	m.Boot(landlock, m.pci(nil))
	if s := m.status(); s.Exit != 0 || !s.Gate.Open {
		t.Errorf("without the group: got %+v; want Exit 0 and Gate.Open", s)
	}
	d := m.detectors()["ovs"]
	if d.State != "ok" || d.Facts["running"] != nil ||
		!slices.ContainsFunc(
			d.Warnings,
			func(w string) bool { return strings.Contains(w, `allow { groups = ["prelet-ovs"] }`) },
		) {
		t.Errorf("without the group: got %+v; want State \"ok\" and Facts[running] nil", d)
	}
}

// legacySite is the example's, for this cluster.
func legacySite(m *machine) string {
	m.T.Helper()
	text, err := os.ReadFile("../../examples/legacy-vm/site.hcl")
	must(m.T, err)
	before, rest, _ := strings.Cut(string(text), `"sha256:`)
	_, after, ok := strings.Cut(rest, `"`)
	if !ok || !strings.Contains(after, `stage "restart" "kubelet" {}`) {
		m.T.Fatal("examples/legacy-vm has changed")
	}
	return before + `"` + m.cluster.CAHash() + `"` + strings.Replace(
		after,
		`stage "restart" "kubelet" {}`,
		"stage \"restart\" \"kubelet\" {\n  verify {\n    settle = \"1s\"\n  }\n}",
		1,
	)
}

// openVSwitch is a node with a bridge whose port is of that type. ovs-vswitchd is not there: it wants a module of the
// kernel.
func (m *machine) openVSwitch(kind string) {
	m.T.Helper()
	m.chroot("systemctl", "mask", "ovs-vswitchd.service", "openvswitch-switch.service", "ovs-record-hostname.service")
	m.put("/etc/systemd/system/database.service", `[Unit]
Requires=ovsdb-server.service
After=ovsdb-server.service
Before=prelet.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/ovs-vsctl --no-wait --may-exist add-br br0 -- set bridge br0 datapath_type=netdev -- --may-exist add-port br0 p0 -- set interface p0 type=`+kind+` options:dpdk-devargs=0000:5e:00.0
[Install]
WantedBy=multi-user.target
`)
	m.chroot("systemctl", "enable", "database.service", "ovsdb-server.service")
}
