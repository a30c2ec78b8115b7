package recipes

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/osfile"
)

const ignition = "/usr/lib/dracut/modules.d/30ignition/ignition"

// provision does what Ignition's units do in an initrd: it translates the recipe, and runs the stages for files on the
// root of a machine.
func provision(t *testing.T, m *machine, server *enrollServer) (output string, err error) {
	t.Helper()
	dir := t.TempDir()
	osfile.Write(t, dir+"/enroll-ca.crt", server.ca, 0o600)
	recipe := server.fill(readFile(t, "../../packaging/image/recipes/ignition/node.bu"))
	osfile.Write(t, dir+"/node.bu", recipe, 0o600)
	butane := exec.Command(".cache/bin/butane", "--strict", "--files-dir", dir, "--output", dir+"/config.ign",
		dir+"/node.bu")
	if out, err := butane.CombinedOutput(); err != nil {
		t.Fatalf("butane: got %v, want no error\n%s", err, out)
	}
	if strings.Contains(readFile(t, dir+"/config.ign"), shared.token) {
		t.Error("the configuration contains the token, want only its address")
	}
	if out, err := exec.Command("ignition-validate", dir+"/config.ign").CombinedOutput(); err != nil {
		t.Fatalf("ignition-validate: got %v, want no error\n%s", err, out)
	}

	for _, stage := range []string{"fetch", "files"} {
		cmd := exec.Command(ignition, "--root", m.Root, "--platform", "file", "--stage", stage, "--log-to-stdout",
			"--config-cache", dir+"/cache", "--neednet", dir+"/neednet", "--fetch-timeout", "3s")
		cmd.Env = append(os.Environ(), "IGNITION_CONFIG_FILE="+dir+"/config.ign")
		text, err := cmd.CombinedOutput()
		output += string(text)
		if err != nil {
			return output, err
		}
	}

	return output, nil
}

// newIgnitionMachine has the files that the recipe names for Debian.
func newIgnitionMachine(t *testing.T, name string) *machine {
	t.Helper()
	m := newMachine(t, name)
	m.Put("/etc/selinux/config", "SELINUX=disabled\nSELINUXTYPE=none\n", 0o644) // see the recipe
	m.Put("/etc/selinux/none/contexts/files/file_contexts", "", 0o644)

	return m
}

// TestIgnition provisions a machine before its first boot. A second one, to which the server does not give the token,
// fails in the initrd, and would not boot.
func TestIgnition(t *testing.T) {
	m := newIgnitionMachine(t, "ignition")
	server := newEnrollServer(t)
	output, err := provision(t, m, server)
	if err != nil {
		t.Fatalf("ignition: got %v, want no error\n%s", err, output)
	}
	if strings.Contains(output, shared.token) {
		t.Error("the output of Ignition contains the token")
	}

	m.Boot()
	m.requireJoined("az1-r07")
	requireToken(t, m)

	refused := newIgnitionMachine(t, "refused")
	if output, err := provision(t, refused, server); err == nil || refused.Exists("/etc/credstore/bootstrap-token") {
		t.Errorf("ignition without a token: got %v, want an error and no file of the token\n%s", err, output)
	}
}
