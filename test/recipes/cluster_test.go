package recipes

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/demo"
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
type cluster struct {
	url, pin, token string
	words           []string // of a call of kubectl
}

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

	program, err := filepath.Abs(".cache/bin/cluster")
	if err != nil {
		return started, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", program, "./cmd/cluster")
	build.Dir, build.Env = "../kube", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return started, fmt.Errorf("test/kube/cmd/cluster: %w\n%s", err, out)
	}
	cmd := exec.CommandContext(ctx, program, "-cache", os.Getenv(kube), "-nodes", "0", "-bind", "0.0.0.0")
	cmd.Dir, cmd.Stderr = "../kube", os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return started, err
	}
	if err := cmd.Start(); err != nil {
		return started, err
	}
	started = append(started, cmd)

	up := regexp.MustCompile(`at https://127\.0\.0\.1:(\d+) after .*, token (\S+)`)
	for lines := bufio.NewScanner(out); lines.Scan() && len(shared.words) == 0; {
		if found := up.FindStringSubmatch(lines.Text()); found != nil {
			shared.url, shared.token = "https://"+address+":"+found[1], found[2]
		}
		if _, words, ok := strings.Cut(lines.Text(), "kubectl:"); ok {
			shared.words = strings.Fields(words)[:3] // kubectl --kubeconfig FILE
		}
	}
	if len(shared.words) == 0 {
		return started, errors.New("the cluster did not start")
	}
	shared.pin, err = pin(filepath.Join(filepath.Dir(shared.words[2]), "pki", "ca.crt"))

	return started, err
}

// pin returns what `kubeadm token create --print-join-command` prints of a CA.
func pin(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return "", fmt.Errorf("%s is not a certificate", file)
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", err
	}

	return (&demo.Authority{Cert: ca}).CAHash(), nil
}

func (c cluster) kubectl(args ...string) (string, error) {
	out, err := exec.Command(c.words[0], append(c.words[1:], args...)...).CombinedOutput()
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
