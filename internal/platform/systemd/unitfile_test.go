package systemd_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/internal/testing/script"
)

// TestUnitFileDropIns plays the scripts of testdata/dropins.txtar, each on a folder of its own.
func TestUnitFileDropIns(t *testing.T) {
	folders := strings.NewReplacer("etc/", "etc/systemd/system/", "usr/", "usr/lib/systemd/system/")
	for _, s := range script.Load(t, "testdata/dropins.txtar") {
		t.Run(s.Name, func(t *testing.T) {
			root := nodefile.Root(t.TempDir())
			disk := script.Disk{T: t, Path: func(name string) string { return root.Path("/" + folders.Replace(name)) }}
			environment := func(a []string) (string, error) {
				u, err := systemd.ReadUnitFile(root, a[0])
				var lines []string
				for _, line := range u.Settings["Environment"] {
					lines = append(lines, line.Value)
				}

				return strings.Join(lines, " "), err
			}
			script.New(t, script.Node{
				Name:     "dropins",
				Commands: disk.Commands(),
				Facts:    script.Merge(disk.Facts(), map[string]script.Fact{"environment": {Args: 1, Get: environment}}),
				Replace:  strings.NewReplacer(`\r`, "\r", `\ufeff`, "\ufeff").Replace,
			}).Play(s.Lines)
		})
	}
}

// TestSpecifiers replaces the specifiers of a unit's lines that its name decides. A unit that cannot be read starts
// nothing.
func TestSpecifiers(t *testing.T) {
	root := writeTree(t, map[string]string{
		"etc/systemd/system/kube-let@a.service": "[Service]\nExecStart=/usr/bin/kubelet %n %N %p %i 7%% %%H %H\n" +
			"EnvironmentFile=-/etc/default/%p\nEnvironmentFile=/etc/%N\nWorkingDirectory=-/var/lib/%p\n",
		"etc/systemd/system/home.service":    "[Service]\nExecStart=/usr/bin/kubelet\nWorkingDirectory=~\n",
		"etc/systemd/system/machine.service": "[Service]\nExecStart=/usr/bin/kubelet\nWorkingDirectory=/srv/%H\n",
		"etc/systemd/system/bad.service/x":   "a folder",
	})
	u, err := systemd.ReadUnitFile(root, "kube-let@a.service")
	must(t, err)

	unit := u.Define(strings.Fields)
	want := "/usr/bin/kubelet kube-let@a.service kube-let@a kube-let a 7% %H ${%H}"
	if got := strings.Join(unit.Command, " "); got != want {
		t.Errorf("command: got %s; want %s", got, want)
	}
	if unit.Folder != "/var/lib/kube-let" {
		t.Errorf("folder: got %q; want /var/lib/kube-let", unit.Folder)
	}
	for _, name := range []string{"home.service", "machine.service"} { // only the start decides
		u, err := systemd.ReadUnitFile(root, name)
		if got := u.Define(strings.Fields).Folder; err != nil || got != "" {
			t.Errorf("folder of %s: got %q, %v; want none", name, got, err)
		}
	}
	files := unit.EnvironmentFiles
	if len(files) != 2 || files[0].Path != "/etc/default/kube-let" || files[1].Path != "/etc/kube-let@a" {
		t.Errorf("environment files: got %+v; want /etc/default/kube-let and /etc/kube-let@a", files)
	}
	if !unit.RequiresFile("/etc/kube-let@a") || unit.RequiresFile("/etc/default/kube-let") {
		t.Errorf("files that must exist: got %+v; want only /etc/kube-let@a", files)
	}

	bad, err := systemd.ReadUnitFile(root, "bad.service")
	if got := bad.Define(strings.Fields); err == nil || len(got.Command) > 0 {
		t.Errorf("a folder: got %+v, %v; want an error, and no command", got, err)
	}
}

// TestGlob checks which files an EnvironmentFile= means.
func TestGlob(t *testing.T) {
	root := writeTree(t, map[string]string{
		"etc/k/a/env": "", "etc/k/b/env": "", "etc/k/.c/env": "", "etc/k/b/other": "", "etc/one": "", "etc/two": "",
	})
	for pattern, want := range table.YAML[map[string][]string](t, `
/etc/one: [/etc/one]
/etc/missing: [/etc/missing]
/etc/k/*/env: [/etc/k/a/env, /etc/k/b/env]
/etc/k/*/e*: [/etc/k/a/env, /etc/k/b/env]
/etc/k/.*/e?v: [/etc/k/.c/env]
/etc/[!t]*: [/etc/k, /etc/one]
/etc/missing/*: []
`) {
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
	osfile.WriteTree(t, root, files)

	return nodefile.Root(root)
}
