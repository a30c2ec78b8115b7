package detectors

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/plugins/contract"
)

// packagesVariable are folders of packages, those of `make packages` and those that the template makes.
const packagesVariable = "PRELET_PACKAGES"

// TestPackages looks at what each package of a detector installs: the program, the lock of this very program, a
// drop-in for both units if it opens devices, and nothing else but what is known here; and the rpm the same as the
// deb.
func TestPackages(t *testing.T) {
	dirs := filepath.SplitList(os.Getenv(packagesVariable))
	if len(dirs) == 0 {
		t.Skip("this looks into packages: make e2e-detectors")
	}
	var names []string
	for _, dir := range dirs {
		debs, _ := filepath.Glob(dir + "/prelet-detector-*.deb")
		for _, deb := range debs {
			name, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(deb), "prelet-detector-"), "_")
			names = append(names, name)
			t.Run(name, func(t *testing.T) { inspect(t, name, deb) })
		}
	}
	t.Run("examples", func(t *testing.T) { examples(t, dirs) })
	want := []string{"one"} // of the template
	recipes, _ := filepath.Glob("../../packaging/detectors/*.yaml")
	for _, recipe := range recipes {
		want = append(want, strings.TrimSuffix(filepath.Base(recipe), ".yaml"))
	}
	slices.Sort(names)
	slices.Sort(want)
	if len(recipes) == 0 || !slices.Equal(names, want) {
		t.Errorf("there are packages of %q, want %q", names, want)
	}
}

// examples of sites that declare detectors fit those that ship: what they configure and read is checked along the
// packages' locks.
func examples(t *testing.T, dirs []string) {
	root := t.TempDir()
	for _, dir := range dirs {
		debs, _ := filepath.Glob(dir + "/prelet-detector-*.deb")
		for _, file := range debs {
			deb, err := readDeb(file)
			must(t, err)
			deb.unpack(t, root)
		}
	}
	for _, name := range []string{"gpu-training", "legacy-vm"} {
		out, err := exec.Command("../../bin/prelet", "validate", "--root", root, "--config", "../../examples/"+name).
			CombinedOutput()
		if err != nil || strings.Contains(string(out), "detector") {
			t.Errorf("%s: got %v; want no error and no \"detector\" in it:\n%s", name, err, out)
		}
	}
}

func inspect(t *testing.T, name, file string) {
	deb, err := readDeb(file)
	must(t, err)
	rpms, _ := filepath.Glob(filepath.Dir(file) + "/prelet-detector-" + name + "-[0-9]*.rpm")
	if len(rpms) != 1 {
		t.Fatalf("rpms: got %q; want 1 rpm", rpms)
	}
	rpm, err := readRPM(rpms[0])
	must(t, err)
	t.Logf("%s: %q", filepath.Base(file), slices.Sorted(maps.Keys(deb.files)))
	common := maps.Clone(deb.files)
	delete(common, "/usr/share/lintian/overrides/prelet-detector-"+name) // only Debian has it
	if same := maps.EqualFunc(
		common,
		rpm.files,
		func(a, b packaged) bool { return a.Mode == b.Mode && a.Owner == b.Owner && a.SHA256 == b.SHA256 },
	); !same {
		t.Errorf("deb and rpm differ: got %+v; want same", rpm.files)
	}
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	for a, want := range map[*archive]string{&deb: runtime.GOARCH, &rpm: arch} {
		if a.control["Package"] != "prelet-detector-"+name || a.control["Architecture"] != want ||
			a.control["Recommends"] != "prelet" {
			t.Errorf("it says of itself: got %v; want control[Package] %v, control[Architecture] %v and control[Recommends] \"prelet\"",
				a.control, "prelet-detector-"+name, want)
		}
	}

	root := t.TempDir()
	for path, f := range deb.files {
		if mode := map[bool]int64{true: 0o755, false: 0o644}[path == programs+"/"+name]; f.Owner != "root" ||
			f.Mode != mode {
			t.Errorf("%s: mode %o of %s; want Owner \"root\" and Mode %o", path, f.Mode, f.Owner, mode)
		}
		if !slices.ContainsFunc(places(), func(r *regexp.Regexp) bool { return r.MatchString(path) }) {
			t.Errorf("%s: want a path that the packages of detectors use", path)
		}
	}
	deb.unpack(t, root)
	// As prelet finds it.
	out, err := exec.Command("../../bin/prelet", "detectors", "list", "--root", root, "-o", "json").Output()
	must(t, err)
	var found struct {
		Detectors []struct {
			Name              string
			Installed, Locked bool
			Describe          contract.Description
		}
	}
	must(t, json.Unmarshal(out, &found))
	if l := found.Detectors; len(l) != 1 || l[0].Name != name || !l[0].Installed || !l[0].Locked {
		t.Fatalf("prelet does not find it whole: got %s; want l[0].Name %v, l[0].Installed and l[0].Locked", out, name)
	}
	said, err := exec.Command(root+programs+"/"+name, "describe", "-o", "json").Output()
	must(t, err)
	var now contract.Description
	must(t, json.Unmarshal(said, &now))
	if !reflect.DeepEqual(now, found.Detectors[0].Describe) {
		t.Errorf("the program says %+v, and the lock %+v; want %+v",
			now, found.Detectors[0].Describe, found.Detectors[0].Describe)
	}
	dropIns(t, name, now, deb)
}

// unpack writes the files of a deb below a root.
func (a archive) unpack(t *testing.T, root string) {
	t.Helper()
	for path, f := range a.files {
		must(t, errors.Join(
			os.MkdirAll(filepath.Dir(root+path), 0o755),
			os.WriteFile(root+path, f.text, os.FileMode(f.Mode)),
		))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}

func places() (out []*regexp.Regexp) {
	for _, s := range []string{
		`/usr/lib/prelet/detectors/[a-z0-9-]+`,
		`/usr/lib/prelet/detectors\.lock\.d/[a-z0-9-]+\.json`,
		`/usr/share/doc/prelet-detector-[a-z0-9-]+/(copyright|changelog\.gz)`,
		`/usr/share/lintian/overrides/prelet-detector-[a-z0-9-]+`,
		`/usr/lib/systemd/system/[a-z-]+\.service\.d/50-[a-z0-9-]+\.conf`,
		`/usr/lib/sysusers\.d/prelet-[a-z0-9-]+\.conf`,
	} {
		out = append(out, regexp.MustCompile("^"+s+"$"))
	}
	return out
}

// dropIns: the units of prelet that run detectors let one open devices only where its package says so, both of them
// alike.
func dropIns(t *testing.T, name string, d contract.Description, deb archive) {
	t.Helper()
	devices := len(d.Needs.Devices)+len(d.Wants.Devices) > 0
	for _, unit := range []string{"prelet.service", "prelet-apply.service"} {
		f, there := deb.files["/usr/lib/systemd/system/"+unit+".d/50-detector-"+name+".conf"]
		allows := regexp.MustCompile(`(?m)^DeviceAllow=char-[a-z*-]+ rw$`).Match(f.text) &&
			bytes.Contains(f.text, []byte("\nPrivateDevices=no\n"))
		if there != devices || allows != devices {
			t.Errorf("it asks for devices: got %t; %s has a drop-in: %t, with DeviceAllow=: %t; want there %t and allows %t",
				devices, unit, there, allows, devices, devices)
		}
	}
	if len(d.Wants.Groups) == 0 {
		return
	}
	group := d.Wants.Groups[0]
	users, server := deb.files["/usr/lib/sysusers.d/"+group+".conf"].text, deb.files["/usr/lib/systemd/system/ovsdb-server.service.d/50-"+group+".conf"].text
	if !strings.Contains(string(users), "g "+group+" -\n") ||
		!strings.Contains(string(server), "chgrp "+group+" "+d.Needs.Sockets[0]) {
		t.Errorf("want the group %s, and that it owns the socket, got\n%s\n%s", group, users, server)
	}
	for line := range strings.Lines(string(server)) {
		if strings.HasPrefix(line, "Exec") && !strings.HasPrefix(line, "ExecStartPost=-") {
			t.Errorf("got %s, want ExecStartPost=-, so that ovsdb-server does not fail with it", line)
		}
	}
	if !strings.Contains(deb.control["postinst"], "systemd-sysusers "+group+".conf") {
		t.Errorf("the group is not made when it is installed: got %s; want text with %q",
			deb.control["postinst"], "systemd-sysusers "+group+".conf")
	}
}
