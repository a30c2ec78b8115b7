package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prelet/prelet/test/nspawn"
)

const (
	wanted = "PRELET_RECIPES"    // set by make e2e-recipes
	kube   = "PRELET_KUBE_CACHE" // the folder that test/kube/build.sh has filled

	bridge  = "nodes"          // as in packaging/image/recipes/pxe/dnsmasq.conf
	address = "198.51.100.1"   // of this side of the bridge; it is in the certificate of the API server
	gateway = "198.51.100.254" // leads nowhere

	tftpRoot = "/srv/tftp" // of the recipe's dnsmasq.conf, on a mount of the tests
)

func requireWanted(t *testing.T) {
	t.Helper()
	if os.Getenv(wanted) == "" {
		t.Skip("sudo make e2e-recipes runs this test")
	}
}

// cluster is a real control plane, started by test/kube/cmd/cluster.
type cluster struct{ url, pin, token, folder, version string }

// shared is the cluster of all tests, because none changes it but by joining under its own name.
var shared cluster

// TestMain runs the tests in mount and network namespaces of their own: no mount of them stays, and the bridge,
// its DHCP server and its addresses are not those of another run.
func TestMain(tests *testing.M) {
	if os.Getenv(wanted) == "" {
		os.Exit(tests.Run())
	}
	if os.Getuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests boot machines, which only root may. Try: sudo make e2e-recipes")
		os.Exit(1)
	}
	if !nspawn.InNamespaces() {
		os.Exit(nspawn.Unshare(syscall.CLONE_NEWNS | syscall.CLONE_NEWNET))
	}

	status, err := 1, errors.Join(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""), startNetwork())
	if err == nil {
		ctx, stop := context.WithCancel(context.Background())
		var servers []*exec.Cmd
		if servers, err = startServers(ctx); err == nil {
			status = tests.Run()
		}
		stop()
		for _, s := range servers {
			_ = s.Wait()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "before the tests:", err)
	}
	os.Exit(status)
}

func startNetwork() error {
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", bridge, "type", "bridge"},
		{"addr", "add", address + "/24", "dev", bridge},
		{"link", "set", bridge, "up"},
		{"route", "add", "default", "via", gateway}, // kubeadm refuses a machine without one
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %q: %w: %s", args, err, out)
		}
	}

	// A name server that refuses at once: nothing outside can be reached, and programs would wait for an answer.
	const own = "/run/prelet-recipes-resolv.conf"
	if err := os.WriteFile(own, []byte("nameserver 127.0.0.1\n"), 0o644); err != nil {
		return err
	}

	return errors.Join(
		syscall.Mount(own, "/etc/resolv.conf", "", syscall.MS_BIND, ""), os.Remove(own),
		syscall.Mount("tmpfs", "/srv", "tmpfs", 0, "mode=755"), os.Mkdir(tftpRoot, 0o755),
	)
}

// startServers starts the cluster, and the DHCP server of the machines.
func startServers(ctx context.Context) (started []*exec.Cmd, err error) {
	dhcp := exec.CommandContext(ctx, "dnsmasq", "--conf-file=../../packaging/image/recipes/pxe/dnsmasq.conf",
		"--no-daemon", "--no-ping", "--dhcp-leasefile=/dev/null")
	if err := dhcp.Start(); err != nil {
		return nil, err
	}
	started = append(started, dhcp)

	cmd := exec.CommandContext(ctx, "go", "run", "-trimpath", "./cmd/cluster",
		"-json", "-cache", os.Getenv(kube), "-bind", "0.0.0.0")
	cmd.Dir, cmd.Env, cmd.Stderr = "../kube", append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	untilClosed, err := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err, err2); err != nil {
		return started, err
	}
	cmd.Cancel, cmd.WaitDelay = untilClosed.Close, 10*time.Second
	if err := cmd.Start(); err != nil {
		return started, err
	}
	started = append(started, cmd)

	var c struct {
		URL, Token, Folder, Version string
		Pin                         string `json:"ca_hash"`
	}
	err = json.NewDecoder(out).Decode(&c)
	port := c.URL[strings.LastIndex(c.URL, ":")+1:]
	shared = cluster{"https://" + address + ":" + port, c.Pin, c.Token, c.Folder, c.Version}

	return started, err
}

func (c cluster) kubectl(args ...string) (string, error) {
	args = append([]string{"--kubeconfig", c.folder + "/super-admin.conf"}, args...)
	out, err := exec.Command(filepath.Join(os.Getenv(kube), c.version, "kubectl"), args...).CombinedOutput()
	return string(out), err
}

// variables returns the values of the variables of packaging/image/site that have no default.
func (c cluster) variables() string {
	return fmt.Sprintf("api_server = %q\nca_cert_hash = %q\n", c.url, c.pin)
}

// fill replaces the names of a recipe's values with those of the cluster.
func (c cluster) fill(text string) string {
	return strings.NewReplacer("https://10.0.0.11:6443", c.url, "sha256:PIN", c.pin).Replace(text)
}
