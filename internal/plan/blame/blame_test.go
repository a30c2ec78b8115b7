package blame

import (
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/testing/table"
	"github.com/prelet/prelet/stages/builtin"
)

// TestServer gives the server what is wrong in its data, and nothing else, also if that ends with the same exit
// status.
func TestServer(t *testing.T) {
	text := "cluster {\n  servers = [\"192.0.2.1:6443\"]\n  ca_file = \"/a\"\n}\n" +
		"stage \"fetch-config\" \"a\" {\n  config_map = \"a/b\"\n}\n"
	s, diags := lang.Parse([]tape.SiteFile{{Name: "site.hcl", Text: text}}, lang.LoadOptions{Stages: builtin.Stages()})
	if diags.HasErrors() {
		t.Fatalf("parsing the site: got %v, want no error", diags)
	}
	from := []origin.Origin{{Role: origin.Value, Ref: "stage.fetch-config.a.data"}}
	base := desired.Base{ConfigFrom: from, FlagsFrom: from}
	for code, want := range table.YAML[map[fault.Code]fault.Code](t, `
kubelet-config: cluster-unusable
flags-invalid: cluster-unusable
label-forbidden: cluster-unusable
file-missing: file-missing
file-unusable: file-unusable
default-choice: default-choice
cannot-write: cannot-write
`) {
		ds := Server(s, base, hcl.Diagnostics{origin.Error(code, hcl.Range{}, "wrong", "so")})
		if got := origin.CodeOf(ds[0]); got != want {
			t.Errorf("%s: got code %s, want %s", code, got, want)
		}
	}
}
