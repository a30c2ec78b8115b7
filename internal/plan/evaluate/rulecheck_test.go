package evaluate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/judge"
	"github.com/prelet/prelet/internal/testing/table"
)

// A site is checked for the version that is named: what would break, before there is a node.
func TestCheckFor(t *testing.T) {
	site := func(config, flags string) string {
		return `stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config {
    base  = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    patch = {` + config + `}
  }
  kubelet_flags {
    base  = ""
    flags = {` + flags + `}
  }
}
stage "label" "old" { labels = { "example.com/a" = "b" } }
`
	}
	for _, c := range table.YAML[[]struct {
		Version, Config, Flags string
		Code                   fault.Code // "": nothing is found
		Severity               string
		Line                   int
		Says                   string
	}](t, `
- version: '1.23'
  flags: network-plugin = "cni"
  code: kubelet-deprecated
  severity: warning
  line: 10
  says: deprecated since 1.21, and removed in 1.24
- version: '1.24'
  flags: network-plugin = "cni"
  code: kubelet-flag
  severity: error
  line: 10
  says: 'unknown flag: --network-plugin (removed in 1.24, the kubelet is 1.24)'
- flags: network-plugin = "cni"
  code: kubelet-flag
  severity: warning
  line: 10
  says: 'unknown flag: --network-plugin (removed in 1.24, the kubelet''s version is not known)'
- {version: '1.36', flags: node-ip = "198.51.100.7"}
- {version: '1.36', config: maxPod = 3, code: kubelet-config, severity: error, line: 6, says: Did you mean maxPods}
- {config: maxPod = 3, code: kubelet-config, severity: error, line: 6, says: Did you mean maxPods}
- version: 1.38.0
  config: topologyManagerPolicy = "nosuch", maxPod = 3
  code: kubelet-flag
  severity: warning
  line: 4
  says: 'The kubelet is 1.38.0, and may accept what those refuse: maxPod: unknown field'
- version: v2.0.0
  config: maxPod = 3
  code: kubelet-flag
  severity: warning
  line: 4
  says: The kubelet is 2.0.0, and may accept what
- version: v0.0.0-master+abc
  config: maxPod = 3
  code: kubelet-flag
  severity: warning
  line: 4
  says: The kubelet is 0.0.0-master+abc
- version: v0.0.0-master+abc
  code: kubelet-flag
  severity: note
  line: 4
  says: What only that version has is not checked
- version: v1.11.0
  code: kubelet-flag
  severity: note
  line: 4
  says: The kubelet is 1.11.0, and is checked as that version
- {flags: nosuch = "1", code: kubelet-flag, severity: error, line: 10, says: no kubelet from 1.20 to 1.37 has it}
- version: '1.30'
  config: failCgroupV1 = false
  code: kubelet-config
  severity: error
  line: 6
  says: is a field since 1.31, and the kubelet is 1.30
- {version: '1.31', config: failCgroupV1 = false}
- version: '1.34'
  config: featureGates = { NodeSwap = false }
  code: kubelet-gate
  severity: error
  line: 6
  says: feature is locked to true
- {version: '1.33', config: 'featureGates = { NodeSwap = false }'}
- version: '1.36'
  config: evictionHard = { "memory.available" = "200%" }
  code: kubelet-config
  severity: error
  line: 6
  says: 'must be <= 100%: 200%'
`) {
		diags := Check(mustParse(t, site(c.Config, c.Flags)), SampleMachines(), CheckOptions{Kubelet: c.Version})
		if c.Code == "" {
			if len(diags) > 0 {
				t.Errorf("%+v: got %s\nwant nothing", c, showDiagnostics(diags))
			}
			continue
		}
		if len(diags) != 1 {
			t.Errorf("%+v: got %s\nwant one message", c, showDiagnostics(diags))
			continue
		}
		d := diags[0]
		if origin.CodeOf(d) != c.Code || severityOf(d) != c.Severity || d.Subject == nil ||
			d.Subject.Start.Line != c.Line ||
			!strings.Contains(d.Detail, c.Says) {
			t.Errorf("%+v: got %s\nwant what the case says", c, showDiagnostics(diags))
		}
	}
}

// TestCheckForPartThatDecides: where the base is not known, a rule about several fields holds if the site sets all of
// them, or takes them out. One that rests on the default of a feature gate, which the base may set, warns.
func TestCheckForPartThatDecides(t *testing.T) {
	const site = cluster + `
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  kubelet_config { patch = %s }
}
`
	for patch, want := range table.YAML[map[string]struct {
		Severity, Says string
	}](t, `
'{ cpuCFSQuotaPeriod = "10s" }': {severity: warning, says: 'between 1ms and 1s,'}
'{ cpuManagerPolicy = "static", systemReserved = { cpu = "0" } }': {}
'{ enforceNodeAllocatable = ["pods"], cgroupsPerQOS = false }':
  severity: error
  says: it must be true when enforceNodeAllocatable has pods
'{ enforceNodeAllocatable = ["system-reserved"] }': {}
'{ enforceNodeAllocatable = ["system-reserved"], systemReservedCgroup = null }':
  severity: error
  says: system-reserved needs systemReservedCgroup
'{ evictionSoft = { "memory.available" = "5%" } }': {}
'{ evictionSoft = { "memory.available" = "5%" }, evictionSoftGracePeriod = null }':
  severity: error
  says: grace period must be specified
'{ featureGates = { CustomCPUCFSQuotaPeriod = true }, cpuCFSQuotaPeriod = "10s" }':
  severity: error
  says: between 1ms and 1s,
'{ imageGCHighThresholdPercent = 50 }': {}
'{ imageGCHighThresholdPercent = 50, imageGCLowThresholdPercent = 80 }': {severity: error, says: must be less than}
'{ imageMaximumGCAge = "1m" }': {}
'{ imageMinimumGCAge = "5m", imageMaximumGCAge = "1m" }': {severity: error, says: must be above imageMinimumGCAge}
'{ logging = { format = "json", vmodule = [{ filePattern = "a", verbosity = 1 }] } }':
  severity: error
  says: the format json does not support it
'{ logging = { options = { json = { infoBufferSize = "64Ki" } } } }':
  severity: warning
  says: needs the feature gate LoggingAlphaOptions
'{ memoryManagerPolicy = "Static", reservedMemory = [{ numaNode = 0, limits = { memory = "1Gi" } }] }': {}
'{ readOnlyPort = 10260, port = 10260, address = "0.0.0.0", enableServer = true, healthzPort = 0 }':
  severity: error
  says: address already in use
'{ reservedSystemCPUs = "0", kubeReservedCgroup = "/x" }':
  severity: error
  says: it may not be set together with kubeReservedCgroup
'{ serializeImagePulls = true, maxParallelImagePulls = 5 }':
  severity: error
  says: more than 1 needs serializeImagePulls
'{ shutdownGracePeriod = "10s", shutdownGracePeriodCriticalPods = "20s" }':
  severity: error
  says: must be at most shutdownGracePeriod
'{ shutdownGracePeriodCriticalPods = "20ms" }': {severity: error, says: must be at least 1s}
'{ shutdownGracePeriodCriticalPods = "20s" }': {}
'{ tlsCipherSuites = ["TLS_RSA_WITH_AES_128_CBC_SHA"], tlsMinVersion = "VersionTLS12" }':
  severity: error
  says: HTTP/2-required
`) {
		diags := Check(mustParse(t, fmt.Sprintf(site, patch)), SampleMachines(), CheckOptions{Kubelet: "1.36"})
		isUnchecked := func(d *hcl.Diagnostic) bool { return d.Summary == judge.UncheckedSummary && origin.IsNote(d) }
		hasNote := slices.ContainsFunc(diags, isUnchecked)
		diags = slices.DeleteFunc(diags, func(d *hcl.Diagnostic) bool {
			return isUnchecked(d) || origin.CodeOf(d) == fault.KubeletDeprecated // a gate that is GA
		})
		switch {
		case want.Says == "" && (len(diags) > 0 || !hasNote):
			t.Errorf("%s: got note %t and %s, want only the note about what is not checked", patch, hasNote,
				showDiagnostics(diags))
		case want.Says != "" && (len(diags) != 1 || severityOf(diags[0]) != want.Severity || !strings.Contains(diags[0].Detail, want.Says)):
			t.Errorf("%s: got %s, want severity %s with %q", patch, showDiagnostics(diags), want.Severity, want.Says)
		}
	}
}

// TestCgroupDriverOfRuntime checks that the runtime's cgroup driver is read for each site that needs it, so that a
// plan of a node reports a different driver of the kubelet, where the site sets it, or where it writes the
// configuration that lacks it.
func TestCgroupDriverOfRuntime(t *testing.T) {
	version := "v1.36.3"
	for _, c := range table.YAML[[]struct {
		Name, Patch string
		File, Text  string // what the site writes
		Runtime     *tape.RuntimeAns
		Line        int
		Says        string // "": no message
		IsNote      bool   // the driver is the default
	}](t, `
- {name: no runtime is known, patch: '{ cgroupDriver = "cgroupfs" }'}
- name: it runs, and does not report its driver
  patch: '{ cgroupDriver = "cgroupfs" }'
  runtime: {name: containerd, version: 1.6.20, cgroup_driver: systemd}
  line: 6
  says: no pod starts (set by write.kubelet)
- name: it is not set
  patch: '{ maxPods = 20 }'
  runtime: {name: containerd, version: 1.6.20, cgroup_driver: systemd}
  line: 4
  says: no pod starts (set by the kubelet's default)
- name: it does not run
  patch: '{ cgroupDriver = "cgroupfs" }'
  runtime: {name: containerd, cgroup_driver: systemd}
  line: 6
  says: unless the runtime reports its driver
- name: it is not set, and does not run
  patch: '{ maxPods = 20 }'
  runtime: {name: containerd, cgroup_driver: systemd}
  line: 4
  says: unless the runtime reports its driver
  isNote: true
- name: the site writes its drop-in
  patch: '{ cgroupDriver = "cgroupfs" }'
  file: /etc/containerd/conf.d/90-site.toml
  text: version = 3
  runtime: {name: containerd, version: 1.6.20, cgroup_driver: systemd}
- name: it reports its driver
  patch: '{ cgroupDriver = "cgroupfs" }'
  runtime: {name: containerd, version: v2.1.0, told: systemd, cgroup_driver: cgroupfs}
- name: it has the same
  patch: '{ cgroupDriver = "systemd" }'
  runtime: {name: containerd, version: 1.6.20, cgroup_driver: systemd}
`) {
		p := Run(t.Context(), mustParse(t, rulesSite(c.Patch, siteFile(c.File, c.Text))), RunInput{Source: usualWith(map[tape.Kind]tape.Answer{
			tape.KindKubelet: tape.Kubelet.Answer(tape.KubeletAns{Version: &version, Runtime: c.Runtime}),
		})})
		var shown, ends hcl.Diagnostics
		for _, d := range p.Diagnostics {
			switch {
			case strings.Contains(d.Detail, "does not implement RuntimeConfig"):
				ends = append(ends, d)
			case origin.CodeOf(d) == fault.KubeletMachine:
				shown = append(shown, d)
			}
		}
		isOld := c.Runtime != nil && c.Runtime.Version == "1.6.20"
		if isOld != (len(ends) == 1) || isOld && ends[0].Severity != hcl.DiagWarning {
			t.Errorf("%s: got %s\nwant a warning about RuntimeConfig: %v", c.Name, showDiagnostics(ends), isOld)
		}
		severity := "warning"
		if c.IsNote {
			severity = "note"
		}
		checkOne(t, c.Name, shown, severity, c.Line, c.Says)
	}
}
