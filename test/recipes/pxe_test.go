package recipes

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	pxeRecipe = "../../packaging/image/recipes/pxe/"
	pxeTime   = 12 * time.Minute // an emulated processor
	pxeMAC    = "52:54:00:00:00:17"
)

// TestPXE boots a machine without a disk in qemu, from the recipe's DHCP and TFTP server, and over HTTP. It joins with
// the site of the image alone: this machine has all that a container does not.
func TestPXE(t *testing.T) {
	requireWanted(t)
	tokens := &enrollServer{}
	files := http.NewServeMux()
	for name, pattern := range map[string]string{
		"vmlinuz": "boot/vmlinuz-*", "initrd.img": "boot/initrd.img-*", "node.squashfs": "../node.squashfs",
	} {
		found, err := filepath.Glob(".cache/node/" + pattern)
		if err != nil || len(found) != 1 {
			t.Fatalf("%s of the image: got %q, want one file", name, found)
		}
		files.HandleFunc("/node/"+name, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, found[0]) })
	}
	files.Handle("/token/"+pxeMAC, tokens)
	listener, err := net.Listen("tcp", address+":0")
	must(t, err)
	server := &http.Server{Handler: files, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })

	script := strings.NewReplacer(
		"http://boot.example", "http://"+listener.Addr().String(),
		"https://10.0.0.11:6443", shared.url, "sha256:PIN", shared.pin,
	).Replace(readFile(t, pxeRecipe+"boot.ipxe"))
	must(t, os.WriteFile(tftpRoot+"/boot.ipxe", []byte(script), 0o644))

	console := startPXE(t)
	for end := time.Now().Add(pxeTime); ; time.Sleep(time.Second) {
		zone, err := shared.kubectl("get", "node", "pxe1", "-o", `jsonpath={.metadata.labels.topology\.kubernetes\.io/zone}`)
		if err == nil {
			if zone != "az1-r07" {
				t.Errorf("zone of node pxe1: got %q, want az1-r07", zone)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("node pxe1: got %v within %s, want it in the cluster: %s\n%s", err, pxeTime, zone, tail(t, console))
		}
	}
	if got := tokens.requests(); got != 1 {
		t.Errorf("requests of the token: got %d, want 1", got)
	}
	if strings.Contains(readFile(t, console), shared.token) {
		t.Error("the console contains the token")
	}
}

// startPXE starts a machine that boots from the network, and returns the file with the output of its console.
func startPXE(t *testing.T) (console string) {
	t.Helper()
	const tap = "pxe"
	for _, args := range [][]string{
		{"tuntap", "add", "mode", "tap", "dev", tap}, {"link", "set", tap, "master", bridge, "up"},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %q: got %v, want no error\n%s", args, err, out)
		}
	}

	console = t.TempDir() + "/console.log"
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-machine", "q35,accel=tcg", "-smp", "2", "-m", "4096",
		"-nodefaults", "-display", "none", "-serial", "file:"+console, "-smbios", "type=1,serial=pxe1,product=Diskless",
		"-netdev", "tap,id=net,script=no,downscript=no,ifname="+tap, "-device", "virtio-rng-pci",
		"-device", fmt.Sprintf("virtio-net-pci,netdev=net,mac=%s,bootindex=1", pxeMAC))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, cmd.Start())
	t.Cleanup(func() { stop(); _ = cmd.Wait() })

	return console
}

func tail(t *testing.T, path string) string {
	t.Helper()
	lines := strings.Split(readFile(t, path), "\n")

	return strings.Join(lines[max(0, len(lines)-80):], "\n")
}
