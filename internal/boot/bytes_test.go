package boot

import (
	"context"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestForeignBytesStay: values of the language combine e and an accent to one character (Unicode NFC). Text that is
// not the site's own stays as it is, or the site hears of it.
func TestForeignBytesStay(t *testing.T) {
	const accent = "e\u0301"
	s, diags := parseCase(&txtar.Archive{Files: []txtar.File{{Name: "site.hcl", Data: []byte(`
stage "detect-hw" "node" {}
stage "label" "l" { labels = { "example.com/a" = "b" } }
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config { layout = "drop-in" }
}
`)}}})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	const flags = "# caf" + accent + "\nFOO=\"" + accent + "\"\n"
	p := Run(
		context.Background(),
		s,
		Options{Source: fakeWorld(t, &txtar.Archive{Files: []txtar.File{{Name: "world", Data: []byte(
			`original /etc/default/kubelet => {"value":{"exists":true,"text":"` + strings.NewReplacer("\n", `\n`, `"`, `\"`).
				Replace(flags) +
				`"}}` + "\n" +
				`original config.yaml => {"value":{"exists":true,"text":"` + strings.ReplaceAll(
				testKubeletConfig,
				"\n",
				`\n`,
			) + `"}}` + "\n",
		)}}})},
	)
	for _, f := range p.Node.Files {
		if got := f.Text.Template(); f.Purpose == "kubelet-flags" && !strings.HasPrefix(got, flags) {
			t.Errorf("got %q, want it to begin with %q", got, flags)
		}
	}
	if len(p.Node.Files) != 2 {
		t.Errorf("got %d files, %v, want 2", len(p.Node.Files), p.Diagnostics)
	}

	for site, want := range map[string]string{
		`file "f" {
  path    = "/etc/x"
  content = file("/etc/src")
}`: "/etc/src has letters with combining marks",
		`file "f" {
  path    = "/etc/x"
  content = stage.fetch-config.x.value.a
}`: "warning encoding site.hcl:3:39 /etc/src has combining characters",
	} {
		s, diags := parseCase(&txtar.Archive{Files: []txtar.File{{Name: "site.hcl", Data: []byte(`
stage "detect-hw" "node" {}
stage "fetch-config" "x" { file     = "/etc/src" }
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config { when = false }
  kubelet_flags { when = false }
` + site + `
}
`)}}})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		p := Run(
			context.Background(),
			s,
			Options{Source: fakeWorld(t, &txtar.Archive{Files: []txtar.File{{Name: "world", Data: []byte(
				`file /etc/src => {"value":{"text":"a: ` + accent + `"}}` + "\n")}}})},
		)
		if got := showDiagnostics(p.Diagnostics); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %q", site, got, want)
		}
	}
}
