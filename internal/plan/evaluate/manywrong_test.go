package evaluate

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/growth"
)

// manyViolations is how many violations of one kind are printed.
const manyViolations = 10

// TestManyWrongKeys checks ConfigMaps of up to 8,000 wrong keys of one map. The time must not grow with the square of
// that number, and one kind of message is counted after the tenth.
func TestManyWrongKeys(t *testing.T) {
	s := mustParse(t, cluster+`
stage "fetch-ca" "c" {}
stage "fetch-config" "k" { config_map = "kube-system/kubelet-config" }
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
}
`)
	var p *Plan
	growth.Check(t, 2_000, func(size int) func() {
		config := testKubeletConfig + "evictionHard:\n" + numbered(size, "  x%d.available: 1Mi\n")
		source := usualWith(map[tape.Kind]tape.Answer{
			tape.KindObject: tape.Object.Answer(tape.ObjectAns{Data: map[string]string{"kubelet": config}}),
		})
		return func() { p = Run(context.Background(), s, RunInput{Source: source}) }
	})

	wrong, counted := 0, ""
	for _, d := range p.Diagnostics {
		if d.Severity == hcl.DiagError {
			wrong++
			counted = d.Summary + ": " + d.Detail
		}
	}
	if wrong != manyViolations+1 || !strings.Contains(counted, "7990 more") {
		t.Errorf("got %d errors, the last one %q; want %d and one that counts 7990 more", wrong, counted, manyViolations)
	}
}

// TestManyFlags judges more flags of one rule than are printed, as on a node whose installer sets everything by flags.
func TestManyFlags(t *testing.T) {
	const names = "address anonymous-auth authorization-mode cluster-domain healthz-port max-pods " +
		"node-status-update-frequency pod-manifest-path pod-max-pids port read-only-port resolv-conf"
	var flags strings.Builder
	for name := range strings.FieldsSeq(names) {
		fmt.Fprintf(&flags, "      %q = %q\n", name, "")
	}
	s := mustParse(t, cluster+`
stage "fetch-ca" "c" {}
stage "fetch-config" "k" { config_map = "kube-system/kubelet-config" }
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  kubelet_flags {
    flags = {
`+flags.String()+`
    }
  }
}
`)

	p := Run(context.Background(), s, RunInput{Source: usualSource()})

	deprecated, counted := 0, ""
	for _, d := range p.Diagnostics {
		if origin.CodeOf(d) == fault.KubeletDeprecated {
			deprecated++
			counted = d.Summary + ": " + d.Detail
		}
	}
	if deprecated != manyViolations+1 || !strings.Contains(counted, "--") || !strings.Contains(counted, "2 more") {
		t.Errorf("got %d deprecated flags, the last one %q, in %v; want %d and one that counts 2 more",
			deprecated, counted, p.Diagnostics, manyViolations+1)
	}
}
