package boot

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"golang.org/x/tools/txtar"
)

// TestRuntimeFiles compares the files of a container runtime, and that of hosts in its order.
func TestRuntimeFiles(t *testing.T) {
	a, err := txtar.ParseFile("testdata/run/runtime.txt")
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
	var want, got map[string]any
	if err := toml.Unmarshal([]byte(dropIn), &want); err != nil {
		t.Fatal(err)
	}
	if err := toml.Unmarshal([]byte(texts["/etc/containerd/conf.d/90-prelet.toml"]), &got); err != nil {
		t.Fatalf("the drop-in: %v", err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the drop-in (-want +got):\n%s", d)
	}
}
