package rules

import (
	"testing"

	cases "github.com/prelet/prelet/internal/testing/table"
)

// TestGatedDefaults has the defaults that a feature gate turns on, as the kubelets of 1.34 and 1.35 show them in
// /configz.
func TestGatedDefaults(t *testing.T) {
	const policy, period = "imagePullCredentialsVerificationPolicy", "crashLoopBackOff.maxContainerRestartPeriod"
	for name, c := range cases.YAML[map[string]struct {
		Minor                          int
		Config, WantPolicy, WantPeriod string
	}](t, `
before the gates are beta: {minor: 34}
with an alpha gate: {minor: 34, config: "featureGates: {KubeletCrashLoopBackOffMax: true}\n", wantPeriod: 5m0s}
since they are beta: {minor: 35, wantPolicy: NeverVerifyPreloadedImages, wantPeriod: 5m0s}
written as kubeadm writes what is not set:
  minor: 35
  config: |
    imagePullCredentialsVerificationPolicy: ""
    crashLoopBackOff: {maxContainerRestartPeriod: 0s}
  wantPolicy: NeverVerifyPreloadedImages
  wantPeriod: 5m0s
with a gate that is off:
  minor: 35
  config: "featureGates: {KubeletEnsureSecretPulledImages: false}\n"
  wantPeriod: 5m0s
`) {
		t.Run(name, func(t *testing.T) {
			config, err := parse(c.Config)
			must(t, err)
			fields, _ := Defaults(config.Object(), c.Minor, nil, nil)
			if fields[policy] != c.WantPolicy || fields[period] != c.WantPeriod {
				t.Errorf("got %q, %q; want %q, %q", fields[policy], fields[period], c.WantPolicy, c.WantPeriod)
			}
		})
	}
}
