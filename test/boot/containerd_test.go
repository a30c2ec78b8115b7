package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	containerdVariable = "PRELET_CONTAINERD" // the folder that containerd/build.sh has filled

	runtimeDropIn = "/etc/containerd/conf.d/90-site.toml"
	runtimeSocket = "/run/containerd/containerd.sock"
)

// imageConfig is the configuration of the image, which the drop-in of the site changes. A container may not lower its
// score for the OOM killer.
const imageConfig = `version = 3
imports = ["/etc/containerd/conf.d/*.toml"]

[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = true
`

// kernelUnit prepares what a real kubelet needs of a machine that a container does not have.
const kernelUnit = `[Unit]
Before=containerd.service kubelet.service prelet.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'mkdir -p /run/kernel; [ -e /dev/kmsg ] || ln -s /dev/null /dev/kmsg; \
for v in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do \
f=/run/kernel/$$(echo $${v%%=*} | tr / .); echo $${v#*=} >$$f; mount --bind $$f /proc/sys/$${v%%=*}; done'
[Install]
WantedBy=multi-user.target
`

// exampleSite returns the site of examples/containerd for this cluster: another sandbox image, mirror and registry, and
// cgroupfs, which is all that a kubelet without cgroupsPerQOS can use.
func exampleSite(t *testing.T, server, pin, pause, mirror string) string {
	t.Helper()
	example, err := os.ReadFile("../../examples/containerd/site.hcl")
	must(t, err)

	site := string(example)
	for _, change := range [][2]string{
		{`"https://10.0.0.11:6443", "https://10.0.0.12:6443"`, strconv.Quote(server)},
		{"sha256:c4fb9ec8e0051b9a7bec575444da6356eb9bad26f409264e7719b16424e2c270", pin},
		{"registry.site3.example/pause:3.10", "registry.example/pause:" + pause},
		{"certs.d/docker.io", "certs.d/registry.example"},
		{"https://mirror.site3.example", mirror},
		{`          ca           = "/etc/ssl/certs/site3.pem"` + "\n", ""},
		{"SystemdCgroup = true", "SystemdCgroup = false"},
		{`stage "restart" "kubelet" {}`, realRestart},
	} {
		if !strings.Contains(site, change[0]) {
			t.Fatalf("examples/containerd: got no %q, want it", change[0])
		}
		site = strings.ReplaceAll(site, change[0], change[1])
	}

	return site
}

// realConfig is what realSite has for the kubelet of a container.
const realConfig = `override {
  stage "write" "kubelet" {
    kubelet_config {
      patch = {
        authentication         = { x509 = { clientCAFile = "/etc/kubernetes/pki/ca.crt" } }
        cgroupDriver           = "cgroupfs"
        cgroupsPerQOS          = false
        enforceNodeAllocatable = []
      }
    }
  }
}
`

// containerdMachine is a machine whose containerd the site of an example configures, and its cluster.
type containerdMachine struct {
	*machine
	server, pin string
}

// configures writes the example's site, which configures containerd, and one more file of its drop-in folder. more has
// settings of the CRI plugin in that file.
func (m *containerdMachine) configures(pause, mirror, more string) {
	m.T.Helper()
	m.put("/etc/prelet/site.hcl", exampleSite(m.T, m.server, m.pin, pause, mirror))
	m.put("/etc/prelet/runtime.hcl", fmt.Sprintf(`override {
  stage "write" "kubelet" {
    file "more" {
      path   = "/etc/containerd/conf.d/95-more.toml"
      notify = [stage.restart.containerd, stage.restart.kubelet]
      content = tomlencode({
        version = 3
        plugins = {
          "io.containerd.cri.v1.runtime" = merge({
            cdi_spec_dirs = ["/etc/cdi-of-site"]
            containerd = {
              runtimes = {
                other = {
                  runtime_type = "io.containerd.runc.v2"
                  options      = { BinaryName = "/usr/local/bin/other-runc", SystemdCgroup = false }
                }
              }
            }
          }, { %s })
        }
      })
    }
  }
}
`, more))
}

// newContainerdMachine is a machine with containerd 2, its own unit and a real kubelet, which was never booted.
func newContainerdMachine(t *testing.T) (m *containerdMachine, arguments []string) {
	t.Helper()
	built := os.Getenv(containerdVariable)
	if built == "" {
		t.Skip("this runs containerd 2 with a real kubelet: make e2e-runtime builds both")
	}
	runc := filepath.Join(os.Getenv(kubeVariable), "containerd/usr/sbin/runc")
	if _, err := os.Stat(runc); err != nil {
		t.Skip("no runc: test/kube/build.sh takes it from Debian, with apt-get")
	}
	c := newControl(t)
	m = &containerdMachine{newMachine(t), "https://" + outside + ":" + c.port, c.Pin}
	m.wire(outside, inside)

	m.put("/etc/prelet/real.hcl", realConfig)
	m.put("/etc/credstore/bootstrap-token", c.Token+"\n")

	unit, err := os.ReadFile(filepath.Join(built, "containerd.service"))
	must(t, err)
	m.put("/etc/systemd/system/containerd.service", string(unit))
	m.put("/etc/systemd/system/kernel.service", kernelUnit)
	m.put("/etc/containerd/config.toml", imageConfig)
	m.chroot("systemctl", "enable", "kernel.service", "containerd.service")

	// containerd's folder is a tmpfs, because overlayfs cannot be on another one. runc needs the system calls.
	arguments = []string{"--tmpfs=/var/lib/containerd", "--system-call-filter=@keyring bpf"}
	for path, program := range map[string]string{
		"/usr/bin/kubelet":                       c.program("kubelet"),
		"/usr/local/bin/containerd":              filepath.Join(built, "containerd"),
		"/usr/local/bin/containerd-shim-runc-v2": filepath.Join(built, "containerd-shim-runc-v2"),
		"/usr/local/bin/ctr":                     filepath.Join(built, "ctr"),
		"/usr/local/bin/runc":                    runc,
		"/usr/local/bin/other-runc":              runc,
	} {
		if !m.Exists(path) {
			m.put(path, "")
		}
		arguments = append(arguments, "--bind-ro="+program+":"+path)
	}

	return m, arguments
}

// containerd is what containerd reports over CRI.
type containerd struct {
	Driver   string
	Handlers []string
	Config   struct {
		EnableCDI   bool
		CDISpecDirs []string
	}
}

// dialCRI connects to containerd.
func (m *machine) dialCRI() *grpc.ClientConn {
	m.T.Helper()
	socket := fmt.Sprintf("unix:///proc/%d/root%s", m.Leader, runtimeSocket)
	conn, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(m.T, err)

	return conn
}

// askCRI returns what containerd reports of itself.
func (m *machine) askCRI() containerd {
	m.T.Helper()
	conn := m.dialCRI()
	defer conn.Close()
	ctx, cancel := context.WithTimeout(m.T.Context(), time.Minute)
	defer cancel()
	client := runtimeapi.NewRuntimeServiceClient(conn)

	status, err := client.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	must(m.T, err)
	config, err := client.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
	must(m.T, err)

	c := containerd{Driver: config.GetLinux().GetCgroupDriver().String()}
	must(m.T, json.Unmarshal([]byte(status.GetInfo()["config"]), &c.Config))
	for _, h := range status.GetRuntimeHandlers() {
		if h.GetName() != "" { // the default handler
			c.Handlers = append(c.Handlers, h.GetName())
		}
	}

	return c
}

// pull lets containerd pull an image as for a pod, and reports whether it is pinned, as the sandbox image is.
func (m *machine) pull(image string) (isPinned bool) {
	m.T.Helper()
	conn := m.dialCRI()
	defer conn.Close()
	ctx, cancel := context.WithTimeout(m.T.Context(), time.Minute)
	defer cancel()
	client := runtimeapi.NewImageServiceClient(conn)
	spec := &runtimeapi.ImageSpec{Image: image}

	if _, err := client.PullImage(ctx, &runtimeapi.PullImageRequest{Image: spec}); err != nil {
		m.T.Fatal(err)
	}
	found, err := client.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: spec})
	must(m.T, err)

	return found.GetImage().GetPinned()
}

// processes are those of containerd, of the kubelet and of the container, which a restart of containerd must not end.
type processes struct{ containerd, kubelet, container string }

// sleeper is a container that ctr starts, and the kubelet does not see.
const sleeper = "sleeper"

func (m *machine) processes() processes {
	m.T.Helper()
	found := processes{containerd: m.property("containerd", "MainPID"), kubelet: m.property("kubelet", "MainPID")}
	for line := range strings.Lines(m.Do("/usr/local/bin/ctr", "-n", "k8s.io", "tasks", "list")) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == sleeper && fields[2] == "RUNNING" {
			found.container = fields[1]
		}
	}

	return found
}

// checkProcesses checks that the container runs, and that containerd and then the kubelet were restarted, or neither.
func (m *machine) checkProcesses(what string, before processes, isRestarted bool) {
	m.T.Helper()
	now := m.processes()
	if before.container == "" || now.container != before.container {
		m.T.Errorf("%s: got container %q, want %q still", what, now.container, before.container)
	}
	if got := now.containerd != before.containerd; got != isRestarted {
		m.T.Errorf("%s: containerd was restarted: got %t, want %t", what, got, isRestarted)
	}
	if got := now.kubelet != before.kubelet; got != isRestarted {
		m.T.Errorf("%s: the kubelet was restarted: got %t, want %t", what, got, isRestarted)
	}
	m.checkStartOrder(what)
}

func (m *machine) checkStartOrder(what string) {
	m.T.Helper()
	runtime, kubelet := m.monotonic("containerd", "ExecMainStart"), m.monotonic("kubelet", "ExecMainStart")
	if runtime >= kubelet {
		m.T.Errorf("%s: containerd started at %s, and the kubelet at %s; want containerd first", what, runtime, kubelet)
	}
}

// countStarts returns how often containerd was started in this boot.
func (m *machine) countStarts() int {
	m.T.Helper()
	log := m.Do("journalctl", "-b", "--no-pager", "-o", "cat", "-u", "containerd")

	return strings.Count(log, "starting containerd")
}

// checkDump checks what containerd itself makes of all its files.
func (m *machine) checkDump(what string, want ...string) {
	m.T.Helper()
	got := m.Do("/usr/local/bin/containerd", "config", "dump")
	for _, w := range want {
		if !strings.Contains(got, w) {
			m.T.Errorf("%s: containerd config dump: got\n%s\nwant text with %q", what, got, w)
		}
	}
}

// TestRuntimes asks each containerd that was built or downloaded about the configuration of an image: what it refuses is
// an error in its words, which names the first file with which it does.
func TestRuntimes(t *testing.T) {
	const root, first, second = "/etc/containerd/config.toml", "/etc/containerd/conf.d/10-a.toml", "/etc/containerd/conf.d/20-b.toml"
	programs := map[string]string{
		"1.x": filepath.Join(os.Getenv(kubeVariable), "containerd/usr/bin/containerd"),
		"2.x": filepath.Join(os.Getenv(containerdVariable), "containerd"),
	}
	for name, c := range map[string]struct {
		files map[string]string
		file  string // that it refuses; "": none
		only  string // the version that is asked; "": each
	}{
		"good":         {files: map[string]string{second: "version = 2\n[grpc]\nuid = 0\n"}},
		"not TOML":     {files: map[string]string{first: "version = \n"}, file: first},
		"a wrong type": {files: map[string]string{second: "version = 2\n[grpc]\naddress = 3\n"}, file: second},
		"a wrong type in a plugin": {
			files: map[string]string{second: "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nmax_concurrent_downloads = 'hunter2'\n"},
			file:  second,
		},
		"no table of a plugin":  {files: map[string]string{second: "version = 2\n[plugins]\n'io.containerd.grpc.v1.cri' = 3\n"}, file: second},
		"a version of tomorrow": {files: map[string]string{second: "version = 4\n"}, file: second, only: "2.x"},
		"a missing import":      {files: map[string]string{root: "version = 2\nimports = ['/opt/x.toml']\n"}, file: root},
	} {
		for version, program := range programs {
			t.Run(name+"/"+version, func(t *testing.T) {
				if st, err := os.Stat(program); err != nil || st.IsDir() || c.only != "" && c.only != version {
					t.Skip("make e2e-runtime has the programs; this is asked of version", c.only)
				}
				image := t.TempDir()
				put := func(file, text string) {
					must(t, os.MkdirAll(filepath.Dir(image+file), 0o755))
					must(t, os.WriteFile(image+file, []byte(text), 0o644))
				}
				put(root, "version = 2\nimports = ['/etc/containerd/conf.d/*.toml']\n")
				put(first, "version = 2\n")
				must(t, os.MkdirAll(image+"/usr/bin", 0o755))
				for file, text := range c.files {
					put(file, text)
				}
				text, err := os.ReadFile(program)
				must(t, err)
				must(t, os.WriteFile(image+"/usr/bin/containerd", text, 0o755))
				cmd := exec.Command("../../bin/prelet", "validate", "--root", image, "--config", "../../examples/minimal")
				out, _ := cmd.CombinedOutput()

				printed := strings.Join(strings.Fields(string(out)), " ")
				isRefused := c.file != ""
				if got := cmd.ProcessState.ExitCode(); isRefused != (got == 10) ||
					isRefused != strings.Contains(printed, "/usr/bin/containerd refuses "+c.file+":") ||
					strings.Contains(printed, "was not asked") {
					t.Errorf("got %d, %s; want refused: %t, and %q named", got, printed, isRefused, c.file)
				}
			})
		}
	}
}

// TestContainerd: a real containerd 2 under a real systemd, with a real kubelet on a real cluster. The settings of the
// site reach containerd, which is restarted before the kubelet; containers go on. Settings that containerd refuses are not
// written, and those with which it has no CRI are rolled back. A mirror is used without a restart. Without a config.toml, containerd reads
// no drop-ins. The site is that of examples/containerd.
func TestContainerd(t *testing.T) {
	t.Parallel()
	m, arguments := newContainerdMachine(t)
	busybox := filepath.Join(os.Getenv(kubeVariable), "containerd/usr/bin/busybox")
	mirror, other := newRegistry(t, outside+":0", busybox), newRegistry(t, outside+":0", busybox)
	m.configures("one", mirror.url, "")
	m.Boot(arguments...)
	m.verdict("good")
	m.checkFirstBoot(mirror)

	const image = "registry.example/app:one"
	if m.pull(image) {
		t.Errorf("%s is pinned, want the sandbox image only", image)
	}
	m.Do("/usr/local/bin/ctr", "-n", "k8s.io", "run", "--detach", "--cpu-shares=0", image, sleeper) // no controllers here

	before := m.processes()
	m.configures("two", mirror.url, "")
	m.Do("prelet", "run")
	m.checkProcesses("another sandbox image", before, true)
	m.checkDump("another sandbox image", "sandbox = 'registry.example/pause:two'")
	if !m.pull("registry.example/pause:two") {
		t.Error("another sandbox image: containerd has not pinned it")
	}

	before = m.processes()
	m.configures("two", other.url, "")
	m.Do("prelet", "run")
	m.checkProcesses("another mirror", before, false)
	const late = "registry.example/app:late"
	m.pull(late)
	if mirror.hasAsked("app:late") || !other.hasAsked("app:late") {
		t.Errorf("another mirror: the first was asked for %q, the second for %q; want app:late of the second only",
			mirror.asked, other.asked)
	}

	before = m.processes()
	m.configures("two", other.url, `enable_cdi = "maybe"`)
	const why = "/usr/local/bin/containerd refuses /etc/containerd/conf.d/95-more.toml: toml: cannot decode TOML string into " +
		"struct field config.RuntimeConfig.EnableCDI of type bool"
	if r := m.Try("prelet", "run"); r.Exit != 10 || !strings.Contains(strings.Join(strings.Fields(r.Errors), " "), why) {
		t.Errorf("a wrong type: prelet run: got %+v; want 10, and %q", r, why)
	}
	m.checkProcesses("a wrong type", before, false)

	const file = "/etc/containerd/conf.d/99-other.toml" // which the site does not write
	const others = "/usr/local/bin/containerd refuses " + file
	m.put(file, "version = 4\n")
	m.configures("three", other.url, "")
	if r := m.Try("prelet", "run"); r.Exit != 10 || !strings.Contains(strings.Join(strings.Fields(r.Errors), " "), others) {
		t.Errorf("a drop-in of others: prelet run: got %+v; want 10, and %q", r, others)
	}
	m.checkProcesses("a drop-in of others", before, false)
	m.Do("rm", file)
	m.checkDump("a drop-in of others that is gone", "sandbox = 'registry.example/pause:two'")
	m.checkRefused("no CRI", other.url,
		`containerd = { default_runtime_name = "none" }`,
		"the container runtime answers and has no CRI")

	before = m.processes()
	starts := m.countStarts()
	site := strings.ReplaceAll(realSite, `= "systemd"`, `= "cgroupfs"`)
	m.put("/etc/prelet/site.hcl", strings.NewReplacer("SERVER", m.server, "PIN", m.pin).Replace(site))
	m.put("/etc/prelet/runtime.hcl", "")
	m.put("/etc/prelet/real.hcl", "")
	m.Do("prelet", "run")
	m.checkProcesses("without the files", before, true)
	if got := m.countStarts() - starts; got != 1 || m.Exists(runtimeDropIn) {
		t.Errorf("without the block: got %d starts of containerd, drop-in %t; want 1 and false", got, m.Exists(runtimeDropIn))
	}
	if got := m.askCRI(); got.Driver != "SYSTEMD" || len(got.Handlers) != 1 {
		t.Errorf("without the block: got %+v, want the image's cgroup driver and its handler", got)
	}
	m.running()

	must(t, os.Remove(m.Root+"/etc/containerd/config.toml"))
	m.put("/etc/prelet/real.hcl", realConfig)
	m.configures("three", other.url, "")
	m.Do("prelet", "run")
	if got := m.askCRI(); !m.Exists(runtimeDropIn) || len(got.Handlers) != 1 {
		t.Errorf("without config.toml: got %+v, want the drop-in without effect", got)
	}
}

// checkFirstBoot checks that containerd has the settings of the site, and started before the kubelet.
func (m *machine) checkFirstBoot(mirror *registry) {
	m.T.Helper()
	m.checkStartOrder("first boot")
	m.checkDump("first boot",
		"sandbox = 'registry.example/pause:one'",
		"config_path = '/etc/containerd/certs.d'",
		"cdi_spec_dirs = ['/etc/cdi-of-site']",
		"BinaryName = '/usr/local/bin/other-runc'",
		"restrict_oom_score_adj = true", // of config.toml
	)

	got := m.askCRI()
	isCDI := got.Config.EnableCDI && strings.Join(got.Config.CDISpecDirs, " ") == "/etc/cdi-of-site"
	if got.Driver != "CGROUPFS" || strings.Join(got.Handlers, " ") != "other runc" || !isCDI {
		m.T.Errorf("first boot: got %+v, want CGROUPFS, handlers other and runc, and CDI from /etc/cdi-of-site", got)
	}
	if isPinned := m.pull("registry.example/pause:one"); !isPinned || !mirror.hasAsked("pause:one") {
		m.T.Errorf("first boot: the sandbox image: got pinned %t, of the mirror %q; want true, and pause:one",
			isPinned, mirror.asked)
	}
}

// checkRefused runs prelet with settings that are rolled back: containerd and the kubelet run again with the old ones.
func (m *containerdMachine) checkRefused(what, mirror, more string, says ...string) {
	m.T.Helper()
	before, old := m.processes(), m.read(runtimeDropIn)
	m.configures("two", mirror, more)
	r := m.Try("prelet", "run")
	if r.Exit != 50 {
		m.T.Errorf("%s: prelet run: got %+v, want 50", what, r)
	}
	for _, s := range says {
		if !strings.Contains(r.Errors, s) {
			m.T.Errorf("%s: prelet run: got %s; want text with %q", what, r.Errors, s)
		}
	}

	m.Within(time.Minute, what+" is rolled back", func() string {
		if state := m.property("containerd", "ActiveState") + m.property("kubelet", "ActiveState"); state != "activeactive" {
			return state
		}
		return ""
	})
	if got := m.read(runtimeDropIn); got != old {
		m.T.Errorf("%s: got the drop-in\n%s\nwant\n%s", what, got, old)
	}
	m.checkProcesses(what, before, true)
	if !m.pull("registry.example/pause:two") {
		m.T.Errorf("%s: the sandbox image is not pinned; want the old settings", what)
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
