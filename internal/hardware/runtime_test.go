package hardware

import (
	"slices"
	"strings"
	"testing"
)

func TestRuntime(t *testing.T) {
	const (
		config   = "etc/containerd/config.toml"
		v2       = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n  SystemdCgroup = true # yes\n"
		noReason = "no configuration file says the version"
	)
	tests := map[string]struct {
		files                  map[string]string
		name, endpoint, driver any
		why                    string // of the name, where it is null
	}{
		"nothing":             {nil, nil, nil, nil, "there is neither /etc/containerd/config.toml nor /etc/crio"},
		"containerd, empty":   {map[string]string{config: ""}, "containerd", "unix:///run/containerd/containerd.sock", "cgroupfs", ""},
		"containerd 1.x, v2":  {map[string]string{config: v2}, "containerd", "unix:///run/containerd/containerd.sock", "systemd", ""},
		"containerd, off":     {map[string]string{config: strings.Replace(v2, "true", "false", 1)}, "containerd", "unix:///run/containerd/containerd.sock", "cgroupfs", ""},
		"containerd 2.x, v3":  {map[string]string{config: "version = 3\n[grpc]\n  address = '/run/c.sock'\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\n  SystemdCgroup = true\n"}, "containerd", "unix:///run/c.sock", "systemd", ""},
		"version 1":           {map[string]string{config: "[plugins.cri]\n  systemd_cgroup = true\n"}, "containerd", "unix:///run/containerd/containerd.sock", "systemd", ""},
		"dotted key":          {map[string]string{config: "[plugins.\"io.containerd.grpc.v1.cri\"]\ncontainerd.runtimes.runc.options.SystemdCgroup = true\n"}, "containerd", "unix:///run/containerd/containerd.sock", "systemd", ""},
		"another runtime's":   {map[string]string{config: strings.Replace(v2, "runc", "kata", 1)}, "containerd", "unix:///run/containerd/containerd.sock", "cgroupfs", ""},
		"the default runtime": {map[string]string{config: strings.Replace(v2, "runc", "nvidia", 1) + "[plugins.\"io.containerd.grpc.v1.cri\".containerd]\ndefault_runtime_name = \"nvidia\"\n"}, "containerd", "unix:///run/containerd/containerd.sock", "systemd", ""},
		"an import overrides": {map[string]string{config: "imports = [\n  \"/etc/containerd/conf.d/*.toml\", # drop-ins\n]\n" + v2,
			"etc/containerd/conf.d/10-a.toml": strings.Replace(v2, "true", "false", 1), "etc/containerd/conf.d/20-b.toml": "[grpc]\naddress = \"/run/b.sock\"\n", "etc/containerd/conf.d/x.bak": v2},
			"containerd", "unix:///run/b.sock", "cgroupfs", ""},
		"a commented line":   {map[string]string{config: "#[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n# SystemdCgroup = true\n"}, "containerd", "unix:///run/containerd/containerd.sock", "cgroupfs", ""},
		"docker's":           {map[string]string{config: `disabled_plugins = ["cri"]`}, nil, nil, nil, errNoCRI.Error()},
		"CRI-O":              {map[string]string{"etc/crio/crio.conf.d/10.conf": "[crio.api]\nlisten = \"/run/crio.sock\"\n[crio.runtime]\ncgroup_manager = \"cgroupfs\"\n"}, "cri-o", "unix:///run/crio.sock", "cgroupfs", ""},
		"CRI-O, two files":   {map[string]string{"etc/crio/crio.conf": "[crio.runtime]\ncgroup_manager = \"cgroupfs\"\n", "etc/crio/crio.conf.d/10.conf": "[crio.runtime]\ncgroup_manager = \"systemd\"\n"}, "cri-o", "unix:///var/run/crio/crio.sock", "systemd", ""},
		"both":               {map[string]string{config: v2, "etc/crio/crio.conf": ""}, nil, nil, nil, "both containerd and CRI-O are configured, and /etc/crictl.yaml names neither"},
		"both, and crictl's": {map[string]string{config: v2, "etc/crio/crio.conf": "", "etc/crictl.yaml": "runtime-endpoint: unix:///run/containerd/containerd.sock\ntimeout: 2\n"}, "containerd", "unix:///run/containerd/containerd.sock", "systemd", ""},
		"nonsense in CRI-O":  {map[string]string{"etc/crio/crio.conf": "[crio.runtime]\ncgroup_manager = \"other\"\n"}, "cri-o", "unix:///var/run/crio/crio.sock", nil, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			facts := detect(t, Options{Tree: tree(t, tt.files)})
			r := facts.Runtime
			if value(r.Name) != tt.name || value(r.Endpoint) != tt.endpoint || value(r.CgroupDriver) != tt.driver {
				t.Errorf("got %v at %v with %v; want %v at %v with %v", value(r.Name), value(r.Endpoint), value(r.CgroupDriver), tt.name, tt.endpoint, tt.driver)
			}
			if got := why(facts, "runtime.name"); got != tt.why {
				t.Errorf("why is there no name: %q, want %q", got, tt.why)
			}
			if r.CgroupDriver == nil && why(facts, "runtime.cgroup_driver") == "" {
				t.Error("no cgroup driver, and no reason")
			}
			if r.Name != nil && why(facts, "runtime.version") != noReason {
				t.Errorf("version: %q", why(facts, "runtime.version"))
			}
		})
	}
}

func TestParseTOML(t *testing.T) {
	got := parseTOML("a = 1\n[x.\"y.z\".'w']\nb = \"q\\\"\\\\\" # c\nc = '''\nb = \"hidden\"\n'''\nd = [\"1\", '2', # two\n 3]\ne.f = true\n[[x]]\nb = 2\n[broken\nb = 3\n = 4\ng =\n")
	for path, want := range map[string][]string{
		"a": {"1"}, "x|y.z|w|b": {`q"\`}, "x|y.z|w|d": {"1", "2", "3"}, "x|y.z|w|e|f": {"true"}, "[]|x|b": {"2"}, "?|b": {"3"},
	} {
		if v := got.list(strings.Split(path, "|")...); !slices.Equal(v, want) {
			t.Errorf("%s = %q, want %q", path, v, want)
		}
	}
	if len(got) != 6 {
		t.Errorf("%d values: %q", len(got), got)
	}
}

func FuzzParseTOML(f *testing.F) {
	f.Add("version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  x = [\"a\",\n'b']\n")
	f.Add("a = '''\n")
	f.Add("a = [")
	f.Fuzz(func(t *testing.T, s string) {
		for path, values := range parseTOML(s) {
			for _, v := range values {
				if len(v) > len(s) {
					t.Errorf("%q = %q is longer than the file", path, v)
				}
			}
		}
	})
}
