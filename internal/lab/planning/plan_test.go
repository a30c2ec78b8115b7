package planning

import (
	"cmp"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/testing/osfile"
)

// TestUnitFlagsOfPlan: a plan checks the environment files of the kubelet's unit for the installed kubelet, as they will
// be with the files of the site, and not those of this machine for a recorded one.
func TestUnitFlagsOfPlan(t *testing.T) {
	root := t.TempDir()
	osfile.WriteTree(t, root, map[string]string{
		"/etc/systemd/system/kubelet.service": "[Service]\nEnvironmentFile=/etc/kubelet.d/*.env\n" +
			"EnvironmentFile=/etc/default/%N\nExecStart=/usr/bin/kubelet $A $B $C --hostname-override %H --node-labels=a=%H\n",
		"/etc/default/kubelet": "C=--dynamic-config-dir=x\n",
		"/etc/kubelet.d/a.env": "A=--network-plugin=cni\n",
		"/etc/kubelet.d/b.env": "B=--container-runtime=remote\n",
	})

	removed := evaluate.FileChange{File: desired.File{Path: "/etc/kubelet.d/b.env"}, Action: "delete"}
	fixed := desired.File{Path: "/etc/kubelet.d/a.env", Kind: desired.Regular, Text: secret.PlainText("A=--v=2\n")}
	for name, c := range map[string]struct {
		where   lab.Request
		version string
		plan    evaluate.Plan
		want    string // the flags that are named
	}{
		"the installed kubelet": {lab.Request{Where: machine.Where{Root: root}}, "v1.36.0", evaluate.Plan{}, "network-plugin container-runtime dynamic-config-dir"},
		"an older one":          {lab.Request{Where: machine.Where{Root: root}}, "v1.22.0", evaluate.Plan{}, ""},
		"a named one":           {lab.Request{Where: machine.Where{Root: root}, KubeletVersion: "1.22"}, "v1.36.0", evaluate.Plan{}, ""},
		"planned":               {lab.Request{Where: machine.Where{Root: root}}, "v1.36.0", evaluate.Plan{Node: desired.Node{Files: []desired.File{fixed}}}, "container-runtime dynamic-config-dir"},
		"removed":               {lab.Request{Where: machine.Where{Root: root}}, "v1.36.0", evaluate.Plan{Changed: evaluate.Changed{Changes: []evaluate.FileChange{removed}}}, "network-plugin dynamic-config-dir"},
		"a recording":           {lab.Request{Where: machine.Where{Root: root}, From: "a.prelet"}, "v1.36.0", evaluate.Plan{}, ""},
	} {
		c.plan.Kubelet.Version = &c.version
		AddUnitFlags(&c.plan, c.where, &lang.Site{}, cmp.Or(c.where.KubeletVersion, c.version))
		var got []string
		for _, d := range c.plan.Diagnostics {
			got = append(got, d.Summary)
		}
		for _, flag := range []string{"network-plugin", "container-runtime", "dynamic-config-dir", "node-labels", "hostname-override"} {
			isNamed := strings.Contains(strings.Join(got, " "), "not start with --"+flag)
			if isNamed != strings.Contains(c.want, flag) {
				t.Errorf("%s: got %q; want --%s named: %t", name, got, flag, !isNamed)
			}
		}
	}
}

// TestUnitFlagsOverWarning: the unit's own words make an error of a warning that a plan has, because it did not read all
// environment files. The place in the site stays.
func TestUnitFlagsOverWarning(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "etc/systemd/system")
	text := "[Service]\nEnvironment=A=--network-plugin=cni\nEnvironmentFile=-/etc/vendor.env\nExecStart=/usr/bin/kubelet $A\n"
	osfile.Write(t, filepath.Join(folder, "kubelet.service"), text, 0o644)

	const summary = "The kubelet would not start with --network-plugin"
	at := &hcl.Range{Filename: "site.hcl", Start: hcl.Pos{Line: 7}}
	version := "v1.36.0"
	p := evaluate.Plan{Diagnostics: hcl.Diagnostics{{Severity: hcl.DiagWarning, Summary: summary, Subject: at}}}
	p.Kubelet.Version = &version
	AddUnitFlags(&p, lab.Request{Where: machine.Where{Root: root}}, &lang.Site{}, version)

	if len(p.Diagnostics) != 1 || p.Diagnostics[0].Severity != hcl.DiagError || p.Diagnostics[0].Summary != summary ||
		p.Diagnostics[0].Subject != at {
		t.Errorf("got %v; want one error %q at %v", p.Diagnostics, summary, at)
	}
}
