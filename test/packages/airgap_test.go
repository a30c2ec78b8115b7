package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestAirGap packs a signed site and the release into one layout. Then it runs the commands of the page in a namespace
// without a network, and there the program that they install pulls the site.
func TestAirGap(t *testing.T) {
	r, folder := newRoot(t, "trixie"), release(t)
	dir := t.TempDir()
	key := absolute(t, filepath.Join(releaseKeys, "key"))
	tree := absolute(t, "../..")

	must(t, os.Mkdir(filepath.Join(dir, "gpu-site"), 0o755))
	label := []byte("stage \"label\" \"gpu\" {\n  labels = { \"example.com/gpu\" = \"yes\" }\n}\n")
	must(t, os.WriteFile(filepath.Join(dir, "gpu-site", "gpu.hcl"), label, 0o644))
	build(t, dir, nil, tree+"/bin/prelet", "site", "sign", "gpu-site", "--key", key, "--name", "gpu", "--counter", "1")
	places := strings.NewReplacer("make ", "make -C "+tree+" ", "SITE=", "SITE="+dir+"/", "AIRGAP=", "AIRGAP="+dir+"/",
		"dist/release", folder)
	build(t, dir, nil, "sh", "-ec", places.Replace(blockOf(t, "needs a release")))

	must(t, os.Symlink(r.dir, filepath.Join(dir, "image-root")))
	build(t, dir, nil, "cp", absolute(t, filepath.Join(releaseKeys, "allowed_signers")), ".")
	offline(t, dir, strings.ReplaceAll(blockOf(t, "needs the layout"), "amd64", runtime.GOARCH), tree+"/bin")

	r.write("/usr/lib/prelet/site-signers", string(readFile(t, key+".pub")))
	r.write("/usr/lib/prelet/site/delivery.hcl",
		"delivery {\n  from = [\"oci-layout:/usr/share/site:site\"]\n  name = \"gpu\"\n}\n")
	offline(t, dir, "chroot image-root prelet site update", "")
	if stored, _ := filepath.Glob(r.dir + "/var/lib/prelet/sites/sha256-*/gpu.hcl"); len(stored) != 1 {
		t.Errorf("the site of the layout on the node: got the files %q, want one", stored)
	}
}

// TestAirGapUnsigned packs a site without a list and one without a signature, which no node with keys would take: both
// are refused, and no layout is made.
func TestAirGapUnsigned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	layout, site := filepath.Join(dir, "layout"), filepath.Join(dir, "site")
	must(t, os.Mkdir(site, 0o755))
	for _, missing := range []string{"site.sha256", "site.sha256.sig"} {
		text, err := exec.CommandContext(t.Context(), "../../tools/airgap.sh", layout, site, dir).CombinedOutput()
		want := "is not signed: it has no " + missing + ", and nodes with keys refuse it. Sign it: prelet site sign"
		_, made := os.Stat(layout)
		if err == nil || !strings.Contains(string(text), want) || !os.IsNotExist(made) {
			t.Errorf("without %s: got %v and %q, a layout: %v; want it refused with %q", missing, err, text, made, want)
		}
		must(t, os.WriteFile(filepath.Join(site, missing), nil, 0o644))
	}
}

// offline runs commands in a namespace without a network, with a folder of programs first.
func offline(t *testing.T, dir, commands, programs string) {
	t.Helper()
	build(t, dir, []string{"PATH=" + programs + ":" + os.Getenv("PATH")}, "unshare", "--net", "bash", "-ec", commands)
}

// blockOf returns the block of commands of the page that its tests do not run for this reason.
func blockOf(t *testing.T, reason string) string {
	t.Helper()
	_, block, isFound := strings.Cut(string(readFile(t, "../../docs/operators/delivery.md")), "<!-- not run: "+reason+" -->\n```sh\n")
	block, _, _ = strings.Cut(block, "```")
	if !isFound {
		t.Fatalf("delivery.md: got no block that %s, want one", reason)
	}

	return block
}
