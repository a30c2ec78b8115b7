package image

import (
	"encoding/base64"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prelet/prelet/test/kube"
)

// tpm starts a TPM for the next start of the machine, with the state of this name, and returns QEMU's flags for it. It
// ends with the machine.
func (m *machine) tpm(name string) []string {
	m.t.Helper()
	if err := os.MkdirAll(m.path(name), 0o700); err != nil {
		m.t.Fatal(err)
	}
	socket := m.path(name + ".socket")
	cmd := exec.Command("swtpm", "socket", "--tpm2", "--terminate", "--tpmstate", "dir="+m.path(name),
		"--ctrl", "type=unixio,path="+socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	m.within(time.Minute, "swtpm listens", func() string {
		if _, err := os.Stat(socket); err != nil {
			return err.Error()
		}
		return ""
	})

	return []string{
		"-chardev", "socket,id=tpm,path=" + socket, "-tpmdev", "emulator,id=tpm,chardev=tpm",
		"-device", m.platform.tpm + ",tpmdev=tpm",
	}
}

// encrypt puts the token into a file that only this machine (key "host") or its TPM ("tpm2") can decrypt, as a
// provisioner would do it on the machine.
func (m *machine) encrypt(key, token string) {
	m.t.Helper()
	r, err := m.agent.run(token, "sh", "-ec", `mkdir -p /etc/credstore.encrypted
		systemd-creds encrypt --with-key="$0" --name=bootstrap-token - /etc/credstore.encrypted/bootstrap-token`, key)
	if err != nil || r.exit != 0 {
		m.t.Fatalf("systemd-creds encrypt --with-key=%s: got %v, %s; want exit 0", key, err, r)
	}
}

// forget takes the node out of the cluster, and its identity and prelet's state off the disk.
func (m *machine) forget(c *kube.Cluster, name string) {
	m.t.Helper()
	m.run("sh", "-ec", `systemctl stop kubelet prelet-verify
		rm -rf /etc/kubernetes/*.conf /var/lib/kubelet/pki /var/lib/prelet/*; sync`)
	if err := c.Client.CoreV1().Nodes().Delete(m.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		m.t.Fatal(err)
	}
}

// TestCredentials joins with a token from each place that systemd takes a machine's credentials from. TestImage has a
// string of SMBIOS; here are fw_cfg of QEMU, a file that the machine's TPM decrypts, and one that needs its host key.
func TestCredentials(t *testing.T) {
	c := newCluster(t)
	m := newMachine(t, "CRED-1")
	const name = "cred-1"
	zone := base64.StdEncoding.EncodeToString([]byte("az2-r01"))
	args := append(credentials(t, c), "-smbios", "type=11,value=io.systemd.credential.binary:prelet.var.zone="+zone)

	// joined waits until the machine has joined with the token that it found.
	joined := func(from string) {
		t.Helper()
		n := node(t, c, m, name)
		m.healthy()
		if got := n.Labels["topology.kubernetes.io/zone"]; got != "az2-r01" {
			t.Errorf("zone, a credential in base64: got %q; want az2-r01", got)
		}
		t.Logf("joined with a token from %s: Node %s", from, n.UID)
	}

	m.start(slices.Concat(m.tpm("tpm"), args, m.fwCfgToken(c.Token))...)
	joined("fw_cfg")

	// The file exists on this machine only, so its drop-in does as well.
	for _, unit := range []string{"prelet", "prelet-apply"} {
		m.put("/etc/systemd/system/"+unit+".service.d/20-token.conf",
			"[Service]\nLoadCredentialEncrypted=bootstrap-token:/etc/credstore.encrypted/bootstrap-token\n")
	}
	m.encrypt("tpm2", c.Token)
	m.forget(c, name)
	m.off()
	m.start(append(m.tpm("tpm"), args...)...)
	joined("a file for its TPM")

	m.encrypt("host", c.Token)
	m.forget(c, name)
	m.off()
	m.start(append(m.tpm("tpm"), args...)...)
	joined("a file for its host key")

	// The disk with the TPM of another machine.
	m.encrypt("tpm2", c.Token)
	m.forget(c, name)
	m.off()
	m.start(append(m.tpm("other-tpm"), args...)...)
	m.within(3*time.Minute, "prelet.service fails", func() string {
		if got := m.property("prelet", "ExecMainStatus"); got != "243" {
			return "ExecMainStatus=" + got
		}
		return ""
	})
	m.refused(c, name)

	// A file for this machine, and nothing else: systemd tries again every two seconds.
	m.encrypt("tpm2", c.Token)
	joined("a new file for its new TPM")
}

// refused checks what an operator sees of a token that cannot be decrypted: the unit fails before prelet runs, the gate
// is shut, and nothing joins.
func (m *machine) refused(c *kube.Cluster, name string) {
	m.t.Helper()
	m.t.Logf("with the TPM of another machine:\n%s\n%s\n%s\n%s",
		m.try("systemctl", "--no-pager", "--full", "status", "prelet"),
		m.try("journalctl", "-b", "--no-pager", "-n", "25", "-u", "prelet", "-u", "kubelet"),
		m.try("prelet", "status"), m.try("prelet", "doctor"))

	if s := m.status(); s.Gate.Open {
		m.t.Errorf("without a token: got %+v; want a shut gate", s)
	}
	if got := m.property("kubelet", "MainPID"); got != "0" {
		m.t.Errorf("without a token: got a kubelet with pid %s; want none", got)
	}
	if n, err := c.Client.CoreV1().Nodes().Get(m.t.Context(), name, metav1.GetOptions{}); err == nil {
		m.t.Errorf("without a token: got Node %s; want none", n.UID)
	}
	const want = "encrypted with the TPM or the host key of this machine"
	m.within(time.Minute, "prelet status contains "+want, func() string { // not while systemd tries again
		if got := m.try("prelet", "status", "-o", "json"); !strings.Contains(got.out, want) {
			return got.String()
		}
		return ""
	})
}
