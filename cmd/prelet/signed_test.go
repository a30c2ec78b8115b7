package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

func newSiteKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewSignerFromSigner(private)
	if err != nil {
		t.Fatal(err)
	}

	return key
}

// sign writes the list of the machine's site with a counter, and its signature.
func (m *machine) sign(key ssh.Signer, counter int) {
	m.t.Helper()
	site, err := os.ReadFile(m.root + "/etc/prelet/site.hcl")
	if err != nil {
		m.t.Fatal(err)
	}

	list := fmt.Sprintf("# counter: %d\n%x  site.hcl\n", counter, sha256.Sum256(site))
	sig, err := sshsig.Sign(strings.NewReader(list), key, sshsig.HashSHA512, "prelet-site")
	if err != nil {
		m.t.Fatal(err)
	}

	m.put("/etc/prelet/site.sha256", list)
	m.put("/etc/prelet/site.sha256.sig", string(sshsig.Armor(sig)))
}

// TestSignedSite boots a node whose image has a key for sites: with a signed site, and with each kind that is refused.
func TestSignedSite(t *testing.T) {
	t.Parallel()
	key := newSiteKey(t)
	signers := string(ssh.MarshalAuthorizedKey(key.PublicKey()))

	fresh := newMachine(t)
	fresh.put("/usr/lib/prelet/site-signers", signers)
	run, _ := fresh.boot()
	fresh.want("run of an unsigned site", run, ended{10, "", "site-signature"})
	if got := fresh.gateSays(); got != "" {
		t.Errorf("gate: got %q, want it shut", got)
	}

	m := newMachine(t)
	m.put("/usr/lib/prelet/site-signers", signers)
	m.sign(key, 7)
	run, verify := m.boot()
	m.want("run of a signed site", run, ended{0, "", ""})
	m.want("verify", verify, ended{0, "", ""})

	counter := filepath.Join(m.stateDir(), "site-counter")
	st, err := os.Stat(counter)
	if err != nil || st.Mode() != 0o600 {
		t.Fatalf("%s: got %v, %v; want a file of mode 0600", counter, st, err)
	}
	if got, err := os.ReadFile(counter); string(got) != "7\n" {
		t.Errorf("%s: got %q, %v; want 7", counter, got, err)
	}

	remove := func(name string) func() {
		return func() {
			if err := os.Remove(m.root + name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, test := range []struct {
		what   string
		change func()
		want   string
	}{
		{"older", func() { m.sign(key, 6) }, "counter is 6"},
		{"another key", func() { m.sign(newSiteKey(t), 8) }, "not one of the 1 trusted keys"},
		{"changed", func() { m.sign(key, 8); m.put("/etc/prelet/site.hcl", "locals {}\n") }, "site.hcl was changed"},
		{"no signature", remove("/etc/prelet/site.sha256.sig"), "no such file"},
		{"no list", remove("/etc/prelet/site.sha256"), "contains site.sha256"},
		{"no site", remove("/etc/prelet/site.hcl"), "contains site.sha256"},
	} {
		test.change()
		m.reboot()
		run, _ := m.boot()
		m.want("run, "+test.what, run, ended{10, "", "Generation 1 stays in charge."})
		if said := strings.Join(strings.Fields(run.errors), " "); !strings.Contains(said, test.want) {
			t.Errorf("%s: got %q, want %q", test.what, said, test.want)
		}
		m.want("status, "+test.what, m.as("", "status"), ended{2, "site-signature", ""})
		if got, want := m.gateSays(), "PRELET_GENERATION=1"; got != want {
			t.Errorf("gate, %s: got %q, want %q", test.what, got, want)
		}
	}
}
