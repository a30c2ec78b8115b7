package ovs_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/plugins/detectors/ovs"
	"github.com/prelet/prelet/plugins/sdk"
	"github.com/prelet/prelet/plugins/sdk/detectortest"
)

const schema = "/usr/share/openvswitch/vswitch.ovsschema"

// real starts Debian's ovsdb-server on a database of the test, below a root of the test: as anybody, without a daemon
// that outlives it, and without ovs-vswitchd, whose part ovs-vsctl and the test play.
func real(t *testing.T) (root sdk.Root, vsctl func(command string)) {
	t.Helper()
	for _, tool := range []string{"ovsdb-server", "ovsdb-tool", "ovs-vsctl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed (apt-get install openvswitch-switch)", tool)
		}
	}
	root = detectortest.Root(t, "/run/openvswitch/\n/etc/openvswitch/\n")
	db, socket := root.Path("/etc/openvswitch/conf.db"), root.Path(ovs.Socket)
	command := func(name string, args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), name, args...)
		c.Env = append(os.Environ(), "OVS_RUNDIR="+root.Path("/run/openvswitch"))
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	command("ovsdb-tool", "create", db, schema)
	server := exec.Command(
		"ovsdb-server",
		db,
		"--remote=punix:"+socket,
		"--no-chdir",
		"--unixctl="+root.Path("/run/openvswitch/ctl"),
		"-vconsole:warn",
		"-vsyslog:off",
		"-vfile:off",
	)
	server.Env = append(os.Environ(), "OVS_RUNDIR="+root.Path("/run/openvswitch"))
	server.Stderr = os.Stderr
	must(t, server.Start())
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	// Polled: the server of another project gives no other sign that it listens.
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			break
		} else if time.Since(began) > time.Minute {
			t.Fatal("ovsdb-server does not listen")
		}
	}
	return root, func(words string) {
		t.Helper()
		command("sh", "-c", "ovs-vsctl --db=unix:"+socket+" --no-wait --timeout=10 "+words)
	}
}

// TestReal asks a real server and compares with the recorded one, for the same database.
func TestReal(t *testing.T) {
	root, vsctl := real(t)
	vsctl("init")
	if s := factJSON(detectortest.Detect(t, detector(), root, nil), "dpdk"); s != "false" {
		t.Errorf("database without bridges: got dpdk %s, want false", s)
	}
	database(vsctl)
	got := detectortest.Detect(t, detector(), root, nil)
	b, err := json.MarshalIndent(got, "", "  ")
	must(t, err)
	golden := filepath.Join("testdata", "dpdk.json")
	if os.Getenv(detectortest.Update) != "" {
		must(t, os.WriteFile(golden, append(b, '\n'), 0o644))
		record(t, root.Path(ovs.Socket))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if string(b)+"\n" != string(want) {
		t.Errorf("got\n%s\nwant %s", b, golden)
	}
}

// database is that of a node with Open vSwitch and DPDK, including the columns of ovs-vswitchd.
func database(vsctl func(command string)) {
	vsctl("add-br br-phy -- set bridge br-phy datapath_type=netdev")
	vsctl("add-bond br-phy bond0 p0 p1" +
		" -- set interface p0 type=dpdk options:dpdk-devargs=0000:5e:00.0 admin_state=up link_state=up" +
		" link_speed=25000000000" +
		" -- set interface p1 type=dpdk options:dpdk-devargs=0000:5e:00.1 admin_state=up link_state=down")
	vsctl("add-port br-phy vhu0 -- set interface vhu0 type=dpdkvhostuserclient options:vhost-server-path=/run/vm0")
	vsctl("add-port br-phy rep0 -- set interface rep0 type=dpdk options:dpdk-devargs=0000:5e:00.0,representor=[0]")
	vsctl("add-br br-int")
	vsctl(`add-port br-int eth9 -- set interface eth9 'error="could not open network device eth9 (No such device)"'`)
	vsctl(`set Open_vSwitch . dpdk_initialized=true ovs_version=3.1.0 'dpdk_version="DPDK 22.11.1"'`)
}
