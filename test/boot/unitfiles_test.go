package boot

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// What is read of the files of an image's unit is what systemd has of them when that image runs: random units with
// drop-ins in all folders, overridden and emptied, under aliases, links to nothing among them.
func TestUnitFilesAsSystemd(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	const seed, units = 20261123, 40
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	folders := []string{"/etc/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system"}
	lines := []string{
		"ExecStart=", "ExecStart=/bin/true --a=1 $MORE", "ExecStart=-/bin/true --b 'two words' \"$X\" --c=100%%",
		"ExecStart=@/bin/true other --d \\\n  --e", "ExecStart=+/bin/true ${MORE} --f=\"x y\"",
		"Environment=", "Environment=A=1 \"B=two words\"", "Environment='MORE=--v=2 --w'", "Environment=A=3",
		"EnvironmentFile=", "EnvironmentFile=-/etc/default/one", "EnvironmentFile=/etc/two",
		"# a comment", "; another", "  Environment = C=3  ", "no setting at all",
		"ExecStart=/bin/true --g \\\n # between\n  --h",
	}
	names := []string{"10-a.conf", "20-b.conf", "05.conf", "99-z.conf", "off.txt"}

	var all []string
	for i := range units {
		unit := fmt.Sprintf([]string{"case%d.service", "a-case%d.service"}[r.IntN(2)], i)
		all = append(all, unit)
		text := func(n int) string {
			out := []string{"", "\ufeff"}[r.IntN(2)] + "[Unit]\nDescription=x\n[Service]\n"
			for range n {
				out += lines[r.IntN(len(lines))] + "\n"
			}
			return out
		}
		file := filepath.Join(folders[r.IntN(3)], unit)
		m.put(file, "[Service]\nType=oneshot\nExecStart=/bin/true --base\n"+strings.TrimPrefix(text(2), "\ufeff"))
		owners := []string{unit}
		if r.IntN(2) == 0 {
			alias := "alias-" + unit
			m.link(file, filepath.Join(folders[r.IntN(3)], alias))
			owners = append(owners, alias)
			if r.IntN(2) == 0 {
				all[i] = alias
			}
		}
		used := map[string]string{} // of two drop-ins with one name and different owners, systemd's choice varies
		for range r.IntN(6) {
			owner, name := owners[r.IntN(len(owners))], names[r.IntN(len(names))]
			if used[name] != "" && used[name] != owner {
				continue
			}
			used[name] = owner
			dropIn := filepath.Join(folders[r.IntN(3)], owner+".d", name)
			if r.IntN(6) == 0 && !m.Exists(dropIn) {
				m.link([]string{"/nosuch", "/dev/null", "/etc"}[r.IntN(3)], dropIn)
			} else if info, err := os.Lstat(m.Root + dropIn); err != nil || info.Mode().IsRegular() {
				m.put(dropIn, text(1+r.IntN(3)))
			}
		}
	}
	m.put("/usr/lib/systemd/system/a-.service.d/15.conf", "[Service]\nEnvironment=DASH=1\n")
	m.put("/etc/systemd/system/alias-.service.d/16.conf", "[Service]\nEnvironment=ALIAS=1\n")
	m.put("/etc/systemd/system/service.d/10-a.conf", "[Service]\nEnvironment=TYPE=10-a\n")
	m.put("/usr/lib/systemd/system/service.d/07.conf", "[Service]\nEnvironment=TYPE=07 SEVEN=1\n")
	m.Boot()

	for _, unit := range all {
		u, err := systemd.ReadUnitFile(nodefile.Root(m.Root), unit)
		if err != nil {
			t.Errorf("%s: got %v; want no error", unit, err)
			continue
		}
		got := u.Define(kubelet.Argv)
		show := func(property string) string {
			return strings.TrimSpace(m.Do("systemctl", "show", unit, "--value", "-p", property))
		}
		if state := show("LoadState"); state != "loaded" { // no ExecStart= is left
			continue
		}

		commands := strings.Split(show("ExecStart"), "\n")
		_, argv, _ := strings.Cut(commands[len(commands)-1], "argv[]=")
		argv, _, _ = strings.Cut(argv, " ; ")
		words := strings.Join(got.Command, " ")
		if len(got.Command) > 0 && strings.HasPrefix(argv, "other") { // systemd has argv[0] in place of the program
			argv = strings.Replace(argv, "other", "/bin/true", 1)
		}
		if words != argv {
			t.Errorf("%s: got the command %q; want %q", unit, words, argv)
		}
		var files []string
		for _, f := range got.EnvironmentFiles {
			files = append(files, fmt.Sprintf("%s (ignore_errors=%s)", f.Path, map[bool]string{true: "yes", false: "no"}[f.Optional]))
		}
		if want := show("EnvironmentFiles"); strings.Join(files, "\n") != want {
			t.Errorf("%s: got the files %q; want %q", unit, files, want)
		}
		last := map[string]string{}
		for _, v := range got.Environment {
			name, _, _ := strings.Cut(v, "=")
			last[name] = v
		}
		for name, v := range last {
			if want := show("Environment"); !strings.Contains(" "+strings.ReplaceAll(want, `"`, "")+" ", " "+v+" ") {
				t.Errorf("%s: got %s as %q; want it as in %q", unit, name, v, want)
			}
		}
	}
}
