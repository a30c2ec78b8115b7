package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/demo"
	"github.com/prelet/prelet/internal/testing/osfile"
)

// cluster starts an apiserver with a kubelet's configuration, and writes its token to a file.
func cluster(t *testing.T) (server *demo.Server, tokenFile string) {
	t.Helper()
	server = demo.Start(demo.ServerConfig{})
	t.Cleanup(server.Close)
	server.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": "kind: KubeletConfiguration\n"})
	tokenFile = filepath.Join(t.TempDir(), "token")
	osfile.Write(t, tokenFile, demo.Token+"\n", 0o600)
	return server, tokenFile
}

// machine makes a PCI bus with two devices, linked as sysfs links them.
func machine(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for address, device := range map[string]string{"0000:00:01.0": "0x1237", "0000:00:02.0": "0x2330"} {
		at := filepath.Join(root, "sys/devices/pci0000:00", address)
		for name, text := range map[string]string{"class": "0x030200", "vendor": "0x10de", "device": device} {
			osfile.Write(t, filepath.Join(at, name), text+"\n", 0o600)
		}
		bus := filepath.Join(root, "sys/bus/pci/devices")
		if err := os.MkdirAll(bus, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../../../devices/pci0000:00/"+address, filepath.Join(bus, address)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestFloor says that the floor does what it is named after, no less and no more.
func TestFloor(t *testing.T) {
	server, token := cluster(t)
	out := t.TempDir()
	var stderr bytes.Buffer
	if code := run(
		[]string{
			"-server",
			server.URL,
			"-ca-hash",
			server.CAHash(),
			"-token-file",
			token,
			"-hardware",
			machine(t),
			"-out",
			out,
		},
		&stderr,
	); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	if n := len(server.Requests()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
	if n := server.Connections(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	for name, want := range map[string]string{
		"ca.crt": "BEGIN CERTIFICATE", "config.yaml": "kind: KubeletConfiguration", "bootstrap-kubelet.conf": "server: " + server.URL, "kubeadm-flags.env": "pci-devices=2",
	} {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s holds %q (%v), want %q in it", name, text, err, want)
		}
	}
}

func TestFloorTrustsNobodyElse(t *testing.T) {
	server, token := cluster(t)
	other, _ := cluster(t)
	var stderr bytes.Buffer
	if code := run(
		[]string{
			"-server",
			server.URL,
			"-ca-hash",
			other.CAHash(),
			"-token-file",
			token,
			"-hardware",
			machine(t),
			"-out",
			t.TempDir(),
		},
		&stderr,
	); code != 1 {
		t.Errorf("exit %d with the pin of another cluster", code)
	}
	if n := server.Authorizations(); n != 0 {
		t.Errorf("the token was sent %d times to a server that no pin covers", n)
	}
}
