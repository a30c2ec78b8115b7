package recipes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/osfile"
)

const packerRecipe = "../../packaging/image/recipes/packer/"

// packer runs Packer on a folder of templates.
func packer(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("packer", args...)
	cmd.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1", "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("packer %q: got %v, want no error\n%s", args, err, out)
	}

	return string(out)
}

// TestPacker checks the recipe, and runs its steps over SSH in a booted machine instead of one of qemu.
func TestPacker(t *testing.T) {
	m := newPlainMachine(t, "packer")
	key := filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: got %v, want no error\n%s", err, out)
	}
	m.Put("/root/.ssh/authorized_keys", readFile(t, key+".pub"), 0o600)
	m.chroot("ssh-keygen", "-A") // the sealed image has no host keys
	m.leaveChroot()
	m.Boot()
	m.Do("systemctl", "is-active", "ssh.service")

	variables := []string{"-var", "deb=" + debFile(t), "-var", "site=../../packaging/image/site/usr/lib/prelet/site"}
	validate := append([]string{"validate", "-var", "disk=" + key, "-var", "ssh_key=" + key}, variables...)
	packer(t, append(validate, packerRecipe)...)

	dir := t.TempDir()
	template := strings.Replace(readFile(t, packerRecipe+"node.pkr.hcl"), "source.qemu.node", "source.null.node", 1)
	osfile.Write(t, dir+"/node.pkr.hcl", template, 0o600)
	osfile.Write(t, dir+"/null.pkr.hcl", `source "null" "node" {
  ssh_host             = "`+m.address()+`"
  ssh_username         = "root"
  ssh_private_key_file = "`+key+`"
}
`, 0o600)
	out := packer(t, append(append([]string{"build", "-color=false"}, variables...), dir)...)
	if !strings.Contains(out, "The image is sealed") || !m.Exists("/usr/lib/prelet/seal.json") {
		t.Errorf("packer build: got no sealed image\n%s", out)
	}
	m.Kill()

	m.Put("/etc/prelet/machine.prelet.vars", shared.variables(), 0o644)
	m.Put("/etc/credstore/bootstrap-token", shared.token, 0o400)
	m.Boot()
	m.requireJoined("unknown")
}
