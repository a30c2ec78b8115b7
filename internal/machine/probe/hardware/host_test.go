package hardware

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/model/tape"
	cases "github.com/prelet/prelet/internal/testing/table"
)

// writeTree writes files below a new folder.
func writeTree(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for path, text := range files {
		write(t, filepath.Join(root, path), text)
	}

	return root
}

// writeFiles writes files below a new folder, each as PATH=TEXT.
func writeFiles(t *testing.T, list []string) (root string) {
	t.Helper()
	files := map[string]string{}
	for _, file := range list {
		path, text, _ := strings.Cut(file, "=")
		files[path] = text
	}

	return writeTree(t, files)
}

func TestReadHost(t *testing.T) {
	for name, c := range cases.YAML[map[string]struct {
		NoForward             bool
		Controllers, Programs []string
		NoNetwork             string
		Files                 []string // PATH=TEXT
	}](t, `
a network in the folder of containerd:
  {files: ["etc/containerd/config.toml={containerd}", 'opt/cni/10-calico.conflist={}', usr/bin/mount=, sbin/losetup=]}
no network in the folder of CRI-O:
  noNetwork: /opt/cni
  files: ["etc/crio/crio.conf={crio}", 'opt/cni/10-calico.conflist.bak={}', usr/bin/mount=, sbin/losetup=]
fine:
  files:
    - 'etc/cni/net.d/05-cilium.conf={}'
    - proc/sys/net/ipv4/ip_forward=1
    - usr/bin/mount=
    - sbin/losetup=
    - "{controllers}=cpuset cpu io memory hugetlb pids rdma misc\n"
without forwarding, memory and losetup, which is a folder:
  noForward: true
  controllers: [memory]
  programs: [losetup]
  noNetwork: '{usual}'
  files:
    - "proc/sys/net/ipv4/ip_forward=0\n"
    - usr/bin/mount=
    - usr/bin/losetup/file=
    - "{controllers}=cpuset cpu io pids\n"
other texts:
  controllers: [cpu, cpuset, memory, pids]
  noNetwork: '{usual}'
  files: ["proc/sys/net/ipv4/ip_forward=\x00\n0\n", bin/mount=, bin/losetup=, "{controllers}=memory2 cpu,cpuset\n"]
nothing can be read: {programs: [losetup, mount], noNetwork: '{usual}'}
`, "usual", usualNetworks, "controllers", "sys/fs/cgroup/cgroup.controllers",
		"containerd", "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".cni]\nconf_dir = \"/opt/cni\"\n",
		"crio", "[crio.network]\nnetwork_dir = \"/opt/cni\"\n") {
		t.Run(name, func(t *testing.T) {
			want := tape.HostAns{
				NoForward: c.NoForward, Controllers: c.Controllers, Programs: c.Programs, NoNetwork: c.NoNetwork,
			}
			if diff := cmp.Diff(want, ReadHost(t.Context(), writeFiles(t, c.Files))); diff != "" {
				t.Errorf("ReadHost: -want +got:\n%s", diff)
			}
		})
	}
}

const (
	tcpHeading = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	tcpRest    = " 00000000:00000000 00:00000000 00000000     0        0 "
)

// tcpLine is a line of /proc/net/tcp on a machine with the byte order of amd64 and arm64.
func tcpLine(local, state, inode string) string {
	return "   0: " + local + " 00000000:0000 " + state + tcpRest + inode + " 1 0000 100 0 0 10 0\n"
}

func TestReadListeners(t *testing.T) {
	var many strings.Builder
	for i := range 20 {
		fmt.Fprint(&many, tcpLine(fmt.Sprintf("%02X00007F:280A", i), "0A", "1"))
	}
	for _, c := range []struct {
		name, tcp, tcp6 string
		want            string
	}{
		{"nothing", tcpHeading, tcpHeading, ""},
		{"both families", tcpHeading + tcpLine("00000000:280A", "0A", "41") + tcpLine("0100007F:2808", "0A", "42"),
			tcpHeading + tcpLine("00000000000000000000000000000000:280A", "0A", "43") +
				tcpLine("00000000000000000000000001000000:280A", "0A", "44") +
				tcpLine("0000000000000000FFFF00000100007F:280A", "0A", "45"),
			"0.0.0.0:10250 127.0.0.1:10248 [::]:10250 [::1]:10250 [::ffff:127.0.0.1]:10250"},
		{"another port", tcpHeading + tcpLine("00000000:0016", "0A", "41"), "", ""},
		{"many sockets of one address", tcpHeading + strings.Repeat(tcpLine("00000000:280A", "0A", "41"), 50), "", "0.0.0.0:10250"},
		{"many addresses", tcpHeading + many.String(), "", "127.0.0.0:10250 127.0.0.1:10250 127.0.0.2:10250 " +
			"127.0.0.3:10250 127.0.0.4:10250 127.0.0.5:10250 127.0.0.6:10250 127.0.0.7:10250"},
		{"connections follow", tcpHeading + tcpLine("00000000:280A", "0A", "41") + tcpLine("0100007F:280A", "01", "42") +
			tcpLine("0200007F:280A", "0A", "43"), "", "0.0.0.0:10250"},
		{"garbage", tcpHeading + tcpLine("0000:280A", "0A", "41") + tcpLine("zz:280A", "0A", "42") + tcpLine("00000000:FFFF280A", "0A", "43") +
			tcpLine("00000000", "0A", "44") + tcpLine(strings.Repeat("0", 40)+":280A", "0A", "45") + "x y\n" +
			tcpLine("00000000:280A", "0A", "46"), strings.Repeat("0A ", 1<<18), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			proc := writeTree(t, map[string]string{"net/tcp": c.tcp, "net/tcp6": c.tcp6})
			var got []string
			for _, l := range ReadListeners(proc, []int64{10250, 10248}) {
				got = append(got, l.At.String())
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("ReadListeners: got %q, want %q", text, c.want)
			}
		})
	}
	if got := ReadListeners(t.TempDir(), []int64{10250}); got != nil {
		t.Errorf("ReadListeners without tables: got %v, want none", got)
	}
}

// TestIdentifyListeners names the processes whose open files may be read.
func TestIdentifyListeners(t *testing.T) {
	proc := writeTree(t, map[string]string{
		"17/comm": "ha\x1b[31mproxy\n", "17/fd/0": "", "18/comm": "other\n", "self/fd/0": "", "uptime": "", "19": "a file",
	})
	must(t, os.Symlink("socket:[41]", filepath.Join(proc, "17/fd/3")))
	any4, any6 := netip.MustParseAddrPort("0.0.0.0:10250"), netip.MustParseAddrPort("[::]:10250")
	want := []tape.ListenerAns{{At: any4, PID: 17, Process: "ha\x1b[31mproxy"}, {At: any6}}

	if diff := cmp.Diff(want, IdentifyListeners(t.Context(), proc, []Listener{{any4, "41"}, {any6, "42"}}),
		cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("IdentifyListeners: -want +got:\n%s", diff)
	}
}
