package sites

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/testing/osfile"
)

func TestInit(t *testing.T) {
	dir := t.TempDir()
	osfile.WriteTree(
		t,
		dir,
		map[string]string{"taken/10-base.hcl": "", "vars/a.prelet.vars": "", "file": "", "ca.crt": "no PEM"},
	)
	in := func(name string) string { return filepath.Join(dir, name) }

	for _, c := range []struct {
		name    string
		change  func(*InitOptions)
		code    fault.Code // of the error
		message string
	}{
		{name: "good", change: func(*InitOptions) {}},
		{name: "two servers", change: func(o *InitOptions) { o.Servers = []string{"a:6443", "b:6443"} }},
		{"no server", func(o *InitOptions) { o.Servers = nil }, fault.Usage, "needs an API server"},
		{"no pin", func(o *InitOptions) { o.Hashes = nil }, fault.Usage, "and its pins"},
		{"a bad server", func(o *InitOptions) { o.Servers = []string{"http://a"} }, fault.Usage, "--server: "},
		{
			"a server twice", func(o *InitOptions) { o.Servers = []string{"a:6443", "https://a:6443"} },
			fault.Usage, "is there twice, first as",
		},
		{
			"a bad pin", func(o *InitOptions) { o.Hashes = []string{"c4fb"} },
			fault.Usage, "--ca-cert-hash: invalid pin \"c4fb\"",
		},
		{"no CA file", func(o *InitOptions) { o.CAFile = in("none") }, fault.Usage, "--ca-file "},
		{"a CA file without PEM", func(o *InitOptions) { o.CAFile = in("ca.crt") }, fault.Usage, "--ca-file "},
		{
			"a node that has not joined", func(o *InitOptions) { o.FromNode, o.Root = true, dir },
			fault.Usage, "--from-node: this node has not joined",
		},
		{
			"a site that exists", func(o *InitOptions) { o.Dir = in("taken") },
			fault.CannotWrite, "has a site already (10-base.hcl)",
		},
		{
			"a vars file of a site", func(o *InitOptions) { o.Dir = in("vars") },
			fault.CannotWrite, "has a site already (a.prelet.vars)",
		},
		{"below a file", func(o *InitOptions) { o.Dir = in("file") }, fault.CannotWrite, "not a directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := InitOptions{
				Dir: filepath.Join(t.TempDir(), "new"), Servers: []string{"h:6443"}, Hashes: []string{testPin},
			}
			c.change(&o)

			got, err := Init(newTestEnv(), o)
			if fault.CodeOf(err) != c.code || err != nil && !strings.Contains(err.Error(), c.message) {
				t.Fatalf("Init: %v, want code %q and a message with %q", err, c.code, c.message)
			}
			if c.code != "" {
				if text, err := os.ReadFile(filepath.Join(o.Dir, "site.hcl")); len(text) > 0 {
					t.Errorf("Init: site.hcl has %q, %v; want nothing written", text, err)
				}
				return
			}
			text, err := os.ReadFile(got)
			must(t, err)
			for _, s := range append(o.Servers, o.Hashes...) {
				if !strings.Contains(string(text), `"`+s+`"`) {
					t.Errorf("Init: the site does not contain %q:\n%s", s, text)
				}
			}
		})
	}
}

// TestInitKeepsTheCause: why kubelet.conf cannot be read stays in the error as a fault, and not only as text.
func TestInitKeepsTheCause(t *testing.T) {
	_, err := Init(newTestEnv(), InitOptions{Dir: t.TempDir(), FromNode: true, Root: t.TempDir()})

	var cause *fault.Fault
	if fault.CodeOf(err) != fault.Usage || !errors.As(errors.Unwrap(err), &cause) || cause.Code != fault.Absent {
		t.Errorf("got %v with the cause %+v; want the code %q over %q", err, cause, fault.Usage, fault.Absent)
	}
}
