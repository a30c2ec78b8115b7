package failure

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write testdata/want.txt")

func describeCause(lines []string) string {
	c, ok := Recognise(lines)
	if !ok {
		return "nothing is recognised; the last error: " + LastError(lines)
	}
	end := "it waits"
	if c.Final {
		end = "it ends"
	}
	return fmt.Sprintf("%s, %s: %s\n    about %s", c.ID, end, c.Sentence, strings.Join(c.Items, " "))
}

// TestRealLogs reads what a real kubelet v1.36.3 printed for each bad input (its last lines; taken with test/kube).
func TestRealLogs(t *testing.T) {
	files, err := filepath.Glob("testdata/*.log")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d logs, %v", len(files), err)
	}
	var b strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(
			&b,
			"%s\n  %s\n",
			strings.TrimSuffix(filepath.Base(f), ".log"),
			describeCause(strings.Split(string(text), "\n")),
		)
	}
	if *update {
		if err := os.WriteFile("testdata/want.txt", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/want.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Words of other versions and other runtimes, from their sources and from reports of them.
func TestOtherWords(t *testing.T) {
	for _, c := range []struct{ line, id, item string }{
		{`F0101 00:00:00.000000    1 server.go:274] failed to run Kubelet: misconfiguration: kubelet cgroup driver: "systemd" is different from docker cgroup driver: "cgroupfs"`, "driver-docker", "config/cgroupDriver"},
		{`Error: failed to parse kubelet flag: unknown flag: --allow-privileged`, "flag-unknown", "flag/allow-privileged"},
		{`F0801 10:00:00.000000    1 server.go:156] unknown flag: --cni-bin-dir`, "flag-unknown", "flag/cni-bin-dir"},
		{`{"ts":1700000000000.1,"caller":"app/server.go:290","msg":"command failed","err":"failed to run Kubelet: running with swap on is not supported, please disable swap or set --fail-swap-on flag to false. /proc/swaps contained: [x]"}`, "swap", "config/failSwapOn"},
		{`E1122 23:14:02.100000 36 kubelet.go:1850] "Failed to start ContainerManager" err="start memory manager error: [memorymanager] the expected machine state is different from the real one"`, "memory-state", "config/memoryManagerPolicy"},
		{`E1122 23:14:02.100000 36 kubelet.go:1850] "Failed to start ContainerManager" err="start memory manager error: could not restore state from checkpoint: [memorymanager] configured policy \"None\" differs from state checkpoint policy \"Static\", please drain this node and delete the memory manager checkpoint file \"/var/lib/kubelet/memory_manager_state\" before restarting Kubelet"`, "memory-state", "config/memoryManagerPolicy"},
		{`E1122 23:14:02.100000 36 kubelet.go:1850] "Failed to start ContainerManager" err="start memory manager error: could not restore state from checkpoint: checkpoint is corrupted, please drain this node and delete the memory manager checkpoint file \"/var/lib/kubelet/memory_manager_state\" before restarting Kubelet"`, "state-broken", "file//var/lib/kubelet/memory_manager_state"},
		{`E1122 23:14:02.100000 36 kubelet.go:1850] "Failed to start ContainerManager" err="start cpu manager error: could not restore state from checkpoint: invalid character 'x' looking for beginning of value, please drain this node and delete the CPU manager checkpoint file \"/var/lib/kubelet/cpu_manager_state\" before restarting Kubelet"`, "state-broken", "file//var/lib/kubelet/cpu_manager_state"},
		{`E1122 23:14:02.100000 36 run.go:72] "command failed" err="failed to run Kubelet: [memorymanager] you should specify the system reserved memory"`, "memory-none", "config/memoryManagerPolicy"},
		{`E1122 23:14:02.100000 36 run.go:72] "command failed" err="failed to run Kubelet: the reserved memory configuration references a NUMA node 7 that does not exist on this machine"`, "memory-node", "config/reservedMemory"},
		{`E0101 00:00:00.000000 1 cpu_manager.go:1] "x" err="[cpumanager] unable to determine reserved CPU resources for static policy"`, "cpus-none", "config/cpuManagerPolicy"},
		{`E0101 00:00:00.000000 1 run.go:72] "command failed" err="failed to validate kubelet configuration, error: duplicated taints with the same key and effect: {a b NoSchedule <nil>}, path: x"`, "taint-twice", "taint/a"},
		{`E0101 00:00:00.000000 1 kubelet_node_status.go:96] "Unable to register node with API server" err="nodes \"n2\" is forbidden: node \"n1\" is not allowed to modify node \"n2\"" node="n2"`, "other-node", "flag/hostname-override"},
		{`E0101 00:00:00.000000 1 kubelet_node_status.go:96] "Unable to register node with API server" err="nodes \"n1\" is forbidden: node \"n1\" is not allowed to set the following labels: a.k8s.io/x, b.k8s.io/y" node="n1"`, "register-labels", "label/a.k8s.io/x"},
		{`E0101 00:00:00.000000 1 kubelet_node_status.go:96] "Unable to register node with API server" err="Post \"https://10.0.0.1:6443/api/v1/nodes\": dial tcp 10.0.0.1:6443: i/o timeout" node="n1"`, "register", ""},
		{`E0101 00:00:00.000000 1 kubelet_node_status.go:114] "Unable to register node with API server, error getting existing node" err="nodes \"n1\" not found" node="n1"`, "register-forbidden", ""},
		{`E1120 16:09:13.934937 43 kubelet_node_status.go:108] "Unable to register node with API server" err="Node \"not_a_name\" is invalid: metadata.name: Invalid value: \"not_a_name\": a lowercase RFC 1123 subdomain must consist of" node="not_a_name"`, "register-name", "flag/hostname-override"},
		{`E1120 15:31:00.282211 80 kubelet.go:1821] "Failed to start ContainerManager" err="Failed to enforce System Reserved Cgroup Limits on \"/nosuch\": [\"nosuch\"] cgroup is not configured properly"`, "cgroup-amount", "config/enforceNodeAllocatable"},
		{`E1120 15:31:00.282211 80 kubelet.go:1821] "Failed to start ContainerManager" err="Failed to enforce Kube Reserved Compressible Cgroup Limits on \"/no/such\": cgroup [\"no\" \"such\"] has some missing paths: /sys/fs/cgroup/pids/no/such"`, "cgroup-missing", "config/enforceNodeAllocatable"},
		{`E1120 15:30:58.961308 39 run.go:72] "command failed" err="failed to run Kubelet: invalid configuration: cgroup [\"nosuch\"] has some missing paths: /sys/fs/cgroup/cpu/nosuch"`, "cgroup-root", "config/cgroupRoot"},
		{`E1120 16:35:13.000000 1 kubelet.go:1821] "Failed to start ContainerManager" err="[invalid kernel flag: vm/overcommit_memory, expected value: 1, actual value: 0, invalid kernel flag: kernel/panic, expected value: 10, actual value: 1]"`, "kernel", "config/protectKernelDefaults"},
		{`E1120 16:35:14.243391 93 run.go:72] "command failed" err="failed to run Kubelet: failed to create kubelet: cloud provider \"aws\" was specified, but built-in cloud providers are disabled. Please set --cloud-provider=external and migrate to an external cloud provider"`, "cloud-provider", "flag/cloud-provider"},
		{`E1120 16:35:16.000000 93 run.go:72] "command failed" err="failed to run Kubelet: bad --node-ip \"10.0.0.5,10.0.0.6\": must contain either a single IP or a dual-stack pair of IPs"`, "node-ips", "flag/node-ip"},
		{`E1120 16:35:14.860738 132 kuberuntime_manager.go:315] "Failed to register CRI auth plugins" err="plugin binary directory /nosuch did not exist"`, "credential-plugins", "flag/image-credential-provider-config"},
		{`E1120 16:35:14.000000 93 run.go:72] "command failed" err="failed to run Kubelet: cannot exit on lock file contention: no lock file specified"`, "lock", "flag/exit-on-lock-contention"},
		{`E1120 16:35:14.000000 93 run.go:72] "command failed" err="failed to run Kubelet: protocol \"http\" not supported"`, "endpoint-protocol", "config/containerRuntimeEndpoint"},
		{`E1120 16:35:14.000000 93 run.go:72] "command failed" err="failed to run Kubelet: validate service connection: validate CRI v1 runtime API for endpoint \"containerd.sock\": rpc error: code = Unavailable desc = dns resolver: missing address"`, "endpoint-path", "config/containerRuntimeEndpoint"},
		{`E1120 16:35:14.000000 93 server.go:209] "Failed to listen and serve" err="listen tcp 203.0.113.9:10250: bind: cannot assign requested address"`, "address", "config/address"},
		{`E1120 16:35:14.000000 93 kubelet.go:1821] "Failed to start ContainerManager" err="invalid Node Allocatable configuration. Resource \"ephemeral-storage\" has a reservation of {{0 0} {0x56932bbccf0}  BinarySI} but capacity of {{12638257152 0} {<nil>}  BinarySI}. Expected capacity >= reservation."`, "capacity", "config/kubeReserved"},
		{`E1120 16:35:14.000000 93 run.go:72] "command failed" err="failed to run Kubelet: failed to create kubelet: sysctl \"net.*.*\" must have at most 253 characters and match regex x"`, "sysctl", "config/allowedUnsafeSysctls"},
		{`E1120 16:35:14.000000 93 run.go:72] "command failed" err="failed to run Kubelet: error loading CA bundle for \"client-ca-bundle::/etc/hostname\": data does not contain any valid RSA or ECDSA certificates"`, "client-ca", "file//etc/hostname"},
		{`E1120 18:57:40.000000 93 run.go:72] "command failed" err="failed to run Kubelet: error loading CA bundle for \"client-ca-bundle::/etc/ca\": x509: malformed certificate"`, "client-ca", "file//etc/ca"},
		{`E1120 18:57:40.000000 93 run.go:72] "command failed" err="failed to run Kubelet: missing content for CA bundle \"client-ca-bundle::/etc/ca\""`, "client-ca-empty", "file//etc/ca"},
		{`E1120 18:57:40.000000 93 run.go:72] "command failed" err="failed to run Kubelet: failed to create kubelet: failed to initialize file based certificate manager: unable to set up dynamic certificate manager for kubelet server cert files: missing content for serving cert \"kubelet-server-cert-files::/etc/crt::/etc/key\""`, "serving-certificate", "config/tlsCertFile"},
		{`E1120 18:57:46.523599 477 run.go:72] "command failed" err="failed to run Kubelet: failed to create kubelet: failed to initialize certificate manager: failed to initialize server certificate manager: tls: failed to find any PEM data in certificate input"`, "serving-certificate", "config/tlsCertFile"},
		{`E1120 16:35:14.000000 93 run.go:72] "command failed" err="failed to run Kubelet: failed to create kubelet: failed to initialize file based certificate manager: unable to set up dynamic certificate manager for kubelet server cert files: tls: failed to find any PEM data in certificate input"`, "serving-certificate", "config/tlsCertFile"},
		{"panic: failed to merge global and in-flight KubeletConfiguration while setting defaults, error: " +
			"ClusterTrustBundleProjection is enabled, but depends on features that are disabled: " +
			"[ClusterTrustBundle]", "gate-needs", "config/featureGates.ClusterTrustBundleProjection"},
		{`E1120 15:31:33.813338 476 run.go:72] "command failed" err="failed to run Kubelet: failed to create kubelet: create user namespace manager: kubelet user assigned IDs are not enough to support 250001 pods"`, "pods", "config/maxPods"},
		{`E1120 15:31:13.544835 205 run.go:72] "command failed" err="failed to construct kubelet dependencies: Cipher suite NOSUCH not supported or doesn't exist"`, "tls-ciphers", "config/tlsCipherSuites"},
		{`E1120 15:31:15.287821 237 server.go:209] "Failed to listen and serve" err="http2: TLSConfig.CipherSuites is missing an HTTP/2-required AES_128_GCM_SHA256 cipher (need at least one of TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256)"`, "tls-ciphers", "config/tlsCipherSuites"},
		{`E0101 00:00:00.000000 1 pod_workers.go:1] "Error syncing pod" err="failed to create containerd task: expected cgroupsPath to be of format \"slice:prefix:name\" for systemd cgroups, got \"/kubepods/besteffort/podx\" instead: unknown"`, "driver-runc", "config/cgroupDriver"},
		{`E0101 00:00:00.000000 1 run.go:74] "command failed" err="failed to run Kubelet: validate service connection: CRI v1 runtime API is not implemented for endpoint \"unix:///run/containerd/containerd.sock\": rpc error: code = Unimplemented desc = unknown service runtime.v1.RuntimeService"`, "runtime-api", "flag/container-runtime-endpoint"},
		{`E0101 00:00:00.000000 1 certificate_manager.go:1] cannot create certificate signing request: certificatesigningrequests.certificates.k8s.io is forbidden: User "system:bootstrap:abcdef" cannot create resource`, "csr-forbidden", "cluster/token"},
	} {
		got, ok := Recognise(
			[]string{"I0101 00:00:00.000000 1 server.go:1] started", c.line, "I0101 00:00:01.000000 1 x.go:1] later"},
		)
		if !ok || got.ID != c.id || c.item != "" && (len(got.Items) == 0 || got.Items[0] != c.item) {
			t.Errorf("%s\n  %v %+v, want %s about %s", c.line, ok, got, c.id, c.item)
		}
	}
}

// The kubelet is healthy: only a failure of all its pods is a cause, and other lines of the log are not.
func TestRecogniseInPods(t *testing.T) {
	const head = `E1120 16:35:14.243391 93 log.go:32] "RunPodSandbox from runtime service failed" err="rpc error: code = Unknown desc = `
	for _, c := range []struct{ line, id, item string }{
		{head + `failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: expected cgroupsPath to be of format \"slice:prefix:name\" for systemd cgroups, got \"/kubepods/besteffort/pod1/2\" instead: unknown"`, "driver-runc", "config/cgroupDriver"},
		{head + `x: expected cgroupsPath to be of format \\\"slice:prefix:name\\\" for systemd cgroups, got \\\"/k8s.io/8dc5224c\\\" instead: unknown"`, "driver-unnamed", "config/cgroupsPerQOS"},
		{head + `cri-o configured with systemd cgroup manager, but did not receive slice as parent: /kubepods/besteffort/pod1"`, "driver-crio-systemd", "config/cgroupDriver"},
		{head + `cri-o configured with cgroupfs cgroup manager, but received systemd slice as parent: /kubepods.slice"`, "driver-crio-cgroupfs", "config/cgroupDriver"},
		{head + `failed to pull image \"localhost/pause:1\": not found"`, "", ""},
		{`E1120 16:35:14.000000 93 x.go:1] "x" err="running with swap on is not supported"`, "", ""},
	} {
		got, ok := RecogniseInPods(
			[]string{"I0101 00:00:00.000000 1 server.go:1] started", c.line, `E0101 00:00:01.000000 1 x.go:1] "other"`},
		)
		if ok != (c.id != "") || got.ID != c.id || ok && (got.Items[0] != c.item || got.Final) {
			t.Errorf("%s\n  %v %+v, want %s about %s", c.line, ok, got, c.id, c.item)
		}
	}
	// If a kubelet cannot join, that is reported first.
	lines := []string{
		head + `expected cgroupsPath to be of format \"slice:prefix:name\" for systemd cgroups, got \"/kubepods/x\" instead"`,
		`E0101 00:00:00.000000 1 x.go:1] "x" err="cannot create certificate signing request: Unauthorized"`,
	}
	if c, ok := Recognise(lines); !ok || c.ID != "token" {
		t.Errorf("%+v", c)
	}
}

// What ends a kubelet counts before what only keeps it waiting, wherever it is.
func TestOrder(t *testing.T) {
	wait := `E0101 00:00:00.000000 1 x.go:1] "x" err="cannot create certificate signing request: Unauthorized"`
	end := `E0101 00:00:00.000000 1 run.go:1] "command failed" err="failed to parse kubelet flag: unknown flag: --a"`
	for _, lines := range [][]string{{wait, end}, {end, wait}} {
		if c, ok := Recognise(lines); !ok || c.ID != "flag-unknown" {
			t.Errorf("%+v", c)
		}
	}
}

func TestLastLine(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"no log":        {nil, ""},
		"empty lines":   {[]string{"", " "}, ""},
		"the last one":  {[]string{"reading", "line\t3: bad ", ""}, "line 3: bad"},
		"a secret":      {[]string{"token abcdef.0123456789abcdef"}, "token (secret)"},
		"a broken text": {[]string{"bad \xff"}, "bad ?"},
	} {
		if got := LastLine(c.lines); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestLastError(t *testing.T) {
	long := strings.Repeat("é", 500)
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{nil, ""},
		{[]string{"I0101 00:00:00.000000 1 x.go:1] fine"}, ""},
		{[]string{`E0101 00:00:00.000000 1 x.go:1] "Something new" err="of tomorrow \"quoted\""`, `E0101 00:00:00.000000 1 kubelet.go:1] "Skipping pod synchronization" err="x"`}, `"Something new" err="of tomorrow "quoted""`},
		{[]string{`E0101 00:00:00.000000 1 run.go:1] "command failed" err="x y"`}, "x y"},
		{[]string{`E0101 00:00:00.000000 1 x.go:1] "x" err="token abcdef.0123456789abcdef, Authorization: Bearer eyJhbGciOi.abc.def"`}, `"x" err="token (secret), Authorization: (secret)`},
		{[]string{"panic: runtime error: index out of range", "", "goroutine 1 [running]:"}, "panic: runtime error: index out of range"},
		{[]string{"E0101 00:00:00.000000 1 x.go:1] " + long}, strings.Repeat("é", 198) + "…"},
	} {
		if got := LastError(c.lines); got != c.want {
			t.Errorf("%q: %q, want %q", c.lines, got, c.want)
		}
	}
}

// Each row has an id of its own, a sentence that goes on after "the kubelet: ", and groups that its expression has.
func TestRows(t *testing.T) {
	paragraphs := 0
	for _, text := range strings.Split(table, "\n\n") {
		if lines := strings.Split(strings.TrimSpace(text), "\n"); !strings.HasPrefix(lines[len(lines)-1], "#") {
			paragraphs++
		}
	}
	if n := len(parseRows()); n != paragraphs || n < 50 {
		t.Errorf("%d rows of %d", n, paragraphs)
	}
	seen := map[string]bool{}
	for _, r := range parseRows() {
		re, err := regexp.Compile(r.pattern)
		if err != nil {
			t.Errorf("%s: %v", r.id, err)
			continue
		}
		if seen[r.id] {
			t.Errorf("%s is there twice", r.id)
		}
		seen[r.id] = true
		if strings.HasSuffix(r.sentence, ".") || r.sentence == "" {
			t.Errorf("%s: %q", r.id, r.sentence)
		}
		for _, text := range append([]string{r.sentence}, r.items...) {
			for _, g := range regexp.MustCompile(`\$(\d)`).FindAllStringSubmatch(text, -1) {
				if int(g[1][0]-'0') > re.NumSubexp() {
					t.Errorf("%s: %q has no group %s", r.id, r.pattern, g[1])
				}
			}
		}
	}
}

func FuzzRecognise(f *testing.F) {
	f.Add("E0101 00:00:00.000000 1 x.go:1] \"x\" err=<\n\tunknown flag: --a\n >\npanic: x")
	f.Add("\xff\n err=<\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		c, ok := Recognise(lines)
		if ok &&
			(c.ID == "" || len(c.Words) > maxWords || len(c.Sentence) > maxWords || !utf8.ValidString(c.Sentence+c.Words)) {
			t.Errorf("%+v", c)
		}
		if l := LastError(lines); len(l) > maxWords || !utf8.ValidString(l) {
			t.Errorf("%q", l)
		}
	})
}
