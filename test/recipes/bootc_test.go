package recipes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBootc builds the recipe's Containerfile with buildah on the image of mkosi, and boots the result in a container.
// It does not run bootc, for which no base image can be had here.
func TestBootc(t *testing.T) {
	requireWanted(t)
	dir := t.TempDir()
	must(t, os.Mkdir(dir+"/context", 0o755))
	must(t, os.WriteFile(dir+"/storage.conf", []byte("[storage]\ndriver = \"overlay\"\ngraphroot = \""+dir+
		"/graph\"\nrunroot = \""+dir+"/run\"\n"), 0o600))
	image, err := filepath.Abs(".cache/node")
	must(t, err)
	recipes, err := filepath.Abs("../../packaging/image")
	must(t, err)
	run := func(script string) string {
		cmd := exec.Command("sh", "-euc", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CONTAINERS_STORAGE_CONF="+dir+"/storage.conf", "BUILDAH_ISOLATION=chroot",
			"IMAGE="+image, "PACKAGING="+recipes, "DEB="+debFile(t))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: got %v, want no error\n%s", script, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	t.Cleanup(func() {
		run("buildah umount --all; buildah rm --all; buildah rmi --all --force; umount -R graph/overlay || true")
	})

	// The base: the image without prelet and without a kernel, which a container does not boot.
	run(`base=$(buildah from scratch); root=$(buildah mount "$base")
tar -C "$IMAGE" --exclude=./usr/lib/modules --exclude=./boot --exclude=./usr/lib/prelet -c . | tar -C "$root" -x
chroot "$root" dpkg --purge prelet
buildah umount "$base"; buildah commit --quiet "$base" localhost/base`)
	run(`dpkg-deb --fsys-tarfile "$DEB" | gzip -1 >context/prelet.tar.gz
cp -r "$PACKAGING/site/usr/lib/prelet/site" context/site`)
	out := run(`buildah build --build-arg BASE=localhost/base --tag node \
--file "$PACKAGING/recipes/bootc/Containerfile" context`)
	if !strings.Contains(out, "The image is sealed") {
		t.Errorf("buildah build: got no sealed image\n%s", out)
	}

	m := newMachineOn(t, "bootc", run(`buildah mount "$(buildah from --pull-never localhost/node)"`))
	m.Put("/etc/prelet/machine.prelet.vars", shared.variables(), 0o644)
	m.Put("/etc/credstore/bootstrap-token", shared.token, 0o400)
	m.Boot()
	m.requireJoined("unknown")
}
