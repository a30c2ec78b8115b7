package sites

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/testing/osfile"
)

const testPin = "sha256:c4fb9ec8e0051b9a7bec575444da6356eb9bad26f409264e7719b16424e2c270"

func TestImport(t *testing.T) {
	dir := t.TempDir()
	osfile.WriteTree(t, dir, map[string]string{
		"good.json": `{"apiserver": "h:6443"}`, "bad.json": "{\n\"apiserver\": }", "full/x": "", "file": "",
		"flow.yaml": "{apiVersion: kubeadm.k8s.io/v1beta4, kind: JoinConfiguration, discovery: {bootstrapToken: " +
			"{apiServerEndpoint: 'h:6443', caCertHashes: ['" + testPin + "']}}}",
	})
	in := func(name string) string { return filepath.Join(dir, name) }

	for _, c := range []struct {
		name    string
		change  func(*ImportOptions)
		code    fault.Code // of the error
		message string
		diags   bool // the refusal is in the diagnostics
	}{
		{name: "good", change: func(*ImportOptions) {}},
		{name: "an empty folder", change: func(o *ImportOptions) { o.Dir = t.TempDir() }},
		{"no pin", func(o *ImportOptions) { o.Hashes = nil }, fault.Usage, "--ca-cert-hash is missing", false},
		{
			"a bad pin", func(o *ImportOptions) { o.Hashes = []string{testPin, "c4fb"} },
			fault.Usage, "--ca-cert-hash: ", false,
		},
		{
			"a bad credential", func(o *ImportOptions) { o.Credential = "a/b" },
			fault.Usage, "--token-credential: ", false,
		},
		{"no folder", func(o *ImportOptions) { o.Dir = "" }, fault.Usage, "--out is missing", false},
		{"a full folder", func(o *ImportOptions) { o.Dir = in("full") }, fault.Usage, "not empty", false},
		{"a file for a folder", func(o *ImportOptions) { o.Dir = in("file") }, fault.Usage, "this is a file", false},
		{"below a file", func(o *ImportOptions) { o.Dir = in("file/x") }, fault.Usage, "this is a file", false},
		{
			"a name that is too long", func(o *ImportOptions) { o.Dir = in(strings.Repeat("x", 300)) },
			fault.CannotWrite, "--out ", false,
		},
		{"no init-config", func(o *ImportOptions) { o.File = in("none") }, fault.Usage, "none", false},
		{"a folder for the init-config", func(o *ImportOptions) { o.File = dir }, fault.Usage, "it is a folder", false},
		{name: "an empty file", change: func(o *ImportOptions) {
			o.File = in("file")
			o.Hashes = nil
		}, diags: true},
		{name: "a JoinConfiguration in flow style", change: func(o *ImportOptions) {
			o.File = in("flow.yaml")
			o.Hashes = nil
		}},
		{name: "not JSON", change: func(o *ImportOptions) { o.File = in("bad.json") }, diags: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := ImportOptions{
				File: in("good.json"), Dir: filepath.Join(t.TempDir(), "new"),
				Hashes: []string{testPin}, Credential: "token",
			}
			c.change(&o)

			got, err := Import(newTestEnv(), o)
			if fault.CodeOf(err) != c.code || err != nil && !strings.Contains(err.Error(), c.message) {
				t.Fatalf("Import: %v, want code %q and a message with %q", err, c.code, c.message)
			}
			if got.Diagnostics.HasErrors() != c.diags {
				t.Errorf("Import: diagnostics %v, want errors: %v", got.Diagnostics, c.diags)
			}
			want := c.code == "" && !c.diags
			if _, err := os.Stat(filepath.Join(o.Dir, "site.hcl")); (err == nil) != want || (got.Path != "") != want {
				t.Errorf("Import: path %q, the file: %v; want it written: %v", got.Path, err, want)
			}
		})
	}
}
