package systemd_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// TestUnitFileDropIns checks which drop-ins apply to kubelet.service. Each sets A=NAME; a text that begins with "-> " is
// a link.
func TestUnitFileDropIns(t *testing.T) {
	const etc, usr = "etc/systemd/system/", "usr/lib/systemd/system/"
	set := func(name string) string { return "[Service]\nEnvironment=A=" + name + "\n" }

	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"of the unit that it is a link to": {
			map[string]string{
				usr + "kubelet.service": "-> node.service", usr + "node.service": set("file"),
				usr + "node.service.d/10.conf": set("alias"), etc + "kubelet.service.d/20.conf": set("own"),
			}, []string{"A=file", "A=alias", "A=own"},
		},
		"of an alias": {
			map[string]string{
				usr + "kubelet.service": set("file"), etc + "node.service": "-> /usr/lib/systemd/system/kubelet.service",
				etc + "node.service.d/10.conf": set("alias"),
			}, []string{"A=file", "A=alias"},
		},
		"of a linked unit": {
			map[string]string{
				etc + "kubelet.service": "-> /opt/node.service", "opt/node.service": set("file"),
				etc + "node.service.d/10.conf": set("another unit's"),
			}, []string{"A=file"},
		},
		"a name within the name": {
			map[string]string{usr + "kubelet.service": set("file"), usr + "kube-.service.d/10.conf": set("no")},
			[]string{"A=file"},
		},
		"a byte order mark": {
			map[string]string{usr + "kubelet.service": set("file"), etc + "kubelet.service.d/1.conf": "\ufeff" + set("bom")},
			[]string{"A=file", "A=bom"},
		},
		"carriage returns": {
			map[string]string{
				usr + "kubelet.service":          set("file"),
				etc + "kubelet.service.d/1.conf": strings.ReplaceAll(set("cr"), "\n", "\r\n"),
			}, []string{"A=file", "A=cr"},
		},
		"a link to nothing, and a folder": {
			map[string]string{
				usr + "kubelet.service": set("file"), etc + "kubelet.service.d/10.conf": "-> /nosuch",
				etc + "kubelet.service.d/20.conf/x": "", usr + "kubelet.service.d/10.conf": set("10"),
				usr + "kubelet.service.d/20.conf": set("20"), usr + "kubelet.service.d/30.conf": set("30"),
			}, []string{"A=file", "A=30"},
		},
		"a mask": {
			map[string]string{
				usr + "kubelet.service": set("file"), etc + "kubelet.service.d/10.conf": "-> /dev/null",
				usr + "kubelet.service.d/10.conf": set("10"),
			}, []string{"A=file"},
		},
	} {
		root := writeTree(t, c.files)
		u, err := systemd.ReadUnitFile(root, "kubelet.service")
		if got := u.Settings["Environment"]; err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, %v; want %q and no error", name, got, err, c.want)
		}
	}

	root := writeTree(t, map[string]string{
		usr + "kube-let@.service": set("file"), usr + "kube-.service.d/1.conf": set("prefix"),
		usr + "kube-let@.service.d/2.conf": set("template"), usr + "kube-let@a.service.d/3.conf": set("instance"),
		usr + "kube-let@a.service": "-> kube-let@.service",
	})
	want := []string{"A=file", "A=prefix", "A=template", "A=instance"}
	u, err := systemd.ReadUnitFile(root, "kube-let@a.service")
	if got := u.Settings["Environment"]; err != nil || !slices.Equal(got, want) {
		t.Errorf("an instance: got %q, %v; want %q and no error", got, err, want)
	}
}

// TestSpecifiers replaces the specifiers of a unit's lines that its name decides. A unit that cannot be read starts
// nothing.
func TestSpecifiers(t *testing.T) {
	root := writeTree(t, map[string]string{
		"etc/systemd/system/kube-let@a.service": "[Service]\nExecStart=/usr/bin/kubelet %n %N %p %i 7%% %%H %H\n" +
			"EnvironmentFile=-/etc/default/%p\nEnvironmentFile=/etc/%N\n",
		"etc/systemd/system/bad.service/x": "a folder",
	})
	u, err := systemd.ReadUnitFile(root, "kube-let@a.service")
	if err != nil {
		t.Fatal(err)
	}

	unit := u.Unit(strings.Fields)
	want := "/usr/bin/kubelet kube-let@a.service kube-let@a kube-let a 7% %H ${%H}"
	if got := strings.Join(unit.Command, " "); got != want {
		t.Errorf("command: got %s; want %s", got, want)
	}
	files := unit.EnvironmentFiles
	if len(files) != 2 || files[0].Path != "/etc/default/kube-let" || files[1].Path != "/etc/kube-let@a" {
		t.Errorf("environment files: got %+v; want /etc/default/kube-let and /etc/kube-let@a", files)
	}
	if !unit.RequiresFile("/etc/kube-let@a") || unit.RequiresFile("/etc/default/kube-let") {
		t.Errorf("files that must exist: got %+v; want only /etc/kube-let@a", files)
	}

	bad, err := systemd.ReadUnitFile(root, "bad.service")
	if got := bad.Unit(strings.Fields); err == nil || len(got.Command) > 0 {
		t.Errorf("a folder: got %+v, %v; want an error, and no command", got, err)
	}
}

// TestGlob checks which files an EnvironmentFile= means.
func TestGlob(t *testing.T) {
	root := writeTree(t, map[string]string{
		"etc/k/a/env": "", "etc/k/b/env": "", "etc/k/.c/env": "", "etc/k/b/other": "", "etc/one": "", "etc/two": "",
	})
	for pattern, want := range map[string][]string{
		"/etc/one":       {"/etc/one"},
		"/etc/missing":   {"/etc/missing"},
		"/etc/k/*/env":   {"/etc/k/a/env", "/etc/k/b/env"},
		"/etc/k/*/e*":    {"/etc/k/a/env", "/etc/k/b/env"},
		"/etc/k/.*/e?v":  {"/etc/k/.c/env"},
		"/etc/[!t]*":     {"/etc/k", "/etc/one"},
		"/etc/missing/*": nil,
	} {
		var got []string
		for _, file := range systemd.Glob(root, pattern) {
			if _, err := os.Stat(root.Path(file)); err == nil || pattern == "/etc/missing" {
				got = append(got, file)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q; want %q", pattern, got, want)
		}
	}
}

// writeTree writes files below a new folder. A text that begins with "-> " is a link.
func writeTree(t *testing.T, files map[string]string) nodefile.Root {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, isLink := strings.CutPrefix(text, "-> "); isLink {
			err = os.Symlink(to, file)
		} else {
			err = os.WriteFile(file, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	return nodefile.Root(root)
}
