package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/platform/registry"
	"github.com/prelet/prelet/internal/testing/ociserver"
	"github.com/prelet/prelet/internal/testing/osfile"
)

// hostileNode is an image whose node has pulled a signed site, and what the command prints about it.
type hostileNode struct {
	root           string
	stdout, stderr bytes.Buffer
}

// command runs a command line below the root, and returns its exit status.
func (n *hostileNode) command(client *registry.Client, args ...string) int {
	n.stdout.Reset()
	n.stderr.Reset()
	c := cli{stdout: &n.stdout, stderr: &n.stderr, getenv: func(string) string { return "" }}
	if client != nil {
		c.delivery.Registry = client
	}

	return c.main(append(args, "--root", n.root))
}

func (n *hostileNode) write(t *testing.T, place, more string) {
	t.Helper()
	osfile.Write(t, n.root+"/usr/lib/prelet/site/delivery.hcl",
		fmt.Sprintf("delivery {\n  from = [%q]\n%s}\n", place, more), 0o644)
}

// newHostileNode signs and pushes a site to a layout, from which a node pulls it, all by commands.
func newHostileNode(t *testing.T) *hostileNode {
	t.Helper()
	dir := t.TempDir()
	n := &hostileNode{root: dir + "/root"}
	keygen := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", dir+"/key")
	if out, err := keygen.CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: got %v, %s; want a key", err, out)
	}
	osfile.Write(t, dir+"/site/pulled.hcl", `stage "restart" "kubelet" {}`+"\n", 0o644)
	place := "oci-layout:" + dir + "/shelf:stable"
	for _, args := range [][]string{
		{"site", "sign", dir + "/site", "--key", dir + "/key", "--name", "gpu", "--counter", "1"},
		{"push", dir + "/site", place},
	} {
		c := cli{stdout: &n.stdout, stderr: &n.stderr, getenv: os.Getenv}
		if status := c.main(args); status != 0 {
			t.Fatalf("%s: got exit status %d, want 0:\n%s", args, status, n.stderr.String())
		}
	}

	osfile.Write(t, n.root+"/usr/lib/prelet/site-signers", osfile.Read(t, dir+"/key.pub"), 0o644)
	n.write(t, place, "")
	if status := n.command(nil, "site", "update"); status != 0 {
		t.Fatalf("the first update: got exit status %d, want 0:\n%s", status, n.stderr.String())
	}

	return n
}

// TestHostileRegistries lets the command of prelet-site.service ask a registry of each hostile manner, on an image that
// has a signed site: it ends in time with the exit status of its code, and names the reason and the site that is kept;
// that site is untouched, and valid.
func TestHostileRegistries(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt) // what package signal starts once must not be in the bubble of a test
	t.Cleanup(func() { signal.Stop(signals) })
	good := newHostileNode(t)

	const least = 40
	manners := ociserver.Manners()
	if len(manners) < least {
		t.Errorf("got %d manners, want at least %d", len(manners), least)
	}
	for _, m := range manners {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			n := &hostileNode{root: filepath.Join(t.TempDir(), "root")}
			if err := os.CopyFS(n.root, os.DirFS(good.root)); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { n.updateFrom(t, m) })

			if status := n.command(nil, "validate"); status != 0 || !strings.Contains(n.stdout.String(), "2 files") {
				t.Errorf("validate: got exit status %d, want 0, with the pulled layer:\n%s%s", status, &n.stdout, &n.stderr)
			}
		})
	}
}

// updateFrom asks a registry with the clock of testing/synctest.
func (n *hostileNode) updateFrom(t *testing.T, m ociserver.Manner) {
	s := m.Start()
	defer s.Close()
	n.write(t, s.Host+"/"+ociserver.Reference, "")
	client := &registry.Client{
		Roots: x509.NewCertPool(), Dial: s.Dial, Patience: time.Second, Total: 10 * time.Second,
		Credential: func(context.Context, string, string) (string, string, error) { return "u", "canary-password", nil },
	}
	client.Roots.AppendCertsFromPEM(s.CA)

	sites := filepath.Join(n.root, machine.StateFolder, machine.SitesFolder)
	before, err := osfile.Look(sites)
	if err != nil {
		t.Fatal(err)
	}
	was, err := machine.ReadDelivery(filepath.Join(n.root, machine.StateFolder))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	status := n.command(client, "site", "update")
	took := time.Since(began)

	want := map[fault.Code]int{fault.Registry: 20, fault.RegistryDenied: 22}[m.Code]
	words := strings.Join(strings.Fields(n.stderr.String()), " ") // without its line breaks
	if status != want || took > time.Minute || n.stdout.Len() > 0 ||
		!strings.Contains(words, string(m.Code)) || !strings.Contains(words, "node keeps the site "+was.Digest) {
		t.Errorf("got exit status %d after %s, want %d within a minute, and what it means:\n%s%s",
			status, took, want, &n.stdout, &n.stderr)
	}
	d, err := machine.ReadDelivery(filepath.Join(n.root, machine.StateFolder))
	if err != nil || d.Digest != was.Digest || !strings.Contains(d.Failed, strings.TrimPrefix(m.Text, "pull ")) ||
		!d.LookedAt.Equal(was.LookedAt) {
		t.Errorf("got the record %+v, %v; want the first site, and a look that failed with %q", d, err, m.Text)
	}
	if strings.Contains(words+d.Failed, "canary") || s.Leaked.Load() {
		t.Errorf("got a secret in %q, want none", n.stderr.String())
	}
	checkHarmless(t, "stderr", n.stderr.String())

	after, err := osfile.Look(sites)
	for _, tree := range []map[string]osfile.Inode{before, after} {
		delete(tree, "")
		delete(tree, "/"+machine.DeliveryFile)
	}
	if err != nil || !reflect.DeepEqual(after, before) {
		t.Errorf("got the files %v, %v; want those from before: %v", after, err, before)
	}
}
