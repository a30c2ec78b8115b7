package evaluate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/testing/table"
)

// TestEmptyListInDropIn: a kubelet that merges drop-ins loses an empty list of config.yaml to its default, so that
// the drop-in says it again; the only one that has another default than none.
func TestEmptyListInDropIn(t *testing.T) {
	for base, want := range map[string]string{
		"cgroupsPerQOS: false\nenforceNodeAllocatable: []\nallowedUnsafeSysctls: []\n": "enforceNodeAllocatable: []\n" +
			"kind: KubeletConfiguration\n",
		"enforceNodeAllocatable: [pods]\n": "kind: KubeletConfiguration\n",
		"maxPods: 20\n":                    "kind: KubeletConfiguration\n",
	} {
		p := planSite(t, `
stage "detect-hw" "node" {}
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config { layout = "drop-in" }
}
`, original("config.yaml", testKubeletConfig+base))
		if !p.Complete {
			t.Fatalf("got %v\nwant a complete plan", p.Diagnostics)
		}
		want = "apiVersion: kubelet.config.k8s.io/v1beta1\n" + want
		if got := textOf(p, "kubelet-config"); got != want {
			t.Errorf("next to %s: got %q, want %q", base, got, want)
		}
	}
}

// TestDropInsOfTheImage: what a drop-in of the image takes from the site, or the site from it, is said; taints of the
// site that would be lost are refused; and the plan has what the kubelet gets, with its place.
func TestDropInsOfTheImage(t *testing.T) {
	const dir = "/etc/kubernetes/kubelet.conf.d"
	for _, c := range table.YAML[[]struct {
		Name, Stages, Config, Flags string
		Early, Late                 string // fields of the image's drop-ins
		Want                        string // by line; "!" before what must not be there
	}](t, `
- name: a later one takes taints
  stages: stage "taint" "t" { taints = ["s=1:NoSchedule"] }
  late: "registerWithTaints: [{key: z, effect: NoSchedule}]\n"
  want: |-
    exit 10
    error conflict site.hcl:3:31 Taint s=1:NoSchedule has no effect here
    95-z.conf
- name: a later one has them too
  stages: stage "taint" "t" { taints = ["s=1:NoSchedule"] }
  late: "registerWithTaints: [{key: s, value: \"1\", effect: NoSchedule}]\n"
  want: |-
    exit 0
    !no effect
    taint s=1:NoSchedule of taint.t
- name: a later one loses nothing
  late: "registerWithTaints: [{key: z, effect: NoSchedule}]\n"
  want: |-
    exit 0
    taint z:NoSchedule of /etc/kubernetes/kubelet.conf.d/95-z.conf
- name: taints by flag
  stages: stage "taint" "t" { taints = ["s=1:NoSchedule"] }
  flags: taints = "flag"
  late: "registerWithTaints: [{key: z, effect: NoSchedule}]\n"
  want: |-
    exit 0
    taint s=1:NoSchedule of taint.t
    !taint z
- name: a later one takes amounts
  config: patch = { maxPods = 20, kubeReserved = { memory = "1Gi" }, podPidsLimit = 100 }
  late: |
    kubeReserved: {memory: 2Gi}
    maxPods: 30
    podPidsLimit: 100
  want: |-
    exit 0
    warning conflict site.hcl
    kubeReserved.memory has no effect here
    maxPods has no effect here
    !podPidsLimit has
- name: an earlier one loses taints
  stages: stage "taint" "t" { taints = ["s=1:NoSchedule"] }
  early: "registerWithTaints: [{key: d, effect: NoSchedule}]\n"
  want: |-
    exit 0
    registerWithTaints of the image is replaced
    10-a.conf
    taint s=1:NoSchedule of taint.t
- name: an earlier one keeps taints
  early: "registerWithTaints: [{key: d, effect: NoSchedule}]\n"
  want: |-
    exit 0
    taint d:NoSchedule of /etc/kubernetes/kubelet.conf.d/10-a.conf
- name: an earlier one sets resolvConf
  early: "resolvConf: /etc/own.conf\n"
  want: |-
    exit 0
    !/run/systemd
- name: an earlier one has a value that the kubelet refuses
  early: "maxPods: -1\n"
  want: |-
    exit 10
    The kubelet would not start with maxPods
    set by /etc/kubernetes/kubelet.conf.d/10-a.conf
- name: a later one replaces a value that the kubelet refuses
  early: "oomScoreAdj: 2000\n"
  late: "oomScoreAdj: -999\n"
  want: |-
    exit 0
    !oomScoreAdj 2000
- name: a later one hides a value of the wrong type
  early: "oomScoreAdj: x\n"
  late: "oomScoreAdj: -999\n"
  want: |-
    exit 0
    !oomScoreAdj
- name: two files refuse each other
  early: "imageGCHighThresholdPercent: 50\n"
  want: |-
    exit 10
    imageGCLowThresholdPercent 80 must be less than
    set by /etc/kubernetes/kubelet.conf.d/10-a.conf
- name: parallel pulls without the default that the file has
  late: "maxParallelImagePulls: 4\n"
  want: |-
    exit 10
    more than 1 needs serializeImagePulls: false
    set by /etc/kubernetes/kubelet.conf.d/95-z.conf
- name: a duplicate key
  late: |
    maxPods: 20
    maxPods: 30
  want: |-
    exit 10
    The kubelet would not start with /etc/kubernetes/kubelet.conf.d/95-z.conf
    maxPods
- name: resolvConf is not set
  want: |-
    exit 0
    setting /resolvConf
`) {
		for _, layout := range []string{"drop-in", "file"} {
			t.Run(c.Name+", layout "+layout, func(t *testing.T) {
				want, flags, base := c.Want, c.Flags, ""
				if layout == "file" { // all drop-ins come later
					if strings.Contains(c.Want, "is replaced") {
						want = "exit 10\nhas no effect here"
					}
					flags += "\nflags = { \"config-dir\" = \"" + dir + "\" }"
					base = fmt.Sprintf("base = %q", testKubeletConfig)
				}
				p := planSite(t, fmt.Sprintf(`
stage "detect-hw" "node" {}
%s
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config {
    layout = %q
    %s
    %s
  }
  kubelet_flags {
    %s
  }
}
`, c.Stages, layout, base, c.Config, flags),
					`kubelet => {"value":{"version":"v1.36.3","resolver":"/run/systemd/resolve/resolv.conf"}}`+"\n"+
						"drop-ins "+dir+` => {"value":{"paths":["`+dir+`/10-a.conf","`+dir+`/90-prelet.conf","`+dir+`/95-z.conf"]}}`+"\n"+
						original("config.yaml", testKubeletConfig)+
						original("10-a.conf", testKubeletConfig+c.Early)+
						original("95-z.conf", testKubeletConfig+c.Late))

				plan := fmt.Sprintf("exit %d\n%s\n", origin.Code(p.Diagnostics).Exit(), showDiagnostics(p.Diagnostics))
				for _, taint := range p.Node.Taints {
					plan += fmt.Sprintf("taint %s of %s\n", taint, taint.Origins[0].Ref)
				}
				for _, setting := range p.Node.Settings {
					plan += fmt.Sprintf("setting %s %v\n", setting.Pointer(), setting.Value)
				}
				checkParts(t, plan, want)
			})
		}
	}
}

// TestDropInVariable checks that a kubelet of 1.28 or 1.29, which needs a variable for --config-dir, is accepted if
// the variable is set.
func TestDropInVariable(t *testing.T) {
	start := func(more string) string {
		return `unit kubelet.service => {"value":{"load":"loaded","start":{"words":["/usr/bin/kubelet","$KUBELET_KUBEADM_ARGS","$KUBELET_EXTRA_ARGS"],` +
			`"files":["/run/prelet/kubelet.env","/var/lib/kubelet/kubeadm-flags.env","/etc/default/kubelet"` + more + "}}}\n"
	}
	const file = "  file \"unit\" {\n    path    = \"/etc/systemd/system/kubelet.service.d/50.conf\"\n    " +
		"content = \"[Service]\\nEnvironment=KUBELET_CONFIG_DROPIN_DIR_ALPHA=1\\n\"\n  }\n"
	for name, c := range map[string]struct{ file, world, want string }{
		"nobody knows":          {"", "", "warning"},
		"nowhere":               {"", start("]"), "error"},
		"a comment":             {"", start("]") + original("/etc/default/kubelet", "#KUBELET_CONFIG_DROPIN_DIR_ALPHA=1\n"), "error"},
		"empty":                 {"", start("]") + original("/etc/default/kubelet", "KUBELET_CONFIG_DROPIN_DIR_ALPHA=\"\"\n"), "error"},
		"another file":          {"", start(`,"/etc/other"]`), "warning"},
		"in the flags file":     {"", original("/etc/default/kubelet", "KUBELET_CONFIG_DROPIN_DIR_ALPHA=1\n"), ""},
		"in the unit":           {"", start(`],"sets":["KUBELET_CONFIG_DROPIN_DIR_ALPHA"]`), ""},
		"in kubeadm's file":     {"", start("]") + original("kubeadm-flags.env", "KUBELET_CONFIG_DROPIN_DIR_ALPHA=\"yes\"\n"), ""},
		"in a drop-in, planned": {file, start("]"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := planSite(t, `
stage "detect-hw" "node" {}
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config { layout = "drop-in" }
`+c.file+"}\n", `kubelet => {"value":{"version":"v1.29.3"}}`+"\n"+original("config.yaml", testKubeletConfig)+c.world)

			got := ""
			for _, line := range strings.Split(showDiagnostics(p.Diagnostics), "\n") {
				if strings.Contains(line, "KUBELET_CONFIG_DROPIN_DIR_ALPHA") {
					got, _, _ = strings.Cut(line, " ")
				}
			}
			if got != c.want {
				t.Errorf("got %q, want %q\n%s", got, c.want, showDiagnostics(p.Diagnostics))
			}
		})
	}
}

// TestDropInOfTheSite: a mistake in a drop-in that a `file` writes is reported there.
func TestDropInOfTheSite(t *testing.T) {
	p := planSite(t, fmt.Sprintf(`
stage "detect-hw" "node" {}
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config { base = %q }
  kubelet_flags { flags = { config-dir = "/etc/kubernetes/kubelet.conf.d" } }
  file "bad" {
    path    = "/etc/kubernetes/kubelet.conf.d/60-x.conf"
    content = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: -4\n"
  }
}
`, testKubeletConfig), "")
	checkParts(t, fmt.Sprintf("exit %d\n%s", origin.Code(p.Diagnostics).Exit(), showDiagnostics(p.Diagnostics)),
		"exit 10\nerror kubelet-config site.hcl:10:15 The kubelet would not start with maxPods")
}
