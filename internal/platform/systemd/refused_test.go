package systemd_test

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// TestLiteralCommand checks that a colon before the program leaves variables as they are, and what else is before it.
func TestLiteralCommand(t *testing.T) {
	for line, want := range table.YAML[map[string]struct {
		Program   string
		IsLiteral bool
	}](t, `
/bin/a $X: {program: /bin/a}
:/bin/a $X: {program: /bin/a, isLiteral: true}
-:/bin/a $X: {program: /bin/a, isLiteral: true}
:-+/bin/a $X: {program: /bin/a, isLiteral: true}
'!!/bin/a $X': {program: /bin/a}
'@:/bin/a b $X': {program: /bin/a, isLiteral: true}
`) {
		root := writeTree(t, map[string]string{"etc/systemd/system/k.service": "[Service]\n\nExecStart=" + line + "\n"})
		file, err := systemd.ReadUnitFile(root, "k.service")
		must(t, err)
		u := file.Define(kubelet.Argv)
		if u.Command[0] != want.Program || u.Literal != want.IsLiteral || u.Refusal != "" {
			t.Errorf("%s: got %q, %v, %q; want %q, %v and no refusal", line, u.Command[0], u.Literal, u.Refusal,
				want.Program, want.IsLiteral)
		}
		if want := "/etc/systemd/system/k.service:3"; u.CommandAt != want {
			t.Errorf("%s: got the place %s; want %s", line, u.CommandAt, want)
		}
	}
}

// TestNoCommandIsPlaced checks that a unit without a command is refused at the line of the drop-in that took it away.
func TestNoCommandIsPlaced(t *testing.T) {
	const at = "/etc/systemd/system/k.service.d/a.conf:"
	for lines, want := range map[string]string{
		"ExecStart=":                          at + "2: it has no ExecStart= but this empty one: write one below it",
		"ExecStart=\nExecStart=/bin/a --b=%Q": at + "3: it has no ExecStart=: %Q is not a specifier of systemd",
		"ExecStart=\nExecStart=bin/a":         at + "3: it has no ExecStart=: bin/a is neither",
		"ExecStart=\nExecStart=/bin/b":        "",
		"ExecStart=/bin/b %Q":                 "",
	} {
		root := writeTree(t, map[string]string{
			"etc/systemd/system/k.service":          "[Service]\nExecStart=/bin/a\n",
			"etc/systemd/system/k.service.d/a.conf": "[Service]\n" + lines + "\n",
		})
		file, err := systemd.ReadUnitFile(root, "k.service")
		must(t, err)
		got := file.Define(kubelet.Argv).Refusal
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%q: got %q; want %q", lines, got, want)
		}
	}
}

// TestFindMissingFile checks which environment files must exist before the unit starts.
func TestFindMissingFile(t *testing.T) {
	for line, isMissing := range table.YAML[map[string]bool](t, `
/etc/nosuch: true
-/etc/nosuch: false
/etc/there: false
/etc/planned: false
/etc/gone: true
/run/nosuch: false
/etc/%H: false
/etc/no*: true
/etc/the*: false
/etc/%n: true
`) {
		root := writeTree(t, map[string]string{
			"etc/systemd/system/k.service":          "[Service]\nEnvironmentFile=/etc/first\nExecStart=/bin/a\n",
			"etc/systemd/system/k.service.d/a.conf": "[Service]\nEnvironmentFile=\nEnvironmentFile=" + line + "\n",
			"etc/there":                             "", "etc/gone": "",
		})
		planned := map[string][]byte{"/etc/planned": {}, "/etc/gone": nil}
		u, err := systemd.ReadPlannedUnit(root, "k.service", planned)
		must(t, err)
		file, place := u.FindMissingFile(root, planned)
		if want := "/etc/systemd/system/k.service.d/a.conf:3"; (file != "") != isMissing || isMissing && place != want {
			t.Errorf("%s: got %q at %q; want that one is missing: %t, at %s", line, file, place, isMissing, want)
		}
	}
}

// TestRefusedUnits compares which random units the model refuses with `systemd-analyze verify`, where that exists:
// prefixes, quotes, continued lines, commands with ;, specifiers, types, and drop-ins with and without a reset.
func TestRefusedUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze")
	}
	const seed, units = 20261129, 150
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	refused := 0

	for range units {
		command := func() string {
			return pick("", "", "", "-", ":", "@", "+", "!", "!!", "++", "-:", ":@", "|:")[0:] +
				pick("/bin/true", "/bin/true", "/bin/true", "true", "bin/true", "") + " " +
				pick("a", "--x=%%", "%n", "%H", "%i", "%Z", "%1", "'a b'", "\"a", "a ; /bin/true", "a ';' b", "a \\; b",
					"a \\\n  b", "$X ${Y}", "$$X", "a\\x20b")
		}
		text := "[Service]\n" + pick("", "", "Type=simple\n", "Type=oneshot\n")
		for range 1 + r.IntN(5)/4 {
			text += "ExecStart=" + command() + "\n"
		}
		files := map[string]string{"etc/systemd/system/k.service": text}
		for _, name := range []string{"10.conf", "20.conf"} {
			if r.IntN(3) == 0 {
				files["etc/systemd/system/k.service.d/"+name] = "[Service]\n" + pick("ExecStart=\n", "ExecStart=\n", "", "Environment=A=%Z\n") +
					pick("ExecStart="+command()+"\n", "Environment=X=1\n", "EnvironmentFile=-/nosuch\n")
			}
		}
		root := writeTree(t, files)
		file, err := systemd.ReadUnitFile(root, "k.service")
		must(t, err)
		got := file.Define(kubelet.Argv).Refusal

		cmd := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", filepath.Join(string(root), "etc/systemd/system/k.service"))
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		out, _ := cmd.CombinedOutput() // its status differs between versions
		said := string(out)
		if strings.Contains(said, "Failed to") && !strings.Contains(said, "specifiers") || strings.Contains(text, "|:") {
			continue // it cannot run here, or only newer versions know it
		}
		want := strings.Contains(said, "bad unit file setting")
		if want {
			refused++
		}
		if (got != "") != want {
			t.Errorf("got %q; want a refusal: %v\n%s\n%v", got, want, said, files)
		}
	}
	t.Logf("%d units with seed %d, %d of them refused", units, seed, refused)
}
