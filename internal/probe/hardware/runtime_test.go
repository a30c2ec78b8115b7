package hardware

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/world"
)

func TestRuntime(t *testing.T) {
	const (
		config = "etc/containerd/config.toml"
		v2     = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n  " +
			"SystemdCgroup = true # yes\n"
		noReason = "no configuration file contains the version"
	)
	tests := map[string]struct {
		files                  map[string]string
		name, endpoint, driver any
		why                    string // of the name, where it is null
	}{
		"nothing": {nil, nil, nil, nil, "there is neither /etc/containerd/config.toml nor /etc/crio"},
		"containerd, empty": {
			map[string]string{config: ""},
			"containerd",
			"unix:///run/containerd/containerd.sock",
			"cgroupfs",
			"",
		},
		"containerd 1.x, v2": {
			map[string]string{config: v2},
			"containerd",
			"unix:///run/containerd/containerd.sock",
			"systemd",
			"",
		},
		"containerd, off": {
			map[string]string{config: strings.Replace(v2, "true", "false", 1)},
			"containerd",
			"unix:///run/containerd/containerd.sock",
			"cgroupfs",
			"",
		},
		"containerd 2.x, v3": {
			map[string]string{
				config: "version = 3\n[grpc]\n  address = " +
					"'/run/c.sock'\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\n  SystemdCgroup = true\n",
			},
			"containerd",
			"unix:///run/c.sock",
			"systemd",
			"",
		},
		"version 1": {
			map[string]string{config: "[plugins.cri]\n  systemd_cgroup = true\n"},
			"containerd",
			"unix:///run/containerd/containerd.sock",
			"systemd",
			"",
		},
		"dotted key": {
			map[string]string{
				config: "[plugins.\"io.containerd.grpc.v1.cri\"]\ncontainerd.runtimes.runc.options.SystemdCgroup = true\n",
			},
			"containerd",
			"unix:///run/containerd/containerd.sock",
			"systemd",
			"",
		},
		"another runtime's": {
			map[string]string{config: strings.Replace(v2, "runc", "kata", 1)},
			"containerd",
			"unix:///run/containerd/containerd.sock",
			"cgroupfs",
			"",
		},
		"the default runtime": {
			map[string]string{
				config: strings.Replace(
					v2,
					"runc",
					"nvidia",
					1,
				) + "[plugins.\"io.containerd.grpc.v1.cri\".containerd]\ndefault_runtime_name = \"nvidia\"\n",
			},
			"containerd",
			"unix:///run/containerd/containerd.sock",
			"systemd",
			"",
		},
		"an import overrides": {
			map[string]string{
				config: "imports = [\n  \"/etc/containerd/conf.d/*.toml\", # drop-ins\n]\n" + v2,
				"etc/containerd/conf.d/10-a.toml": strings.Replace(
					v2,
					"true",
					"false",
					1,
				),
				"etc/containerd/conf.d/20-b.toml": "[grpc]\naddress = \"/run/b.sock\"\n",
				"etc/containerd/conf.d/x.bak":     v2,
			},
			"containerd",
			"unix:///run/b.sock",
			"cgroupfs",
			"",
		},
		"a commented line": {
			map[string]string{
				config: "#[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n# " +
					"SystemdCgroup = true\n",
			},
			"containerd",
			"unix:///run/containerd/containerd.sock",
			"cgroupfs",
			"",
		},
		"docker's": {
			map[string]string{config: `disabled_plugins = ["cri"]`},
			nil,
			nil,
			nil,
			errNoCRI.Error(),
		},
		"CRI-O": {
			map[string]string{
				"etc/crio/crio.conf.d/10.conf": "[crio.api]\nlisten = " +
					"\"/run/crio.sock\"\n[crio.runtime]\ncgroup_manager = \"cgroupfs\"\n",
			},
			"cri-o",
			"unix:///run/crio.sock",
			"cgroupfs",
			"",
		},
		"CRI-O, two files": {
			map[string]string{
				"etc/crio/crio.conf":           "[crio.runtime]\ncgroup_manager = \"cgroupfs\"\n",
				"etc/crio/crio.conf.d/10.conf": "[crio.runtime]\ncgroup_manager = \"systemd\"\n",
			},
			"cri-o",
			"unix:///var/run/crio/crio.sock",
			"systemd",
			"",
		},
		"both": {
			map[string]string{config: v2, "etc/crio/crio.conf": ""},
			nil,
			nil,
			nil,
			"both containerd and CRI-O are configured, and /etc/crictl.yaml names neither",
		},
		"both, and crictl's": {
			map[string]string{
				config:               v2,
				"etc/crio/crio.conf": "",
				"etc/crictl.yaml":    "runtime-endpoint: unix:///run/containerd/containerd.sock\ntimeout: 2\n",
			},
			"containerd",
			"unix:///run/containerd/containerd.sock",
			"systemd",
			"",
		},
		"nonsense in CRI-O": {
			map[string]string{"etc/crio/crio.conf": "[crio.runtime]\ncgroup_manager = \"other\"\n"},
			"cri-o",
			"unix:///var/run/crio/crio.sock",
			nil,
			"",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			facts := detect(t, Options{Tree: tree(t, tt.files)})
			r := facts.Runtime
			if value(r.Name) != tt.name || value(r.Endpoint) != tt.endpoint || value(r.CgroupDriver) != tt.driver {
				t.Errorf("got %v at %v with %v; want %v at %v with %v",
					value(r.Name), value(r.Endpoint), value(r.CgroupDriver), tt.name, tt.endpoint, tt.driver)
			}
			if got := why(facts, "runtime.name"); got != tt.why {
				t.Errorf("why is there no name: %q, want %q", got, tt.why)
			}
			if r.CgroupDriver == nil && why(facts, "runtime.cgroup_driver") == "" {
				t.Error("no cgroup driver, and no reason")
			}
			if r.Name != nil && why(facts, "runtime.version") != noReason {
				t.Errorf("version: got the reason %q, want that the file does not have it",
					why(facts, "runtime.version"))
			}
		})
	}
}

func TestParseTOML(t *testing.T) {
	const document = "a = 1\n[x.\"y.z\".'w']\nb = \"q\\\"\\\\\" # c\nc = '''\nb = \"hidden\"\n'''\nd = [\"1\", " +
		"'2', # two\n 3]\n" +
		"e.f = true\ng = {h = \"i\"}\n[[t]]\nb = 2\n"
	got, err := parseTOML([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{
		"a": {"1"}, "x|y.z|w|b": {`q"\`}, "x|y.z|w|c": {"b = \"hidden\"\n"}, "x|y.z|w|d": {"1", "2", "3"},
		"x|y.z|w|e|f": {"true"}, "x|y.z|w|g|h": {"i"}, "t": {}, "t|b": nil, "x|y.z": nil, "a|b": nil, "b": nil,
	} {
		if diff := cmp.Diff(want, got.list(strings.Split(path, "|")...)); diff != "" {
			t.Errorf("values at %s differ (-want +got):\n%s", path, diff)
		}
	}
}

func TestMergeTOML(t *testing.T) {
	parse := func(text string) table {
		values, err := parseTOML([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return values
	}
	got := parse("a = 1\nb.c = 1\nb.d = 1\nx.y = 1\nz = 1\n")
	got.merge(parse("b.c = 2\nb.e = 2\nx = 2\nz.y = 2\n"))
	want := parse("a = 1\nb.c = 2\nb.d = 1\nb.e = 2\nx = 2\nz.y = 2\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the merged document differs (-want +got):\n%s", diff)
	}
}

// deepTOML are documents of the largest size that is read, with one key as deep as there is room for.
var deepTOML = map[string]string{
	"a dotted key": strings.Repeat("a.", configLimit/2-4) + "a = 1\n",
	"a header":     "[" + strings.Repeat("a.", configLimit/2-4) + "a]\n",
}

// The runtime reads a file with a deep key, and so does prelet, in the time of any file of that size.
func TestDeepTOMLIsRead(t *testing.T) {
	for name, text := range deepTOML {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), mostParsing)
			defer cancel()
			facts, err := Detect(ctx, Options{Tree: tree(t, map[string]string{"etc/containerd/config.toml": text})})
			if err != nil {
				t.Fatal(err)
			}
			const want = "unix:///run/containerd/containerd.sock"
			if got := value(facts.Runtime.Endpoint); got != want {
				t.Errorf("endpoint: got %v and the reason %q, want %s", got, why(facts, "runtime"), want)
			}
		})
	}
}

// The caller of RuntimeOf gets nothing that is half read.
func TestRuntimeOfEndsWithItsContext(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "etc/containerd/config.toml"), "")
	if got := value(RuntimeOf(context.Background(), root).Name); got != "containerd" {
		t.Errorf("with time: got the name %v, want containerd", got)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	if got := RuntimeOf(ended, root); got != (world.Runtime{}) {
		t.Errorf("after the context has ended: got %+v, want nothing", got)
	}
}

// If a runtime cannot read its own configuration, prelet does not read it either: a note names the file and the line,
// without its text.
func TestInvalidTOMLIsNoted(t *testing.T) {
	const config, good, broken = "etc/containerd/config.toml", "[grpc]\naddress = \"/run/good.sock\"\n", "[registry]\npassword = hunter2\n"
	for name, tt := range map[string]struct {
		files    map[string]string
		endpoint any
		fact     string
		want     string
	}{
		"the main file": {map[string]string{config: broken}, nil, "runtime.name", "/etc/containerd/config.toml " +
			"is not valid TOML: line 2, column 12"},
		"an import": {map[string]string{config: "imports = [\"/etc/x.toml\"]\n" + good, "etc/x.toml": broken}, "unix:///run/good.sock", "runtime",
			"/etc/x.toml is not valid TOML: line 2, column 12"},
		"a file of CRI-O": {map[string]string{"etc/crio/crio.conf": "[crio.api]\nlisten = " +
			"\"/run/good.sock\"\n", "etc/crio/crio.conf.d/1.conf": broken},
			"unix:///run/good.sock", "runtime", "/etc/crio/crio.conf.d/1.conf is not valid TOML: line 2, column 12"},
		"a table twice": {map[string]string{config: good + good}, nil, "runtime.name", "/etc/containerd/config.toml is not valid TOML: line 3, column 2"},
		"a large file":  {map[string]string{config: strings.Repeat("#", configLimit+1)}, nil, "runtime.name", "/etc/containerd/config.toml is larger than 128 KiB, which is the limit"},
		"deep arrays":   {map[string]string{config: "x = " + strings.Repeat("[", configLimit/2)}, nil, "runtime.name", "/etc/containerd/config.toml is not valid TOML: line 1, column 10005"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := detect(t, Options{Tree: tree(t, tt.files)})
			if got := value(facts.Runtime.Endpoint); got != tt.endpoint {
				t.Errorf("endpoint: got %v, want %v", got, tt.endpoint)
			}
			if got := why(facts, tt.fact); got != tt.want {
				t.Errorf("reason of %s: got %q, want %q", tt.fact, got, tt.want)
			}
			if list := degraded(facts); len(list) > 0 {
				t.Errorf("degraded: got %v, want nothing", list)
			}
		})
	}
}

func FuzzParseTOML(f *testing.F) {
	f.Add("version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  x = [\"a\",\n'b']\n")
	f.Add("a = '''\n")
	f.Add("a = [")
	for _, text := range deepTOML {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > configLimit {
			t.Skip("readTOML does not parse a file of this size")
		}
		begin := time.Now()
		values, err := parseTOML([]byte(s))
		values.merge(values)
		_, _ = values.list("a"), values.text("", "a", "b", "c")
		if took := time.Since(begin); took > mostParsing {
			t.Errorf("%d bytes: got a result after %v, want it within %v", len(s), took, mostParsing)
		}
		if err != nil && values != nil {
			t.Errorf("got %q and %v, want values or an error", values, err)
		}
	})
}

// mostParsing is how long one file may take: half a second is the most that was seen, on a machine that does nothing
// else.
const mostParsing = 10 * time.Second
