package printer

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/lab/compare"
	"github.com/prelet/prelet/internal/lab/testfile"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// A heading that counts counts each file that is listed below it. One that names changes leaves out the kubelet's
// files, whose differences are these changes.
func TestHeadingCountsAllFiles(t *testing.T) {
	label := compare.NodeChange{Kind: "label", Name: "zone", Action: "update", From: "a", To: "b"}
	config := compare.NodeChange{Kind: "config", Name: "maxPods", Action: "update", From: "110", To: "64"}
	flags := compare.NodeChange{Kind: "file", Name: "/etc/default/kubelet", Action: "update", Listed: true}
	ca := compare.NodeChange{Kind: "file", Name: "/etc/kubernetes/pki/ca.crt", Action: "create"}

	for _, c := range []struct {
		changes []compare.NodeChange
		want    string
	}{
		{[]compare.NodeChange{label, config, ca, flags}, "1 label, 1 configuration field, 2 files"},
		{[]compare.NodeChange{label, flags}, "~ label zone: a → b"},
		{[]compare.NodeChange{flags}, "~ file /etc/default/kubelet  update"},
	} {
		if got, err := part("summary", c.changes); err != nil || got != c.want {
			t.Errorf("heading of %v: got %q, %v; want %q", c.changes, got, err, c.want)
		}
	}
}

// A page about a machine in place of this one has its path as title.
func TestNameOfNode(t *testing.T) {
	v := BootView{View: View{Plan: &evaluate.Plan{}}, Machine: "machines/dgx"}
	if got := nameNode(v); got != "machines/dgx" {
		t.Errorf("name of a recorded machine: got %q, want its path", got)
	}
	v.Machine = ""
	if got := nameNode(v); got != "This node" {
		t.Errorf("name of this machine: got %q, want This node", got)
	}
}

// The line of a test is not wider than a terminal: its run and machine are on lines of their own there.
func TestLineOfTestFits(t *testing.T) {
	r := testfile.MachineResult{File: "site/tests/rings.prelettest.hcl", Run: "canary", Machine: "machines/dgx-h100"}
	for width, want := range map[int]string{
		80: "pass  site/tests/rings.prelettest.hcl  canary  machines/dgx-h100\n",
		40: "pass  site/tests/rings.prelettest.hcl\n      canary\n      machines/dgx-h100\n",
	} {
		var b strings.Builder
		if err := TestText(&b, nil, r, Style{Width: width}); err != nil || b.String() != want {
			t.Errorf("width %d: got %q, %v; want %q", width, b.String(), err, want)
		}
	}
}
