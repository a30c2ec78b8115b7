package recipes

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/prelet/prelet/test/nspawn"
)

// newPlainMachine has a kubelet and a runtime, but neither prelet nor a site.
func newPlainMachine(t *testing.T, name string) *machine {
	t.Helper()
	m := newMachine(t, name)
	m.prepareChroot()
	m.chroot("dpkg", "--purge", "prelet")
	m.chroot("rm", "-r", "/usr/lib/prelet")

	return m
}

// prepareChroot mounts what programs need in a root that is not booted. /dev is its own, with two devices.
func (m *machine) prepareChroot() {
	m.T.Helper()
	m.Must(syscall.Mount("proc", m.Root+"/proc", "proc", 0, ""))
	m.Must(syscall.Mount("tmpfs", m.Root+"/dev", "tmpfs", 0, "mode=755"))
	m.Must(syscall.Mknod(m.Root+"/dev/null", syscall.S_IFCHR|0o666, 1<<8|3))
	m.Must(syscall.Mknod(m.Root+"/dev/urandom", syscall.S_IFCHR|0o666, 1<<8|9))
	m.T.Cleanup(m.leaveChroot)
}

func (m *machine) leaveChroot() {
	m.T.Helper()
	m.unmount(m.Root + "/proc")
	m.unmount(m.Root + "/dev")
}

func (m *machine) chroot(args ...string) string {
	m.T.Helper()
	cmd := exec.Command("chroot", append([]string{m.Root}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.T.Fatalf("%q in the root of %s: got %v, want no error\n%s", args, m.name, err, out)
	}

	return string(out)
}

// debFile returns the path of prelet's package.
func debFile(t *testing.T) string {
	t.Helper()
	debs, err := filepath.Glob(".cache/parts/var/cache/debs/prelet_*.deb")
	if err != nil || len(debs) != 1 {
		t.Fatalf("packages: got %q, want one deb. Try: test/recipes/prepare.sh", debs)
	}
	deb, err := filepath.Abs(debs[0])
	must(t, err)

	return deb
}

// playbook returns a run of the recipe on a machine's root.
func playbook(m *machine) *exec.Cmd {
	m.T.Helper()
	dir := m.T.TempDir()
	site, err := filepath.Abs("../../packaging/image/site/usr/lib/prelet/site")
	m.Must(err)
	inventory := "all:\n  children:\n    nodes:\n      hosts:\n        " + m.name + ":\n" + `
          ansible_connection: community.general.chroot
          ansible_host: ` + m.Root + `
          ansible_python_interpreter: /usr/bin/python3
          prelet_deb: ` + debFile(m.T) + `
          prelet_site: ` + site + `
          prelet_vars: {api_server: "` + shared.url + `", ca_cert_hash: "` + shared.pin + `", zone: az1-r07}
`
	m.Must(os.WriteFile(dir+"/nodes.yml", []byte(inventory), 0o600))
	cmd := exec.Command("ansible-playbook", "-vv", "--inventory", dir+"/nodes.yml",
		"../../packaging/image/recipes/ansible/playbook.yml")
	cmd.Env = append(os.Environ(), "PRELET_TOKEN="+shared.token, "ANSIBLE_NOCOLOR=1", "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	return cmd
}

var recap = regexp.MustCompile(`changed=(\d+) .*failed=(\d+)`)

// play runs the recipe to its end, and returns how many tasks changed something.
func play(m *machine) string {
	m.T.Helper()
	out, err := playbook(m).CombinedOutput()
	found := recap.FindSubmatch(out)
	if err != nil || found == nil || string(found[2]) != "0" {
		m.T.Fatalf("ansible-playbook: got %v, want no error\n%s", err, out)
	}
	if strings.Contains(string(out), shared.token) {
		m.T.Error("the output of ansible-playbook contains the token")
	}

	return string(found[1])
}

// TestAnsible runs the recipe twice on a machine that does not have prelet, boots it, and runs it again.
func TestAnsible(t *testing.T) {
	m := newPlainMachine(t, "ansible")
	if got := play(m); got == "0" {
		t.Errorf("changed tasks of the first run: got %s, want some", got)
	}
	if got := play(m); got != "0" {
		t.Errorf("changed tasks of the second run: got %s, want 0", got)
	}
	m.leaveChroot()
	m.Boot()
	m.requireJoined("az1-r07")
	requireToken(t, m)
	m.Off()

	m.prepareChroot()
	if got := play(m); got != "1" || m.Exists("/etc/credstore/bootstrap-token") {
		t.Errorf("run on a joined node: got %s changed tasks, want 1, which removes the token", got)
	}
	if got := play(m); got != "0" {
		t.Errorf("changed tasks of the run after it: got %s, want 0", got)
	}
}

// TestAnsibleVault has the token where a vault has it, in the host's variables, and another one in the environment.
func TestAnsibleVault(t *testing.T) {
	m := newPlainMachine(t, "vault")
	const want = "known1.0123456789abcdef"
	cmd := playbook(m)
	vault := filepath.Dir(cmd.Args[slices.Index(cmd.Args, "--inventory")+1]) + "/host_vars"
	must(t, os.Mkdir(vault, 0o700))
	must(t, os.WriteFile(vault+"/"+m.name+".yml", []byte("prelet_token: "+want+"\n"), 0o600))

	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("ansible-playbook: got %v, want no error\n%s", err, out)
	}
	if got := strings.TrimSpace(readFile(t, m.Root+"/etc/credstore/bootstrap-token")); got != want {
		t.Errorf("token with one of a vault and one of the environment: got %q, want the vault's %q", got, want)
	}
}

// TestAnsibleInterrupted kills a run at the begin of its tasks, and once while dpkg unpacks. A second run completes it.
func TestAnsibleInterrupted(t *testing.T) {
	m := newPlainMachine(t, "interrupted")
	for _, task := range []string{"Values of the site's variables", "Bootstrap token", "Install", "Check the site"} {
		interrupt(m, task)
	}
	if got := play(m); got != "0" {
		t.Logf("changed tasks of the run after interrupted ones: %s", got)
	}
	if got := play(m); got != "0" {
		t.Errorf("changed tasks of the run after it: got %s, want 0", got)
	}
	m.leaveChroot()
	m.Boot()
	m.requireJoined("az1-r07")
}

// interrupt kills a run when a task begins. In "Install" it waits until dpkg has written the first new file.
func interrupt(m *machine, task string) {
	m.T.Helper()
	cmd := playbook(m)
	out, err := cmd.StdoutPipe()
	m.Must(err)
	m.Must(cmd.Start())
	reached, output := false, ""
	for lines := bufio.NewScanner(out); lines.Scan() && !reached; {
		output += lines.Text() + "\n"
		reached = strings.HasPrefix(lines.Text(), "TASK ["+task+"]")
	}
	if reached && task == "Install" {
		m.Within(nspawn.BootTime, "dpkg unpacks", func() string {
			if m.Exists("/usr/bin/prelet.dpkg-new") || m.Exists("/usr/bin/prelet") {
				return ""
			}
			return "/usr/bin/prelet.dpkg-new does not exist"
		})
	}
	m.Must(syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
	_ = cmd.Wait()
	if !reached {
		m.T.Fatalf("ansible-playbook ended before its task %q:\n%s", task, output)
	}
}
