package packages

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// releaseKeys has the keys of the release of this test: private ones, and public ones as in packaging/keys.
const releaseKeys = ".cache/keys"

// releaseEnv returns the variables with which a release is signed by these keys.
func releaseEnv() []string {
	keys, err := filepath.Abs(releaseKeys)
	if err != nil {
		panic(err) // the working directory is gone
	}

	return []string{
		"KEYS=" + keys,
		"RELEASE_KEY_FILE=" + keys + "/key",
		"RELEASE_GPG_FILE=" + keys + "/gpg.key",
		"RELEASE_VERITY_FILE=" + keys + "/verity.key",
	}
}

// makeKeys makes new keys in the working directory.
const makeKeys = `
	umask 077
	ssh-keygen -q -t ed25519 -N "" -C "" -f key
	echo "prelet $(cat key.pub)" >allowed_signers
	mkdir gpg
	export GNUPGHOME=$PWD/gpg
	gpg --batch --quiet --passphrase "" --quick-generate-key "prelet <prelet@prelet.test>" rsa3072 sign never
	gpg --batch --quiet --export-secret-keys >gpg.key
	gpg --batch --quiet --export >prelet.gpg
	gpgconf --kill all
	openssl req -quiet -x509 -newkey rsa:3072 -nodes -keyout verity.key -out prelet-verity.crt -days 30 -subj /CN=prelet 2>/dev/null ||
		openssl req -x509 -newkey rsa:3072 -nodes -keyout verity.key -out prelet-verity.crt -days 30 -subj /CN=prelet`

// makeRelease builds a release, signed with new keys, and returns the folder of its files.
var makeRelease = sync.OnceValues(func() (string, error) {
	if err := errors.Join(os.RemoveAll(releaseKeys), os.MkdirAll(releaseKeys, 0o700)); err != nil {
		return "", err
	}
	keys := exec.Command("sh", "-ec", makeKeys)
	keys.Dir = releaseKeys
	if out, err := keys.CombinedOutput(); err != nil {
		return string(out), err
	}

	folder, err := filepath.Abs(".cache/release")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("tools/release.sh", older, folder)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), releaseEnv()...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return string(out), err
	}

	return folder, nil
})

// TestReleaseLint fails on errors and warnings of lintian and rpmlint for any package of a release, and if they change
// a file of this machine that a package has.
func TestReleaseLint(t *testing.T) {
	folder := release(t)
	before := hostFiles()
	for pattern, lint := range map[string][]string{
		"*.deb": {"lintian", "--allow-root", "--fail-on", "error,warning"},
		"*.rpm": {"rpmlint", "--strict", "--config", "packaging/prelet/rpmlint.toml"},
	} {
		packages, err := filepath.Glob(filepath.Join(folder, pattern))
		detectors, _ := filepath.Glob("../../packaging/detectors/*.yaml")
		if want := 3 + len(detectors); err != nil || len(packages) != want { // prelet for two architectures, its pages
			t.Fatalf("%s of the release: got %q, %v; want %d", pattern, packages, err, want)
		}
		path := "PATH=" + relativeCpio(t) + ":" + os.Getenv("PATH")
		build(t, "../..", []string{path}, lint[0], append(lint[1:], packages...)...)
	}

	for path, want := range hostFiles() {
		if got := before[path]; got != want {
			t.Errorf("%s of this machine: got it changed at %v, want it as before: %v", path, want, got)
		}
	}
}

// relativeCpio returns a folder with a cpio that unpacks only below its working directory. rpmlint unpacks with
// `rpm2cpio FILE | cpio -id`, and names in nfpm's packages begin with a slash: root would write over this machine's
// files.
func relativeCpio(t *testing.T) string {
	t.Helper()
	cpio, err := exec.LookPath("cpio")
	must(t, err)
	dir := t.TempDir()
	script := "#!/bin/sh\nexec " + cpio + " --no-absolute-filenames \"$@\"\n"
	must(t, os.WriteFile(filepath.Join(dir, "cpio"), []byte(script), 0o700))

	return dir
}

// hostFiles returns when this machine's files that have the paths of packaged ones were last changed.
func hostFiles() map[string]syscall.Timespec {
	changed := map[string]syscall.Timespec{}
	for path, mode := range installed {
		var stat syscall.Stat_t
		if err := syscall.Lstat(path, &stat); err == nil && mode.IsRegular() {
			changed[path] = stat.Ctim
		}
	}

	return changed
}

func release(t *testing.T) string {
	t.Helper()
	requireWanted(t)
	buildMutex.Lock()
	defer buildMutex.Unlock()
	folder, err := makeRelease()
	if err != nil {
		t.Fatalf("make release: got %v, want no error\n%s", err, folder)
	}

	return folder
}

// releaseFile returns the path of the release's only file that matches a pattern.
func releaseFile(t *testing.T, pattern string) string {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(release(t), pattern))
	if len(files) != 1 {
		t.Fatalf("%s: got the files %q, want one", pattern, files)
	}

	return files[0]
}

// TestSums: the sums are those of all files, and the signature is that of the sums.
func TestSums(t *testing.T) {
	folder := release(t)
	sums := readFile(t, filepath.Join(folder, "SHA256SUMS"))
	build(t, folder, nil, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")

	files, err := os.ReadDir(folder)
	must(t, err)
	for _, f := range files {
		isSum := strings.HasPrefix(f.Name(), "SHA256SUMS")
		if !isSum && !bytes.Contains(sums, []byte("  "+f.Name()+"\n")) {
			t.Errorf("SHA256SUMS: got no line of %s, want one", f.Name())
		}
	}

	signers := filepath.Join(releaseKeys, "allowed_signers")
	verify := func(text []byte) error {
		cmd := exec.Command("ssh-keygen", "-Y", "verify", "-f", signers, "-I", "prelet", "-n", "file",
			"-s", filepath.Join(folder, "SHA256SUMS.sig"))
		cmd.Stdin = bytes.NewReader(text)

		return cmd.Run()
	}
	if err := verify(sums); err != nil {
		t.Errorf("the signature of SHA256SUMS: got %v, want it valid", err)
	}
	if err := verify(append(sums, '\n')); err == nil {
		t.Error("the signature of other sums: got it valid, want an error")
	}
}

// TestReleaseReproducible builds the release again from a copy of the tree in another folder, with another umask and time
// zone. Sums of both must be the same.
func TestReleaseReproducible(t *testing.T) {
	first := readFile(t, filepath.Join(release(t), "SHA256SUMS"))

	dir := copyTree(t)
	env := []string{"SOURCE_DATE_EPOCH=" + commitTime(t), "TZ=Asia/Tokyo", "LC_ALL=C.UTF-8"}
	build(t, dir, append(env, releaseEnv()...), "sh", "-c", `umask 077; make release VERSION="$1"`, "sh", older)
	second := readFile(t, filepath.Join(dir, "dist/release/SHA256SUMS"))

	for line := range strings.Lines(string(first)) {
		if !bytes.Contains(second, []byte(line)) {
			t.Errorf("got another file, want the same bytes as %s. Try: diffoscope", strings.TrimSpace(line))
		}
	}
}

// TestTarball installs the archive as its page says.
func TestTarball(t *testing.T) {
	r := newRoot(t, "bookworm")
	archive := releaseFile(t, "prelet-"+older+"-linux-"+runtime.GOARCH+".tar.gz")
	build(t, r.dir, nil, "tar", "-xzf", archive)
	r.run("systemd-sysusers", "prelet.conf")
	r.run("systemd-tmpfiles", "--create", "prelet.conf")
	r.run("systemctl", "preset", "prelet.service", "prelet-verify.service")

	r.checkProgram()
	r.checkLinks("tar", true)
	for path, want := range installed {
		isOfPackages := strings.HasPrefix(path, "/usr/share/") // documents, which are packed there
		if got, err := os.Lstat(filepath.Join(r.dir, path)); !isOfPackages && (err != nil || got.Mode() != want) {
			t.Errorf("%s: got %v, %v; want mode %v", path, got, err, want)
		}
	}
}

func TestSystemExtensionDebian12(t *testing.T) { testSystemExtension(t, newRoot(t, "bookworm")) }
func TestSystemExtensionDebian13(t *testing.T) { testSystemExtension(t, newRoot(t, "trixie")) }

// systemdArch has systemd's names of architectures.
var systemdArch = map[string]string{"amd64": "x86-64", "arm64": "arm64"}

// testSystemExtension merges the images of the system extensions of prelet and of a detector, and takes them off again.
func testSystemExtension(t *testing.T, r *root) {
	suffix := "-" + older + "-" + systemdArch[runtime.GOARCH] + ".raw"
	image := readFile(t, releaseFile(t, "prelet"+suffix))
	detector := readFile(t, releaseFile(t, "detector-lldp"+suffix))
	mount(t, "/dev", r.dir+"/dev", "", syscall.MS_BIND|syscall.MS_REC, "")
	mount(t, "sysfs", r.dir+"/sys", "sysfs", 0, "")
	mount(t, "tmpfs", r.dir+"/run", "tmpfs", 0, "mode=0755")
	mount(t, "none", r.dir, "", syscall.MS_SHARED|syscall.MS_REC, "") // or the merge stays in systemd-sysext's namespace
	t.Cleanup(func() {
		for _, dir := range []string{"/usr", "/run", "/sys", "/dev"} {
			_ = syscall.Unmount(r.dir+dir, syscall.MNT_DETACH)
		}
	})
	r.write("/var/lib/extensions/prelet.raw", string(image))
	r.write("/var/lib/extensions/prelet-detector-lldp.raw", string(detector))

	r.sysext("merge")
	r.run("systemd-sysusers", "prelet.conf")
	r.checkProgram()
	r.checkDetector()
	for _, path := range []string{
		"/usr/lib/systemd/system/kubelet.service.d/05-prelet-gate.conf",
		"/usr/lib/systemd/system/multi-user.target.wants/prelet.service",
		"/usr/lib/systemd/system/kubelet.service.wants/prelet-verify.service",
	} {
		if _, err := os.Stat(filepath.Join(r.dir, path)); err != nil {
			t.Errorf("after the merge: %v, want the file", err)
		}
	}

	if docs, _ := filepath.Glob(r.dir + "/usr/share/doc/prelet/*"); len(docs) > 1 {
		t.Errorf("documents after the merge: got %q, want the licences only", docs)
	}

	r.sysext("unmerge")
	if r.exists("/usr/bin/prelet") || r.exists("/usr/lib/prelet/detectors/lldp") {
		t.Error("/usr/bin/prelet, or a detector, after unmerge: got it, want both gone")
	}
}

// checkDetector checks that the detector lldp runs: it is the program of its lock, in its sandbox.
func (r *root) checkDetector() {
	r.t.Helper()
	r.run("mkdir", "-p", "/run/systemd/netif/lldp") // else it has nothing to do
	r.write("/etc/prelet/site.hcl", "detector \"lldp\" {}\nstage \"detect-hw\" \"node\" {}\n")
	if got, want := r.run("prelet", "detect"), "lldp  ok  "+older; !strings.Contains(got, want) {
		r.t.Errorf("prelet detect: got %q, want it to contain %q", got, want)
	}
}

// sysext runs systemd-sysext. Debian 13's reloads the manager in the end, and there is none.
func (r *root) sysext(verb string) {
	r.t.Helper()
	out, err := exec.Command("/usr/sbin/chroot", r.dir, "systemd-sysext", verb).CombinedOutput()
	if err != nil && !strings.Contains(string(out), "Failed to get D-Bus connection") {
		r.t.Fatalf("systemd-sysext %s: got %v, want no error\n%s", verb, err, out)
	}
}

// TestImage copies the image for CI with skopeo, as registries get it, and runs prelet of it on a site.
func TestImage(t *testing.T) {
	archive := releaseFile(t, "prelet-"+older+".oci.tar")
	dir := t.TempDir()
	for _, arch := range []string{"amd64", "arm64"} {
		build(t, dir, nil, "skopeo", "--override-arch", arch, "--insecure-policy", "copy", "oci-archive:"+archive, "dir:"+arch)
		build(t, dir, nil, "sh", "-ec", `skopeo inspect --config "dir:$1" |
			jq -e --arg arch "$1" '.architecture == $arch and .config.Entrypoint == ["/usr/bin/prelet"]'`, "sh", arch)
	}

	build(t, dir, nil, "sh", "-ec", `tar -xOf "$1" ./index.json |
		jq -e --arg name "localhost/prelet:$2" '[.manifests[].annotations["io.containerd.image.name"]] == [$name]'`,
		"sh", archive, older)

	rootDir := filepath.Join(dir, "root")
	must(t, os.Mkdir(rootDir, 0o755))
	build(t, dir, nil, "sh", "-ec", `for layer in "$1"/*; do
		if tar -tzf "$layer" >/dev/null 2>&1; then tar -C root -xpzf "$layer"; fi
	done; mkdir root/workspace/site root/proc; cp "$2" root/workspace/site/`, "sh", runtime.GOARCH, absolute(t, "../../examples/minimal/site.hcl"))

	build(t, rootDir, nil, "unshare", "--pid", "--fork", "--mount-proc="+filepath.Join(rootDir, "proc"),
		"chroot", rootDir, "/usr/bin/prelet", "validate", "/workspace/site")
	r := &root{t: t, dir: rootDir}
	if got := r.read("/etc/passwd"); strings.Count(got, "prelet-detector-") != 16 {
		t.Errorf("/etc/passwd: got %q, want 16 users of detectors", got)
	}
}

// TestVerity: the image of a system extension with dm-verity has the extension, the hashes of its blocks, and a signature
// of their root. No kernel mounts it here: that needs dm-verity.
func TestVerity(t *testing.T) {
	suffix := "-" + older + "-" + systemdArch[runtime.GOARCH]
	names := []string{"prelet-" + older + "-x86-64", "prelet-" + older + "-arm64"}
	detectors, _ := filepath.Glob("../../packaging/detectors/*.yaml")
	for _, file := range detectors {
		names = append(names, "detector-"+strings.TrimSuffix(filepath.Base(file), ".yaml")+suffix)
	}
	for _, name := range names {
		image := releaseFile(t, name+".verity.raw")
		dir := t.TempDir()
		build(t, dir, nil, "sh", "-ec", splitImage, "sh", image)
		extension := readFile(t, releaseFile(t, name+".raw"))
		if got := readFile(t, filepath.Join(dir, "1")); !bytes.HasPrefix(got, extension) {
			t.Errorf("%s: got a first partition of %d bytes, want it to begin with the %d bytes of the extension",
				image, len(got), len(extension))
		}

		var signed struct{ RootHash, Signature string }
		text, _, _ := bytes.Cut(readFile(t, filepath.Join(dir, "3")), []byte{0})
		if err := json.Unmarshal(text, &signed); err != nil {
			t.Fatalf("%s: the third partition: got %q, %v; want JSON", image, text, err)
		}
		build(t, dir, nil, "veritysetup", "verify", "1", "2", signed.RootHash)
		certificate := absolute(t, filepath.Join(releaseKeys, "prelet-verity.crt"))
		build(t, dir, nil, "sh", "-ec", `printf %s "$1" >hash; printf %s "$2" | base64 -d >signature
			openssl smime -verify -binary -inform DER -in signature -content hash -CAfile "$3" -certfile "$3" -out /dev/null`,
			"sh", signed.RootHash, signed.Signature, certificate)
	}
}

// splitImage writes the partitions of the image $1 into the files 1, 2 and 3.
const splitImage = `sfdisk --json "$1" | jq -r '.partitiontable.partitions[] | "\(.start) \(.size)"' >partitions
	number=0
	while read -r start size; do
		number=$((number + 1))
		dd if="$1" of="$number" bs=512 skip="$start" count="$size" status=none
	done <partitions`

// TestSysupdate updates the system extensions of prelet and of a detector from a server that has the release, as the pages
// for builders of images say, and refuses checksums that are not signed. Debian 12 has no systemd-sysupdate.
func TestSysupdate(t *testing.T) {
	r, folder := newRoot(t, "trixie"), release(t)
	sums := readFile(t, filepath.Join(folder, "SHA256SUMS"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/SHA256SUMS" {
			_, _ = w.Write(sums)
			return
		}
		http.FileServer(http.Dir(folder)).ServeHTTP(w, req)
	}))
	t.Cleanup(server.Close)

	r.write("/etc/sysupdate.d/prelet.transfer", transfer(t, "README.md", server.URL))
	r.write("/etc/sysupdate.d/prelet-detector-nvidia.transfer", transfer(t, "detectors.md", server.URL))
	r.write("/etc/systemd/import-pubring.gpg", string(readFile(t, filepath.Join(releaseKeys, "prelet.gpg"))))
	r.run("mkdir", "-p", "/var/lib/extensions", "/var/lib/prelet-extension")
	mount(t, "/dev", r.dir+"/dev", "", syscall.MS_BIND|syscall.MS_REC, "")
	t.Cleanup(func() { _ = syscall.Unmount(r.dir+"/dev", syscall.MNT_DETACH) })

	r.run("/usr/lib/systemd/systemd-sysupdate", "update")
	suffix := "-" + older + "-" + systemdArch[runtime.GOARCH]
	for name, file := range map[string]string{
		"prelet":                 "prelet" + suffix + ".raw",
		"prelet-detector-nvidia": "detector-nvidia" + suffix + ".verity.raw",
	} {
		got, want := r.read("/var/lib/extensions/"+name+".raw"), readFile(t, releaseFile(t, file))
		if got != string(want) {
			t.Errorf("the extension %s after an update: got %d bytes, want the %d of %s", name, len(got), len(want), file)
		}
	}

	sums = append(sums, '\n')
	r.run("rm", "-r", "/var/lib/prelet-extension")
	out, err := exec.Command("/usr/sbin/chroot", r.dir, "/usr/lib/systemd/systemd-sysupdate", "update").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Signature verification failed") {
		t.Errorf("an update with other checksums: got %v and\n%s\nwant the signature refused", err, out)
	}
}

// transfer returns the file for systemd-sysupdate that a page for builders of images shows, for this architecture and with
// a server in place of GitHub.
func transfer(t *testing.T, page, server string) string {
	t.Helper()
	text := string(readFile(t, "../../docs/image-builders/"+page))
	_, file, isFound := strings.Cut(text, "```ini\n[Source]\n")
	file, _, _ = strings.Cut(file, "```")
	const place = "https://github.com/prelet/prelet/releases/latest/download"
	if !isFound || !strings.Contains(file, "Path="+place+"\n") {
		t.Fatalf("%s: got no [Source] with %s, want one", page, place)
	}

	return strings.NewReplacer(place, server, "x86-64", systemdArch[runtime.GOARCH]).Replace("[Source]\n" + file)
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	must(t, err)

	return path
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
