package deptest

import (
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/osfile"
)

// TestModulesScript holds that the script that writes the modules of Kubernetes leaves them as they were after a
// failure, here for lack of a network.
func TestModulesScript(t *testing.T) {
	script := osfile.Read(t, "../../test/kube/modules.sh")

	dir := t.TempDir()
	before := map[string]string{"modules.sh": string(script), "go.mod": "module example.com/kube\n", "go.sum": "a sum\n"}
	for name, text := range before {
		osfile.Write(t, filepath.Join(dir, name), text, 0o644)
	}
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(dir, "modules.sh"), "new")
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=mod", "GOMODCACHE="+t.TempDir(), "TMPDIR="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("modules.sh without a network: got status 0; want another one:\n%s", out)
	}

	for name, want := range before {
		if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != want {
			t.Errorf("%s after a failure: got %q, %v; want %q", name, got, err, want)
		}
	}
}

// TestGoldenImageChecksFirst holds that the script that builds an image names all missing packages before it begins.
func TestGoldenImageChecksFirst(t *testing.T) {
	bash, err := exec.LookPath("bash")
	must(t, err)

	dir := t.TempDir()
	script := "../../packaging/image/mmdebstrap/build.sh"
	cmd := exec.CommandContext(t.Context(), bash, script, filepath.Join(dir, "golden.raw"), "1.37.1", dir)
	cmd.Env = []string{"PATH=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	if want := "missing programs: apt-get install mmdebstrap"; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("build.sh without its programs: got %v and\n%s\nwant an error and %q", err, out, want)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files after that: got %v, %v; want none", left, err)
	}
}

// TestFolderWithSpaces runs targets of the Makefile in a folder with a space in its name, with a `go` that only notes
// its arguments and variables: no path is taken apart.
func TestFolderWithSpaces(t *testing.T) {
	for _, program := range []string{"bash", "make"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	outer := t.TempDir()
	folder := filepath.Join(outer, "a b")
	noted := filepath.Join(outer, "noted")
	stub := "#!/bin/sh\nprintf '%s\\n' \"$@\" \"$GOWORK\" \"$TMPDIR\" \"$PRELET_BOOT_CACHE\" \"$PRELET_NFD_WORKER\" >>\"$NOTED\"\n" +
		"[ \"$*\" != 'env GOVERSION' ] || echo go9.9.9\n"
	modules := []string{"tools/kubetables", "tools/peers/nfd", "plugins", "examples/detector-template", "editors/prelet-ls"}
	for _, dir := range append(modules, "test/boot", "test/detectors", "test/faults", "tmp", "bin") {
		must(t, os.MkdirAll(filepath.Join(folder, dir), 0o755))
	}
	files := map[string]string{"bin/go": stub, "test/boot/image.sh": "#!/bin/sh\n", "tools/detectors.sh": "#!/bin/sh\n"}
	for _, name := range strings.Fields("Makefile go.mod tools/fast.sh tools/fuzz.sh tools/version.sh tools/package.sh " +
		"tools/size.sh") {
		text := osfile.Read(t, "../../"+name)
		files[name] = string(text)
	}
	for name, text := range files {
		osfile.Write(t, filepath.Join(folder, name), text, 0o755)
	}

	targets := strings.Fields("build language-server test test-kubetables test-root lint generate fuzz-seeds vulnerabilities " +
		"race-all faults sweep kubetables kubediff e2e-nfd e2e-hostile")
	for _, target := range targets {
		cmd := exec.CommandContext(t.Context(), "make", target, "OLD=1", "NEW=2", "--old-file=packages", "--old-file=detectors")
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "PATH="+folder+"/bin:"+os.Getenv("PATH"), "TMPDIR="+folder+"/tmp", "NOTED="+noted,
			"MAKEFLAGS=", "PACKAGES=./...", "GOFLAGS=", "PRELET_KUBE_CACHE=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("make %s in a folder with a space: got %v, want none:\n%s", target, err, out)
		}
	}
	text := osfile.Read(t, noted)
	for _, word := range strings.Split(string(text), "\n") {
		if strings.HasSuffix(word, filepath.Join(outer, "a")) {
			t.Errorf("argument or variable of go: got %q, want the path in one piece", word)
		}
	}
	if !strings.Contains(string(text), "-modfile="+folder+"/tools/lint/go.mod\n") {
		t.Errorf("arguments of go: got\n%s\nwant the module of the linter among them", text)
	}
}

// TestPackageVersion holds that a build on the way to a version is older than it for dpkg, rpm and systemd-sysupdate, and
// that prelet itself keeps the semantic version.
func TestPackageVersion(t *testing.T) {
	packaged := func(version string) string {
		out, err := exec.CommandContext(t.Context(), "sh", "../../tools/version.sh", "package", version).Output()
		must(t, err)

		return strings.TrimSpace(string(out))
	}
	ordered := []string{"0.1.9", "0.2.0+dev.g2a477c6ce1", "0.2.0", "0.2.1-rc.1", "0.2.1"}
	for i, older := range ordered[:len(ordered)-1] {
		a, b := packaged(older), packaged(ordered[i+1])
		if _, err := exec.LookPath("dpkg"); err == nil {
			if out, err := exec.CommandContext(t.Context(), "dpkg", "--compare-versions", a, "lt", b).CombinedOutput(); err != nil {
				t.Errorf("dpkg: got %s not older than %s (%v %s), want older", a, b, err, out)
			}
		}
		if _, err := exec.LookPath("rpm"); err == nil {
			lua := "%{lua:print(rpm.vercmp('" + a + "', '" + b + "'))}"
			if out, err := exec.CommandContext(t.Context(), "rpm", "--eval", lua).Output(); strings.TrimSpace(string(out)) != "-1" {
				t.Errorf("rpm: got %q (%v) for %s and %s, want -1", out, err, a, b)
			}
		}
		if _, err := exec.LookPath("systemd-analyze"); err == nil {
			compare := exec.CommandContext(t.Context(), "systemd-analyze", "compare-versions", a, "lt", b)
			if out, err := compare.CombinedOutput(); err != nil {
				t.Errorf("systemd: got %s not older than %s (%v %s), want older", a, b, err, out)
			}
		}
	}
}

// TestReleaseNames holds that the files which systemd-sysupdate sorts by their names have the version of packages.
func TestReleaseNames(t *testing.T) {
	script := osfile.Read(t, "../../tools/release.sh")
	names := regexp.MustCompile(`\$dist/prelet-\$(\w+)-\$\{systemd_arch`).FindAllStringSubmatch(string(script), -1)
	if len(names) == 0 {
		t.Error("tools/release.sh: got no system extension, want one")
	}
	for _, name := range names {
		if name[1] != "packaged" {
			t.Errorf("tools/release.sh: got %s, want the version of packages in it: $packaged", name[0])
		}
	}
}

// TestMaintainer holds that the address of the maintainers is in one place, and can be one of a person.
func TestMaintainer(t *testing.T) {
	text := osfile.Read(t, "../../packaging/maintainer")
	address, err := mail.ParseAddress(strings.TrimSpace(string(text)))
	if err != nil || address.Name == "" {
		t.Fatalf("packaging/maintainer: got %q, %v; want NAME <ADDRESS>", text, err)
	}
	for _, reserved := range []string{".invalid", ".example", ".test", ".localhost", "@localhost", "example.com"} {
		if strings.HasSuffix(address.Address, reserved) {
			t.Errorf("packaging/maintainer: got %s, want a domain that is not reserved", address.Address)
		}
	}

	files, err := filepath.Glob("../../packaging/*/*.yaml")
	must(t, err)
	packages := 0
	for _, file := range append(files, "../../tools/package.sh", "../../tools/packages.sh") {
		text := osfile.Read(t, file)
		if strings.Contains(string(text), "\nmaintainer:") {
			packages++
			if !strings.Contains(string(text), "\nmaintainer: ${MAINTAINER}\n") {
				t.Errorf("%s: got a maintainer of its own, want ${MAINTAINER}", file)
			}
		}
		if mailAddress.Match(text) {
			t.Errorf("%s: got %s, want addresses in packaging/maintainer only", file, mailAddress.Find(text))
		}
	}
	if packages < 7 {
		t.Errorf("configurations of packages: got %d, want 7 or more", packages)
	}
}

var mailAddress = regexp.MustCompile(`<[^<>@\s]+@[^<>@\s]+>`)

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
