package boot

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"golang.org/x/tools/txtar"
)

// TestContainerdFiles compares the drop-in of containerd, and the file of a registry with its hosts in their order.
func TestContainerdFiles(t *testing.T) {
	texts := renderRuntimeFiles(t, "runtime")

	const hosts = `# Written by prelet, from write.kubelet of the site.
server = 'https://registry-1.docker.io'

[host.'https://mirror.example']
ca = '/etc/ssl/mirror.crt'
capabilities = ['pull', 'resolve']

[host.'https://second.example/v2/hub']
capabilities = ['pull']
override_path = true
skip_verify = true
`
	if d := cmp.Diff(hosts, texts["/etc/containerd/certs.d/docker.io/hosts.toml"]); d != "" {
		t.Errorf("hosts.toml (-want +got):\n%s", d)
	}

	const dropIn = `version = 3
oom_score = -999

[plugins.'io.containerd.cri.v1.images']
pinned_images = {sandbox = "registry.example/pause:3.10"}
registry = {config_path = "/etc/containerd/certs.d"}

[plugins.'io.containerd.cri.v1.runtime']
enable_cdi = true
cdi_spec_dirs = ["/etc/cdi", "/run/cdi"]
max_container_log_line_size = 16384

[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = "nvidia"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
options = {BinaryName = "/usr/bin/nvidia-container-runtime", SystemdCgroup = true}

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
options = {BinaryName = "/usr/bin/crun", SystemdCgroup = true}
`
	compareTOML(t, texts, "/etc/containerd/conf.d/90-prelet.toml", dropIn)
}

// TestDriverOfHandlers compares the handlers that get the kubelet's cgroup driver: those with runc's shim that choose
// none.
func TestDriverOfHandlers(t *testing.T) {
	texts := renderRuntimeFiles(t, "runtime-default-handler")

	compareTOML(t, texts, "/etc/containerd/conf.d/90-prelet.toml", `version = 3
[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = "nvidia"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes]
runc = {runtime_type = "io.containerd.runc.v2", options = {SystemdCgroup = true}}
own = {runtime_type = "io.containerd.runc.v2", options = {SystemdCgroup = false}}
kata = {runtime_type = "io.containerd.kata.v2"}

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
options = {BinaryName = "/usr/bin/nvidia-container-runtime", SystemdCgroup = true}
`)
}

// TestCRIOFiles compares the drop-in of CRI-O and the files of its registries.
func TestCRIOFiles(t *testing.T) {
	texts := renderRuntimeFiles(t, "crio")

	compareTOML(t, texts, "/etc/crio/crio.conf.d/90-prelet.conf", `
[crio.image]
pause_image = "registry.example/pause:3.10"

[crio.runtime]
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
cdi_spec_dirs = ["/etc/cdi", "/run/cdi", "/opt/cdi"]
default_runtime = "nvidia"
pids_limit = 4096

[crio.runtime.runtimes.nvidia]
runtime_path = "/usr/bin/nvidia-container-runtime"
monitor_path = "/usr/libexec/crio/conmon"

[crio.runtime.runtimes.kata]
runtime_type = "vm"
runtime_path = "/usr/bin/containerd-shim-kata-v2"
runtime_root = "/run/vc"
privileged_without_host_devices = true

[crio.runtime.runtimes.runc]
`)
	compareTOML(t, texts, "/etc/containers/registries.conf.d/90-prelet-docker.io.conf", `
[[registry]]
prefix = "docker.io"
location = "docker.io"

[[registry.mirror]]
location = "mirror.example"

[[registry.mirror]]
location = "second.example:5000/hub"
insecure = true
pull-from-mirror = "digest-only"
`)
	compareTOML(t, texts, "/etc/containers/registries.conf.d/90-prelet-registry.example:8443.conf", `
[[registry]]
prefix = "registry.example:8443"
location = "inner.example"
insecure = true
`)
}

// TestCRIOReads gives the drop-in to the program that PRELET_CRIO names, over a file as a package has it: the
// configuration that CRI-O reads has each setting of the drop-in.
func TestCRIOReads(t *testing.T) {
	program := os.Getenv("PRELET_CRIO")
	if program == "" {
		t.Skip("needs the path of a crio in PRELET_CRIO")
	}
	const dropIn = "/etc/crio/crio.conf.d/90-prelet.conf"
	text := renderRuntimeFiles(t, "crio")[dropIn]

	dir := t.TempDir()
	for name, content := range map[string]string{
		"90-prelet.conf": text,
		"10-crio.conf": `
[crio.runtime]
cgroup_manager = "systemd"
conmon_cgroup = "crio.slice"
default_runtime = "crun"
[crio.runtime.runtimes.crun]
runtime_path = "/usr/libexec/crio/crun"
[crio.runtime.runtimes.runc]
runtime_path = "/usr/libexec/crio/runc"
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	printed, err := exec.CommandContext(t.Context(), program, "--config", "", "--config-dir", dir, "config").Output()
	if err != nil {
		t.Fatalf("%s config: got %v, want no error", program, err)
	}

	var want, got map[string]any
	if err := toml.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	if err := toml.Unmarshal(printed, &got); err != nil {
		t.Fatalf("the output of crio config: got %v, want valid TOML", err)
	}
	for path, v := range flattenTables("", want) {
		if d := cmp.Diff(v, flattenTables("", got)[path]); d != "" {
			t.Errorf("%s (-want +got):\n%s", path, d)
		}
	}
	// The empty table of runc replaces that of the package.
	const replaced = "crio.runtime.runtimes.runc.runtime_path"
	if got := flattenTables("", got)[replaced]; got != "" {
		t.Errorf("%s: got %v, want an empty text", replaced, got)
	}
}

// flattenTables returns the settings of nested tables, by their paths.
func flattenTables(at string, table map[string]any) map[string]any {
	out := map[string]any{}
	for key, v := range table {
		if inner, isTable := v.(map[string]any); isTable {
			maps.Copy(out, flattenTables(at+key+".", inner))
			continue
		}
		out[at+key] = v
	}

	return out
}

// TestCRIOSettings plans settings of CRI-O one by one: the drop-in, or the error with which the site is refused.
func TestCRIOSettings(t *testing.T) {
	for _, c := range []struct{ name, settings, want string }{
		{
			name:     "no settings",
			settings: ``,
			want:     ``,
		},
		{
			name:     "CRI-O's own folders of CDI",
			settings: `cdi {}`,
			want:     "[crio.runtime]\ncdi_spec_dirs = ['/etc/cdi', '/var/run/cdi']\n",
		},
		{
			name:     "no folders of CDI",
			settings: `cdi { enabled = false }`,
			want:     "[crio.runtime]\ncdi_spec_dirs = []\n",
		},
		{
			name:     "systemd leaves conmon's cgroup as it is",
			settings: `cgroup_driver = "systemd"`,
			want:     "[crio.runtime]\ncgroup_manager = 'systemd'\n",
		},
		{
			name:     "a cgroup of conmon in config",
			settings: `config = { crio = { runtime = { cgroup_manager = "cgroupfs", conmon_cgroup = "" } } }`,
			want:     "[crio.runtime]\ncgroup_manager = 'cgroupfs'\nconmon_cgroup = ''\n",
		},
		{
			name:     "folders of CDI that is off",
			settings: "cdi {\nenabled = false\nspec_dirs = [\"/etc/cdi\"]\n}",
			want:     `error conflict site.hcl:10:13 CDI is off, and has folders: `,
		},
		{
			name:     "no table in config",
			settings: `config = { crio = "x" }`,
			want:     `error conflict site.hcl:8:12 CRI-O has no setting crio: `,
		},
		{
			name:     "a shim of containerd",
			settings: `handler "a" { runtime_type = "io.containerd.runc.v2" }`,
			want:     `error conflict site.hcl:8:30 CRI-O has no runtime_type io.containerd.runc.v2: `,
		},
		{
			name:     "a program of containerd's shim",
			settings: `handler "a" { options = { BinaryName = "/usr/bin/runc" } }`,
			want:     `error conflict site.hcl:8:27 CRI-O has no option BinaryName: Write runtime_path.`,
		},
		{
			name:     "a driver of containerd's shim",
			settings: `handler "a" { options = { SystemdCgroup = true } }`,
			want:     `error conflict site.hcl:8:27 CRI-O has no option SystemdCgroup: Write cgroup_driver `,
		},
		{
			name:     "another option of containerd's shim",
			settings: `handler "a" { options = { NoPivotRoot = true } }`,
			want:     `error conflict site.hcl:8:27 CRI-O has no option NoPivotRoot: Options with capital letters `,
		},
		{
			name:     "two places for a type",
			settings: `handler "a" { options = { runtime_type = "vm" } }`,
			want:     `error conflict site.hcl:8:27 CRI-O has no option runtime_type: Write it as the argument `,
		},
		{
			name:     "the main configuration",
			settings: `path = "/etc/crio/crio.conf"`,
			want:     `error path-invalid site.hcl:8:8 This is not a drop-in: The settings would replace all of `,
		},
		{
			name:     "no folders of CDI that is on",
			settings: `cdi { spec_dirs = [] }`,
			want:     `error wrong-type site.hcl:8:19 Wrong value for spec_dirs: without folders no device is found; `,
		},
		{
			name:     "a handler without a name",
			settings: `handler "" {}`,
			want:     `error wrong-type site.hcl:8:1 Not the name of a handler: "": `,
		},
		{
			name:     "a handler that no RuntimeClass can name",
			settings: `handler "a b\nc" {}`,
			want:     `error wrong-type site.hcl:8:1 Not the name of a handler: "a b\nc": `,
		},
		{
			name:     "a part of a registry",
			settings: `registry "quay.io/team" {}`,
			want:     `error wrong-type site.hcl:8:1 Not a registry: "quay.io/team": a host name without a path is needed`,
		},
		{
			name:     "a name that images do not have",
			settings: `registry "index.docker.io" {}`,
			want:     `error conflict site.hcl:8:1 No image has the registry index.docker.io: `,
		},
		{
			name:     "the other name of docker.io",
			settings: "registry \"docker.io\" {\nserver = \"https://index.docker.io\"\n}",
			want:     "[[registry]]\nprefix = 'docker.io'\nlocation = 'docker.io'\n",
		},
		{
			name:     "a server with the path of the API",
			settings: "registry \"docker.io\" {\nserver = \"https://mirror.example/v2/hub\"\n}",
			want:     "[[registry]]\nprefix = 'docker.io'\nlocation = 'mirror.example/hub'\n",
		},
		{
			name:     "a server with another path",
			settings: "registry \"docker.io\" {\nserver = \"https://mirror.example/hub\"\n}",
			want: `error conflict site.hcl:9:10 CRI-O cannot use this server: it has the path /hub, and CRI-O asks ` +
				`below /v2 only. If the registry is there too, write https://mirror.example/v2/PATH.`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &txtar.Archive{Files: []txtar.File{
				{Name: "site.hcl", Data: fmt.Appendf(nil, `stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config { base = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" }
  runtime {
    name = "cri-o"

%s
  }
}
`, c.settings)},
				{Name: "world", Data: []byte(`unit => {"value":{"load":"loaded"}}` + "\n")},
			}}
			s, diags := parseCase(a)
			if diags.HasErrors() {
				t.Fatalf("parsing the site: got %v, want no error", diags)
			}
			p := Run(t.Context(), s, Options{Source: fakeWorld(t, a)})

			var got string
			for _, f := range p.Node.Files {
				if f.Purpose == "runtime" {
					_, got, _ = strings.Cut(f.Text.Template(), "\n")
				}
			}
			if p.Diagnostics.HasErrors() {
				got = showDiagnostics(p.Diagnostics)
			}
			got = strings.TrimPrefix(got, "[crio]\n")
			if got != c.want && (!strings.HasPrefix(c.want, "error ") || !strings.HasPrefix(got, c.want)) {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// renderRuntimeFiles returns the planned files of a case in testdata/run, by path.
func renderRuntimeFiles(t *testing.T, name string) map[string]string {
	t.Helper()
	a, err := txtar.ParseFile("testdata/run/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	s, diags := parseCase(a)
	if diags.HasErrors() {
		t.Fatal(diags)
	}

	texts := map[string]string{}
	for _, f := range Run(t.Context(), s, Options{Source: fakeWorld(t, a)}).Node.Files {
		texts[f.Path] = f.Text.Template()
	}

	return texts
}

// compareTOML compares the values of a planned file with those of a text.
func compareTOML(t *testing.T, texts map[string]string, file, text string) {
	t.Helper()
	var want, got map[string]any
	if err := toml.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	if err := toml.Unmarshal([]byte(texts[file]), &got); err != nil {
		t.Fatalf("%s: got %v, want valid TOML", file, err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", file, d)
	}
}
