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
	for _, c := range []struct {
		version, config, flags string
		code                   fault.Code // "": nothing is found
		severity               hcl.DiagnosticSeverity
		line                   int
		says                   string
	}{
		{"1.23", "", `network-plugin = "cni"`, fault.KubeletDeprecated, hcl.DiagWarning, 10,
			"deprecated since 1.21, and removed in 1.24"},
		{"1.24", "", `network-plugin = "cni"`, fault.KubeletFlag, hcl.DiagError, 10,
			"unknown flag: --network-plugin (removed in 1.24, the kubelet is 1.24)"},
		{"", "", `network-plugin = "cni"`, fault.KubeletFlag, hcl.DiagWarning, 10,
			"unknown flag: --network-plugin (removed in 1.24, the kubelet's version is not known)"},
		{"1.36", "", `node-ip = "198.51.100.7"`, "", 0, 0, ""},
		{"1.36", "maxPod = 3", "", fault.ConfigInvalid, hcl.DiagError, 6, "Did you mean maxPods"},
		{"", "maxPod = 3", "", fault.ConfigInvalid, hcl.DiagError, 6, "Did you mean maxPods"},
		{"1.38.0", `topologyManagerPolicy = "nosuch", maxPod = 3`, "", fault.KubeletFlag, hcl.DiagWarning, 4,
			"The kubelet is 1.38.0, and may accept what those refuse: maxPod: unknown field"},
		{"v2.0.0", "maxPod = 3", "", fault.KubeletFlag, hcl.DiagWarning, 4, "The kubelet is 2.0.0, and may accept what"},
		{"v0.0.0-master+abc", "maxPod = 3", "", fault.KubeletFlag, hcl.DiagWarning, 4, "The kubelet is 0.0.0-master+abc"},
		{"v0.0.0-master+abc", "", "", fault.KubeletFlag, hcl.DiagWarning, 4, "What only that version has is not checked"},
		{"v1.11.0", "", "", fault.KubeletFlag, hcl.DiagWarning, 4, "The kubelet is 1.11.0, and is checked as that version"},
		{"", "", `nosuch = "1"`, fault.KubeletFlag, hcl.DiagError, 10, "no kubelet from 1.20 to 1.37 has it"},
		{"1.30", "failCgroupV1 = false", "", fault.ConfigInvalid, hcl.DiagError, 6,
			"is a field since 1.31, and the kubelet is 1.30"},
		{"1.31", "failCgroupV1 = false", "", "", 0, 0, ""},
		{"1.34", "featureGates = { NodeSwap = false }", "", fault.KubeletGate, hcl.DiagError, 6, "feature is locked to true"},
		{"1.33", "featureGates = { NodeSwap = false }", "", "", 0, 0, ""},
		{"1.36", `evictionHard = { "memory.available" = "200%" }`, "", fault.ConfigInvalid, hcl.DiagError, 6,
			"must be <= 100%: 200%"},
	} {
		diags := Check(mustParse(t, site(c.config, c.flags)), SampleMachines(), CheckOptions{Kubelet: c.version})
		if c.code == "" {
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
		if origin.CodeOf(d) != c.code || d.Severity != c.severity || d.Subject == nil ||
			d.Subject.Start.Line != c.line ||
			!strings.Contains(d.Detail, c.says) {
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
	for patch, want := range map[string]struct {
		severity hcl.DiagnosticSeverity
		says     string
	}{
		`{ imageGCHighThresholdPercent = 50, imageGCLowThresholdPercent = 80 }`:                                {hcl.DiagError, "must be less than"},
		`{ imageGCHighThresholdPercent = 50 }`:                                                                 {},
		`{ imageMinimumGCAge = "5m", imageMaximumGCAge = "1m" }`:                                               {hcl.DiagError, "must be above imageMinimumGCAge"},
		`{ imageMaximumGCAge = "1m" }`:                                                                         {},
		`{ shutdownGracePeriod = "10s", shutdownGracePeriodCriticalPods = "20s" }`:                             {hcl.DiagError, "must be at most shutdownGracePeriod"},
		`{ shutdownGracePeriodCriticalPods = "20s" }`:                                                          {},
		`{ shutdownGracePeriodCriticalPods = "20ms" }`:                                                         {hcl.DiagError, "must be at least 1s"},
		`{ serializeImagePulls = true, maxParallelImagePulls = 5 }`:                                            {hcl.DiagError, "more than 1 needs serializeImagePulls"},
		`{ reservedSystemCPUs = "0", kubeReservedCgroup = "/x" }`:                                              {hcl.DiagError, "it may not be set together with kubeReservedCgroup"},
		`{ enforceNodeAllocatable = ["system-reserved"] }`:                                                     {},
		`{ enforceNodeAllocatable = ["system-reserved"], systemReservedCgroup = null }`:                        {hcl.DiagError, "system-reserved needs systemReservedCgroup"},
		`{ enforceNodeAllocatable = ["pods"], cgroupsPerQOS = false }`:                                         {hcl.DiagError, "it must be true when enforceNodeAllocatable has pods"},
		`{ evictionSoft = { "memory.available" = "5%" } }`:                                                     {},
		`{ evictionSoft = { "memory.available" = "5%" }, evictionSoftGracePeriod = null }`:                     {hcl.DiagError, "grace period must be specified"},
		`{ cpuManagerPolicy = "static", systemReserved = { cpu = "0" } }`:                                      {},
		`{ readOnlyPort = 10260, port = 10260, address = "0.0.0.0", enableServer = true, healthzPort = 0 }`:    {hcl.DiagError, "address already in use"},
		`{ logging = { format = "json", vmodule = [{ filePattern = "a", verbosity = 1 }] } }`:                  {hcl.DiagError, "the format json does not support it"},
		`{ logging = { options = { json = { infoBufferSize = "64Ki" } } } }`:                                   {hcl.DiagWarning, "needs the feature gate LoggingAlphaOptions"},
		`{ cpuCFSQuotaPeriod = "10s" }`:                                                                        {hcl.DiagWarning, "between 1ms and 1s,"},
		`{ featureGates = { CustomCPUCFSQuotaPeriod = true }, cpuCFSQuotaPeriod = "10s" }`:                     {hcl.DiagError, "between 1ms and 1s,"},
		`{ tlsCipherSuites = ["TLS_RSA_WITH_AES_128_CBC_SHA"], tlsMinVersion = "VersionTLS12" }`:               {hcl.DiagError, "HTTP/2-required"},
		`{ memoryManagerPolicy = "Static", reservedMemory = [{ numaNode = 0, limits = { memory = "1Gi" } }] }`: {},
	} {
		diags := Check(mustParse(t, fmt.Sprintf(site, patch)), SampleMachines(), CheckOptions{Kubelet: "1.36"})
		isUnchecked := func(d *hcl.Diagnostic) bool { return d.Summary == judge.UncheckedSummary && origin.IsNote(d) }
		hasNote := slices.ContainsFunc(diags, isUnchecked)
		diags = slices.DeleteFunc(diags, func(d *hcl.Diagnostic) bool {
			return isUnchecked(d) || origin.CodeOf(d) == fault.KubeletDeprecated // a gate that is GA
		})
		switch {
		case want.says == "" && (len(diags) > 0 || !hasNote):
			t.Errorf("%s: got note %t and %s, want only the note about what is not checked", patch, hasNote,
				showDiagnostics(diags))
		case want.says != "" && (len(diags) != 1 || diags[0].Severity != want.severity || !strings.Contains(diags[0].Detail, want.says)):
			t.Errorf("%s: got %s, want severity %d with %q", patch, showDiagnostics(diags), want.severity, want.says)
		}
	}
}

// TestCgroupDriverOfRuntime checks that the runtime's cgroup driver is read for each site that needs it, so that a
// plan of a node reports a different driver of the kubelet, where the site sets it, or where it writes the
// configuration that lacks it.
func TestCgroupDriverOfRuntime(t *testing.T) {
	version := "v1.36.3"
	old := &tape.RuntimeAns{Name: "containerd", Version: "1.6.20", Driver: "systemd"}
	const cgroupfs = `{ cgroupDriver = "cgroupfs" }`
	for _, c := range []struct {
		name, patch, blocks string
		runtime             *tape.RuntimeAns
		line                int
		says                string // "": no message
		isNote              bool   // the driver is the default
	}{
		{name: "no runtime is known", patch: cgroupfs},
		{name: "it runs, and does not report its driver", patch: cgroupfs, runtime: old, line: 6,
			says: "no pod starts (set by write.kubelet)"},
		{name: "it is not set", patch: `{ maxPods = 20 }`, runtime: old, line: 4,
			says: "no pod starts (set by the kubelet's default)"},
		{name: "it does not run", patch: cgroupfs, runtime: &tape.RuntimeAns{Name: "containerd", Driver: "systemd"}, line: 6,
			says: "unless the runtime reports its driver"},
		{name: "it is not set, and does not run", patch: `{ maxPods = 20 }`, line: 4,
			runtime: &tape.RuntimeAns{Name: "containerd", Driver: "systemd"}, isNote: true,
			says: "unless the runtime reports its driver"},
		{name: "the site writes its drop-in", patch: cgroupfs, runtime: old,
			blocks: fileBlock("/etc/containerd/conf.d/90-site.toml", "version = 3")},
		{name: "it reports its driver", patch: cgroupfs,
			runtime: &tape.RuntimeAns{Name: "containerd", Version: "v2.1.0", Reported: "systemd", Driver: "cgroupfs"}},
		{name: "it has the same", patch: `{ cgroupDriver = "systemd" }`, runtime: old},
	} {
		p := Run(t.Context(), mustParse(t, rulesSite(c.patch, c.blocks)), RunInput{Source: usualWith(map[tape.Kind]tape.Answer{
			tape.KindKubelet: tape.Kubelet.Answer(tape.KubeletAns{Version: &version, Runtime: c.runtime}),
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
		isOld := c.runtime == old
		if isOld != (len(ends) == 1) || isOld && ends[0].Severity != hcl.DiagWarning {
			t.Errorf("%s: got %s\nwant a warning about RuntimeConfig: %v", c.name, showDiagnostics(ends), isOld)
		}
		checkOne(t, c.name, shown, hcl.DiagWarning, c.line, c.says)
		if len(shown) == 1 && origin.IsNote(shown[0]) != c.isNote {
			t.Errorf("%s: got a note: %v, want %v", c.name, !c.isNote, c.isNote)
		}
	}
}
