package evaluate

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/prelet/prelet/internal/testing/table"
)

// TestStateInTheWay: a state of the kubelet's managers that the kubelet does not start with goes, whatever sets the
// policy, and whether or not a file changes.
func TestStateInTheWay(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		Name, Config, Flags, State string
		File                       string // fields in a block for config.yaml
		World                      string
		IsGone                     bool
		Why                        string
	}](t, `
- name: drop-in, first generation
  config: |-
    layout = "drop-in"
    patch = { cpuManagerPolicy = "static", reservedSystemCPUs = "0" }
  state: '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
  world: |
    original config.yaml => {"value":{"exists":true,"text":"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"}}
  isGone: true
  why: made by policy "none" and cpuManagerPolicy is "static"
- name: drop-in, reserved CPUs change
  config: |-
    layout = "drop-in"
    patch = { reservedSystemCPUs = "0" }
  state: '{"policyName":"static","defaultCpuSet":"0-1","checksum":1}'
  world: |
    original config.yaml => {"value":{"exists":true,"text":"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\nreservedSystemCPUs: \"1\"\n"}}
  isGone: true
  why: reservedSystemCPUs changes
- name: drop-in, of another policy that config.yaml has
  config: |-
    layout = "drop-in"
    patch = { maxPods = 20 }
  state: '{"policyName":"static","defaultCpuSet":"0-1","checksum":1}'
  world: |
    original config.yaml => {"value":{"exists":true,"text":"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n"}}
- name: an image with a state and no configuration
  config: patch = { cpuManagerPolicy = "static", reservedSystemCPUs = "0" }
  state: '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
  isGone: true
- name: the same with a state that fits
  config: patch = { cpuManagerPolicy = "static", reservedSystemCPUs = "0" }
  state: '{"policyName":"static","defaultCpuSet":"0-1","checksum":1}'
- {name: the same without a policy, state: '{"policyName":"static","defaultCpuSet":"0-1","checksum":1}', isGone: true}
- name: policy by flag
  config: patch = {}
  flags: flags = { "cpu-manager-policy" = "static", "reserved-cpus" = "0" }
  state: '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
  isGone: true
  why: cpuManagerPolicy is "static"
- name: policy by a flag of kubeadm's file
  state: '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
  world: |
    original kubeadm-flags.env => {"value":{"exists":true,"text":"KUBELET_KUBEADM_ARGS=\"--cpu-manager-policy=static --reserved-cpus=0\"\n"}}
  isGone: true
- name: reserved CPUs of a manager that is off
  config: |-
    layout = "drop-in"
    patch = { reservedSystemCPUs = "0" }
  state: '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
  world: |
    original config.yaml => {"value":{"exists":true,"text":"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nreservedSystemCPUs: \"1\"\n"}}
- name: policy by a drop-in of the image
  flags: flags = { "config-dir" = "/etc/kubernetes/kubelet.conf.d" }
  state: '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
  world: |
    drop-ins /etc/kubernetes/kubelet.conf.d => {"value":{"paths":["/etc/kubernetes/kubelet.conf.d/10-a.conf"]}}
    original 10-a.conf => {"value":{"exists":true,"text":"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n"}}
  isGone: true
- name: reserved CPUs that a container holds
  config: patch = { cpuManagerPolicy = "static", reservedSystemCPUs = "0" }
  state: '{"policyName":"static","defaultCpuSet":"1","entries":{"p":{"c":"0"}},"checksum":1}'
  isGone: true
  why: reserved CPUs 0 are not among its free ones, 1
- name: reserved CPUs that are free
  config: patch = { cpuManagerPolicy = "static", reservedSystemCPUs = "1" }
  state: '{"policyName":"static","defaultCpuSet":"1","entries":{"p":{"c":"0"}},"checksum":1}'
- name: a recording that is older
  config: patch = { cpuManagerPolicy = "static", reservedSystemCPUs = "0" }
  state: '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
  world: |
    target cpu_manager_state => {"fail":"unread","detail":"never asked"}
- name: garbage, of whatever policy
  config: patch = { maxPods = 20 }
  world: |
    target cpu_manager_state => {"value":{"exists":true,"mode":384,"private":true,"garbled":true}}
  isGone: true
  why: not a state that the kubelet can read
- name: a state that cannot be read
  config: patch = { cpuManagerPolicy = "static", reservedSystemCPUs = "0" }
  world: |
    target cpu_manager_state => {"fail":"unusable","detail":"input/output error"}
- name: policy by flag, and the site leaves the configuration out
  config: when = false
  flags: flags = { "cpu-manager-policy" = "static", "reserved-cpus" = "0" }
  state: '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
  isGone: true
  why: cpuManagerPolicy is "static"
- name: the same with a state of it
  config: when = false
  flags: flags = { "cpu-manager-policy" = "static", "reserved-cpus" = "0" }
  state: '{"policyName":"static","defaultCpuSet":"0-1","checksum":1}'
- name: a file block of the configuration
  config: when = false
  state: '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
  file: |
    cpuManagerPolicy: static
    reservedSystemCPUs: "0"
  isGone: true
  why: made by policy "none" and cpuManagerPolicy is "static"
- name: the same with a state that fits the policy
  config: when = false
  state: '{"policyName":"static","defaultCpuSet":"0-1","checksum":1}'
  file: |
    cpuManagerPolicy: static
    reservedSystemCPUs: "0"
- name: a configuration that the site leaves out
  config: when = false
  state: '{"policyName":"static","defaultCpuSet":"0-1","checksum":1}'
`) {
		t.Run(c.Name, func(t *testing.T) {
			base := fmt.Sprintf("base = %q", testKubeletConfig)
			if strings.Contains(c.Config, "drop-in") || c.File != "" {
				base = ""
			}
			file := ""
			if c.File != "" {
				file = fmt.Sprintf(
					"file \"c\" {\n path = \"/var/lib/kubelet/config.yaml\"\n content = %q\n}",
					testKubeletConfig+c.File,
				)
			}
			s := mustParse(t, fmt.Sprintf(`
stage "detect-hw" "node" {}
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config {
    %s
    %s
  }
  kubelet_flags {
    %s
  }
  %s
}
`, base, c.Config, c.Flags, file))
			world := c.World + fmt.Sprintf(
				"target cpu_manager_state => {\"value\":{\"exists\":true,\"mode\":384,\"sha256\":\"00\",\"text\":%q}}\n", c.State)
			const facts = `{"cpu":{"logical":2,"cores":[{"cpus":[0]},{"cpus":[1]}]}}`
			run := func(world string) *Plan {
				return Run(context.Background(), s, RunInput{Source: fakeWorld(t, &txtar.Archive{Files: []txtar.File{
					{Name: "world", Data: []byte(world)}, {Name: "facts", Data: []byte(facts)},
				}})})
			}
			p := run(world)
			check := func(p *Plan, isOutdated bool) {
				t.Helper()
				why, gone := "", false
				for _, change := range p.Changes {
					if change.File.Purpose == "state" && change.Action == "delete" {
						why, gone = change.Why, true
						isOutdated = isOutdated == change.Outdated
					}
				}
				if !p.Complete || gone != c.IsGone || gone && (!isOutdated || !strings.Contains(why, c.Why)) {
					t.Errorf("got a complete plan: %v, the state gone: %v, for %q, outdated as wanted: %v; want gone %v for %q\n%s",
						p.Complete, gone, why, isOutdated, c.IsGone, c.Why, showDiagnostics(p.Diagnostics))
				}
			}
			check(p, strings.Contains(c.Name, "container holds") || strings.Contains(c.Name, "garbage"))
			if strings.Contains(c.Why, "changes") || strings.Contains(world, "unread") {
				return
			}

			// The same with all files in place already, as after a backup of the state was restored.
			for _, f := range p.Node.Files {
				b := f.Text.Template()
				world += fmt.Sprintf(
					"target %s => {\"value\":{\"exists\":true,\"mode\":%d,\"sha256\":\"%x\",\"text\":%q}}\n",
					f.Path, f.Mode, sha256.Sum256([]byte(b)), b)
			}
			check(run(world), true)
		})
	}
}
