package packages

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/test/matrix"
)

const (
	older = "1.0.0"
	newer = "1.1.0"

	// wanted is set by make e2e-packages to the suites of Debian in which debs are installed: without it these tests are
	// skipped, with it they need their roots and tools.
	wanted = "PRELET_PACKAGES"
)

func requireWanted(t *testing.T) {
	t.Helper()
	if os.Getenv(wanted) == "" {
		t.Skip("make e2e-packages runs this test")
	}
}

// What systemctl is called with. Nothing else may be: a start, stop or restart could end a kubelet or shut the gate.
const (
	preset  = "preset prelet.service prelet-verify.service"
	reload  = "daemon-reload"
	disable = "--no-reload disable prelet.service prelet-verify.service prelet-boot-check.service prelet-check.timer " +
		"prelet-site.service"
)

// What prelet, its site's author and the kubelet have on a node. A package must not change it.
var nodeFiles = map[string]string{
	"/run/prelet/kubelet.env":                       "KUBELET_EXTRA_ARGS=\n",
	"/run/prelet/status.json":                       "{}\n",
	"/var/lib/prelet/generations/1/state.json":      "{}\n",
	"/var/lib/prelet/generations/1/files/config":    "the file before prelet\n",
	"/etc/prelet/site.hcl":                          "# the operator's\n",
	"/etc/systemd/system/prelet.service.d/own.conf": "[Service]\nNice=1\n",
	"/etc/kubernetes/kubelet.conf":                  "the identity\n",
	"/var/lib/kubelet/config.yaml":                  "maxPods: 110\n",
}

var nodeFolders = []string{
	"/run/prelet", "/var/lib/prelet", "/etc/prelet", "/etc/systemd/system/prelet.service.d", "/etc/kubernetes",
	"/var/lib/kubelet",
}

var links = []string{
	"/etc/systemd/system/multi-user.target.wants/prelet.service",
	"/etc/systemd/system/kubelet.service.wants/prelet-verify.service",
}

// installed are files of both packages, with their modes.
var installed = map[string]os.FileMode{
	"/usr/bin/prelet":                                               0o755,
	"/usr/lib/prelet/prelet-detect":                                 0o755,
	"/usr/lib/prelet/prelet-detector-check":                         0o755,
	"/usr/lib/prelet/site":                                          os.ModeDir | 0o755,
	"/usr/lib/prelet/detectors":                                     os.ModeDir | 0o755,
	"/usr/lib/prelet/detectors.lock.d":                              os.ModeDir | 0o755,
	"/etc/prelet":                                                   os.ModeDir | 0o755,
	"/usr/lib/systemd/system/prelet.service":                        0o644,
	"/usr/lib/systemd/system/prelet-apply.service":                  0o644,
	"/usr/lib/systemd/system/prelet-verify.service":                 0o644,
	"/usr/lib/systemd/system/prelet-boot-check.service":             0o644,
	"/usr/lib/systemd/system/prelet-check.service":                  0o644,
	"/usr/lib/systemd/system/prelet-check.timer":                    0o644,
	"/usr/lib/systemd/system/prelet-fallback.service":               0o644,
	"/usr/lib/systemd/system/prelet-site.service":                   0o644,
	"/usr/lib/prelet/fallback.sh":                                   0o755,
	"/usr/lib/systemd/system/kubelet.service.d/05-prelet-gate.conf": 0o644,
	"/usr/lib/systemd/system/boot-complete.target.d/50-prelet.conf": 0o644,
	"/usr/lib/systemd/system-preset/90-prelet.preset":               0o644,
	"/usr/lib/systemd/catalog/prelet.catalog":                       0o644,
	"/usr/lib/sysusers.d/prelet.conf":                               0o644,
	"/usr/lib/tmpfiles.d/prelet.conf":                               0o644,
	"/usr/share/bash-completion/completions/prelet":                 0o644,
	"/usr/share/zsh/site-functions/_prelet":                         0o644,
	"/usr/share/fish/vendor_completions.d/prelet.fish":              0o644,
	"/usr/share/man/man5/prelet.5.gz":                               0o644,
	"/usr/share/prelet/greenboot/50-prelet.sh":                      0o755,
	"/usr/share/man/man8/prelet.8.gz":                               0o644,
	"/usr/share/man/man8/prelet-run.8.gz":                           0o644,
	"/usr/share/doc/prelet/copyright":                               0o644,
	"/usr/share/doc/prelet/changelog.gz":                            0o644,
	"/var/lib/prelet":                                               os.ModeDir | 0o700,
}

// TestContents: outside of /usr/share the package has the files of installed, and no other. Pages are in prelet-doc,
// those for people who change prelet in neither.
func TestContents(t *testing.T) {
	requireWanted(t)
	listing := output(t, "sh", "-c", `dpkg-deb --fsys-tarfile "$1" | tar -t`, "sh", buildPackages(t, older).deb)

	for _, path := range strings.Fields(listing) {
		path = strings.TrimPrefix(path, ".")
		_, isKnown := installed[strings.TrimSuffix(path, "/")]
		isFolder := strings.HasSuffix(path, "/")
		isDocument := strings.HasPrefix(path, "/usr/share/") && !strings.HasPrefix(path, "/usr/share/doc/")
		if !isKnown && !isFolder && !isDocument {
			t.Errorf("the deb has %s, which is not one of prelet's files", path)
		}
	}

	docs, _ := filepath.Glob(filepath.Dir(buildPackages(t, older).deb) + "/prelet-doc_*_all.deb")
	rpms, _ := filepath.Glob(filepath.Dir(buildPackages(t, older).deb) + "/prelet-doc-*.noarch.rpm")
	if len(docs) != 1 || len(rpms) != 1 {
		t.Fatalf("packages of pages: got %q, %q; want one deb and one rpm", docs, rpms)
	}
	for _, listing := range []string{output(t, "dpkg-deb", "--contents", docs[0]), output(t, "rpm", "-qlp", rpms[0])} {
		for _, page := range []string{"copyright", "changelog.gz", "README.md", "CHANGELOG.md", "docs/operators/README.md"} {
			if !strings.Contains(listing, "/usr/share/doc/prelet-doc/"+page+"\n") {
				t.Errorf("prelet-doc: got\n%s\nwant also %s", listing, page)
			}
		}
		if strings.Contains(listing, "/develop/") || strings.Contains(listing, "/bin/") {
			t.Errorf("prelet-doc: got\n%s\nwant only pages for users", listing)
		}
	}
}

// TestDebian takes a node of each suite through the life of its package.
func TestDebian(t *testing.T) {
	requireWanted(t)
	for _, suite := range strings.Fields(os.Getenv(wanted)) {
		t.Run(suite, func(t *testing.T) {
			lives := map[string]func(*testing.T, *root){"life": testDeb, "without-proc": testWithoutProc}
			ran := &matrix.Run{}
			for name, live := range lives {
				t.Run(name, func(t *testing.T) {
					ran.Watch(t)
					live(t, newRoot(t, suite))
				})
			}
			if ran.Count() < len(lives) {
				return // a part was selected
			}
			if err := ran.Write(".cache", ".cache/"+suite); err != nil {
				t.Error(err)
			}
		})
	}
}

// testDeb installs, upgrades, removes and purges the package.
func testDeb(t *testing.T, r *root) {
	old, next := copyTo(r, buildPackages(t, older).deb), copyTo(r, buildPackages(t, newer).deb)

	if r.hasOldSystemd() {
		says := r.run("sh", "-c", "! dpkg --install $0 2>&1", old)
		if !strings.Contains(says, "prelet depends on systemd (>= 249)") {
			t.Errorf("dpkg with an older systemd: got %s, want the version that prelet needs", says)
		}
		r.dpkg("--purge", "prelet")
		r.calls()
	}
	r.dpkg("--install", old)
	r.checkCalls("install", preset, reload)
	r.checkInstalled(older)
	r.checkLinks("install", true)

	before := r.makeNode()
	for _, step := range []struct{ name, deb, version string }{
		{"reinstall", old, older},
		{"upgrade", next, newer},
		{"downgrade", old, older},
	} {
		r.dpkg("--install", step.deb)
		r.checkCalls(step.name, reload, reload)
		r.checkInstalled(step.version)
		r.checkNode(step.name, before)
	}

	r.run("systemctl", "disable", "prelet-verify.service")
	r.calls()
	r.dpkg("--install", next)
	r.checkCalls("upgrade of a disabled unit", reload, reload)
	if r.exists(links[1]) {
		t.Errorf("upgrade of a disabled unit: got it enabled, want it disabled")
	}
	r.run("systemctl", "enable", "prelet-verify.service")
	r.calls()

	r.dpkg("--remove", "prelet")
	r.checkCalls("remove", reload)
	r.checkRemoved("remove")
	r.checkNode("remove", before)

	r.dpkg("--install", old)
	r.checkCalls("install after a removal", reload)
	r.checkInstalled(older)
	r.checkLinks("install after a removal", true)
	r.checkNode("install after a removal", before)

	r.dpkg("--purge", "prelet")
	r.checkCalls("purge", reload, reload)
	r.checkRemoved("purge")
	r.checkLinks("purge", false)
	for path := range before {
		isPreletState := strings.HasPrefix(path, "/var/lib/prelet/") || strings.HasPrefix(path, "/run/prelet/")
		if isPreletState {
			delete(before, path)
		}
	}
	r.run("mkdir", "/run/prelet", "/var/lib/prelet") // fails if they are still there
	r.checkNode("purge", before)
}

// TestRPM does the same with Debian's rpm in a root of Debian 12. Dependencies are not checked, because its systemd is
// not in rpm's database.
func TestRPM(t *testing.T) {
	r := newRoot(t, "bookworm")
	old, next := buildPackages(t, older).rpm, buildPackages(t, newer).rpm

	r.rpm("--install", old)
	r.checkCalls("install", preset, reload)
	r.checkInstalled(older)
	r.checkLinks("install", true)

	before := r.makeNode()
	for _, step := range []struct {
		name    string
		args    []string
		version string
	}{
		{"reinstall", []string{"--upgrade", "--replacepkgs", old}, older},
		{"upgrade", []string{"--upgrade", next}, newer},
		{"downgrade", []string{"--upgrade", "--oldpackage", old}, older},
	} {
		r.rpm(step.args...)
		r.checkCalls(step.name, reload, reload)
		r.checkInstalled(step.version)
		r.checkNode(step.name, before)
		r.checkLinks(step.name, true)
	}

	r.rpm("--erase", "prelet")
	r.checkCalls("erase", disable, reload)
	r.checkRemoved("erase")
	r.checkLinks("erase", false)
	r.checkNode("erase", before)
}

// TestRPMDependencies: rpm refuses a package in a root without what its scripts run, which would fail after the files are
// there, and with that it installs, upgrades and erases it with all checks.
func TestRPMDependencies(t *testing.T) {
	r := newRoot(t, "bookworm")
	old, next := buildPackages(t, older).rpm, buildPackages(t, newer).rpm
	rpm := func(args ...string) (string, error) {
		out, err := exec.Command("rpm", append([]string{"--root", r.dir}, args...)...).CombinedOutput()
		return string(out), err
	}
	provide := func(name, version string) {
		t.Helper()
		dir := t.TempDir()
		text := "name: stub-" + strings.ReplaceAll(strings.Trim(name, "/"), "/", "-") + "\narch: all\nversion: " + version +
			"\nprovides: ['" + name + " = " + version + "']\n"
		osfile.Write(t, filepath.Join(dir, "nfpm.yaml"), text, 0o600)
		build(t, dir, nil, absolute(t, "../../bin/nfpm"), "package", "--packager", "rpm", "--target", "stub.rpm")
		if out, err := rpm("--install", filepath.Join(dir, "stub.rpm")); err != nil {
			t.Fatalf("rpm --install of a stand-in for %s: got %v, want no error\n%s", name, err, out)
		}
	}

	out, err := rpm("--install", old)
	for _, want := range []string{"/bin/sh is needed by prelet-1", "coreutils is needed", "systemd >= 249 is needed"} {
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("in an empty root: got %v and\n%s\nwant it refused with %q", err, out, want)
		}
	}
	if r.exists("/usr/bin/prelet") {
		t.Error("in an empty root: got /usr/bin/prelet, want nothing installed")
	}

	provide("/bin/sh", "5.2")
	provide("coreutils", "9.1")
	provide("systemd", "248")
	if out, err := rpm("--install", old); err == nil || !strings.Contains(out, "systemd >= 249 is needed") {
		t.Errorf("with systemd 248: got %v and\n%s\nwant it refused", err, out)
	}
	if out, err := rpm("--erase", "stub-systemd"); err != nil {
		t.Fatal(err, out)
	}
	provide("systemd", "252")
	for _, args := range [][]string{{"--install", old}, {"--upgrade", next}, {"--verify", "prelet"}, {"--erase", "prelet"}} {
		if out, err := rpm(args...); err != nil || strings.Contains(out, "scriptlet failed") { // then it only warns
			t.Errorf("rpm %s: got %v and\n%s\nwant no error", strings.Join(args, " "), err, out)
		}
	}
	r.checkRemoved("erase")
}

// testWithoutProc installs the package in the root of an image, where nothing is mounted.
func testWithoutProc(t *testing.T, r *root) {
	if r.hasOldSystemd() {
		t.Skip("systemd-sysusers needs /proc")
	}
	deb := copyTo(r, buildPackages(t, older).deb)
	must(t, syscall.Unmount(r.dir+"/proc", 0))

	r.dpkg("--install", deb)
	r.checkCalls("install without /proc", preset, reload)
	r.checkLinks("install without /proc", true)
	if got := r.read("/var/lib/dpkg/info/prelet.list"); !strings.Contains(got, "/usr/bin/prelet\n") {
		r.t.Errorf("installed files: got %s, want /usr/bin/prelet", got)
	}
}

// copyTo copies a package into the root and returns its path there.
func copyTo(r *root, deb string) string {
	r.t.Helper()
	content := osfile.Read(r.t, deb)
	r.write("/"+filepath.Base(deb), string(content))

	return "/" + filepath.Base(deb)
}

// hasOldSystemd reports whether the systemd is older than what the package needs: such a root is there to find what older
// versions lack, and gets the package by force.
func (r *root) hasOldSystemd() bool {
	r.t.Helper()
	version, err := matrix.Systemd(r.dir)
	must(r.t, err)

	return version < "249"
}

func (r *root) dpkg(args ...string) {
	r.t.Helper()
	r.run("dpkg", append([]string{"--force-confold", "--force-depends-version"}, args...)...)
}

// rpm runs the rpm of this machine on the root, in which it runs the scripts of the package.
func (r *root) rpm(args ...string) {
	r.t.Helper()
	out, err := exec.Command("rpm", append([]string{"--root", r.dir, "--nodeps"}, args...)...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("rpm %s: got %v, want no error\n%s", strings.Join(args, " "), err, out)
	}
}

// makeNode writes the files of a node that runs, and returns its state.
func (r *root) makeNode() map[string]string {
	r.t.Helper()
	for path, content := range nodeFiles {
		r.write(path, content)
	}

	return r.state(nodeFolders...)
}

func (r *root) checkNode(step string, want map[string]string) {
	r.t.Helper()
	if d := diff(r.state(nodeFolders...), want); d != "" {
		r.t.Errorf("files of the node after %s: %s", step, d)
	}
}

func (r *root) checkCalls(step string, want ...string) {
	r.t.Helper()
	if got := r.calls(); !slices.Equal(got, want) {
		r.t.Errorf("calls of systemctl by %s: got %q, want %q", step, got, want)
	}
}

func (r *root) checkLinks(step string, want bool) {
	r.t.Helper()
	for _, link := range links {
		if got := r.exists(link); got != want {
			r.t.Errorf("%s exists after %s: got %t, want %t", link, step, got, want)
		}
	}
}

func (r *root) checkInstalled(version string) {
	r.t.Helper()
	for path, want := range installed {
		info, err := os.Lstat(filepath.Join(r.dir, path))
		if err != nil || info.Mode() != want {
			r.t.Errorf("%s of %s: got %v, %v; want mode %v", path, version, info, err, want)
		}
	}

	r.checkProgram()
	r.checkVersion(version)
	copyright := r.read("/usr/share/doc/prelet/copyright")
	for _, want := range []string{"github.com/hashicorp/hcl/v2 v", ": (BSD-3-Clause OR GPL-2.0-only)\n"} {
		if !strings.Contains(copyright, want) {
			r.t.Errorf("copyright: got %.3000q, want it to contain %q", copyright, want)
		}
	}
	if got := r.read("/usr/share/doc/prelet/changelog.gz"); !strings.HasPrefix(got, "prelet ("+version+")") {
		r.t.Errorf("changelog.gz: got %q, want the version %s", got, version)
	}
	if got := r.read("/usr/share/man/man8/prelet.8.gz"); !strings.Contains(got, ".TH") {
		r.t.Errorf("prelet.8.gz: got %.300q, want a manual page", got)
	}
}

// checkVersion checks that the program, the units and the gate are of a version.
func (r *root) checkVersion(version string) {
	r.t.Helper()
	isNewer := version == newer
	if got := r.run("prelet", "version"); strings.HasPrefix(got, "prelet "+newer) != isNewer {
		r.t.Errorf("prelet version of the package %s: got %q, want %q only in %s", version, got, newer, newer)
	}

	for _, path := range []string{
		"/usr/lib/systemd/system/prelet.service",
		"/usr/lib/systemd/system/prelet-verify.service",
		"/usr/lib/systemd/system/kubelet.service.d/05-prelet-gate.conf",
	} {
		if got := strings.Contains(r.read(path), laterLine); got != isNewer {
			r.t.Errorf("%s of the package %s: got the line %q %t, want %t", path, version, laterLine, got, isNewer)
		}
	}
}

// checkProgram checks that prelet runs, and that the users of detectors exist.
func (r *root) checkProgram() {
	r.t.Helper()
	if got := r.run("prelet", "version"); !strings.HasPrefix(got, "prelet ") {
		r.t.Errorf("prelet version: got %q, want it to begin with prelet", got)
	}
	if got := r.run("getent", "passwd", "prelet-detector-1", "prelet-detector-16"); strings.Count(got, "\n") != 2 {
		r.t.Errorf("users of detectors: got %q, want two lines", got)
	}
}

// read returns the content of a file, of a .gz file the uncompressed one.
func (r *root) read(path string) string {
	r.t.Helper()
	content, err := os.ReadFile(filepath.Join(r.dir, path))
	if err != nil {
		r.t.Error(err)
		return ""
	}
	if filepath.Ext(path) != ".gz" {
		return string(content)
	}

	var text []byte
	packed, err := gzip.NewReader(bytes.NewReader(content))
	if err == nil {
		text, err = io.ReadAll(packed)
	}
	if err != nil {
		r.t.Errorf("%s: %v", path, err)
	}

	return string(text)
}

// checkRemoved checks that no file of the package is left.
func (r *root) checkRemoved(step string) {
	r.t.Helper()
	for path, mode := range installed {
		if mode.IsRegular() && r.exists(path) {
			r.t.Errorf("%s exists after %s: got true, want false", path, step)
		}
	}
}
