package commit

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
)

// A flag in the site's own file is reported with its line, whatever the format of the file.
func TestSourcesOfFlagsInFiles(t *testing.T) {
	const src = `stage "write" "kubelet" {
  file "env" {
    content = <<-EOT
      # --v=9 says a lot
      ÄÖ="x" KUBELET_KUBEADM_ARGS="--network-plugin=cni --node-labels=a.example/b=c,d=e --register-with-taints=gpu=yes:NoSchedule,t:NoExecute"
      E='--${var.name}=5' no--flag
    EOT
  }
}
`

	text, err := secret.TextOf(cty.StringVal(`# --v=9 says a lot
ÄÖ="x" KUBELET_KUBEADM_ARGS="--network-plugin=cni --node-labels=a.example/b=c,d=e --register-with-taints=gpu=yes:NoSchedule,t:NoExecute"
E='--max-pods=5' no--flag
`))
	must(t, err)

	start := strings.Index(src, "<<-EOT")
	whole := hcl.Range{
		Filename: "s.hcl",
		Start:    hcl.Pos{Line: 3, Column: 15, Byte: start},
		End:      hcl.Pos{Line: 7, Column: 8, Byte: strings.Index(src, "EOT\n  }") + 3},
	}
	f := desired.File{
		Path:    "/x",
		Kind:    desired.Regular,
		Purpose: "file",
		Text:    text,
		Origins: []origin.Origin{{Ref: "write.kubelet", Range: whole}},
	}
	p := &evaluate.Plan{
		Site: &lang.Site{Sources: map[string][]byte{"s.hcl": []byte(src)}},
		Node: desired.Node{
			Files: []desired.File{f},
			Flags: []desired.Flag{
				{
					Name: "v",
					Origins: []origin.Origin{
						{Ref: "flags", Range: hcl.Range{Filename: "s.hcl", Start: hcl.Pos{Line: 1, Column: 1}}},
					},
				},
			},
		},
	}

	got := collectSources(p)
	for item, want := range map[string]string{
		"flag/v":              "s.hcl:1:1, flags", // the plan's own flags take precedence
		"flag/network-plugin": "s.hcl:5:36, write.kubelet", "flag/node-labels": "s.hcl:5:57, write.kubelet",
		"flag/max-pods":     "s.hcl:3:15, write.kubelet",
		"label/a.example/b": "s.hcl:5:57, write.kubelet", "label/d": "s.hcl:5:57, write.kubelet",
		"taint/gpu": "s.hcl:5:89, write.kubelet", "taint/t": "s.hcl:5:89, write.kubelet",
		"flag/flag": "", "file//x": "s.hcl:3:15, write.kubelet",
	} {
		if got[item] != want {
			t.Errorf("%s: %q, want %q", item, got[item], want)
		}
	}

	p.Node.Files[0].Purpose = "kubelet-flags" // a rendered file has its sources already
	if got := collectSources(p); got["flag/max-pods"] != "" {
		t.Errorf("flag/max-pods of a rendered file: got %q; want none", got["flag/max-pods"])
	}
}
