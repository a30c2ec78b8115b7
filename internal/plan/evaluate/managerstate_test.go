package evaluate

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestStateInTheWay: a state of the kubelet's managers that the kubelet does not start with goes, whatever sets the
// policy, and whether or not a file changes.
func TestStateInTheWay(t *testing.T) {
	const (
		dropIns = "/etc/kubernetes/kubelet.conf.d"
		none    = `{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`
		static  = `{"policyName":"static","defaultCpuSet":"0-1","checksum":1}`
		free1   = `{"policyName":"static","defaultCpuSet":"1","entries":{"p":{"c":"0"}},"checksum":1}`
	)
	config := func(name, fields string) string { return original(name, testKubeletConfig+fields) }
	for _, c := range []struct {
		name, config, flags, state string
		file                       string // fields in a block for config.yaml
		world                      string
		isGone                     bool
		why                        string
	}{
		{name: "drop-in, first generation", config: "layout = \"drop-in\"\npatch = { cpuManagerPolicy = " +
			"\"static\", reservedSystemCPUs = \"0\" }", state: none,
			world: config("config.yaml", ""), isGone: true, why: `made by policy "none" and cpuManagerPolicy is "static"`},
		{name: "drop-in, reserved CPUs change", config: "layout = \"drop-in\"\npatch = { reservedSystemCPUs = " +
			"\"0\" }", state: static,
			world: config("config.yaml", "cpuManagerPolicy: static\nreservedSystemCPUs: \"1\"\n"), isGone: true, why: "reservedSystemCPUs changes"},
		{name: "drop-in, of another policy that config.yaml has", config: "layout = \"drop-in\"\npatch = { " +
			"maxPods = 20 }", state: static,
			world: config("config.yaml", "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n")},
		{name: "an image with a state and no configuration", config: `patch = { cpuManagerPolicy = "static", reservedSystemCPUs = "0" }`, state: none, isGone: true},
		{name: "the same with a state that fits", config: `patch = { cpuManagerPolicy = "static", reservedSystemCPUs = "0" }`, state: static},
		{name: "the same without a policy", state: static, isGone: true},
		{name: "policy by flag", config: "patch = {}", flags: `flags = { "cpu-manager-policy" = "static", "reserved-cpus" = "0" }`, state: none, isGone: true,
			why: `cpuManagerPolicy is "static"`},
		{name: "policy by a flag of kubeadm's file", state: none, isGone: true,
			world: original("kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"--cpu-manager-policy=static --reserved-cpus=0\"\n")},
		{name: "reserved CPUs of a manager that is off", config: "layout = \"drop-in\"\npatch = { " +
			"reservedSystemCPUs = \"0\" }", state: none,
			world: config("config.yaml", "reservedSystemCPUs: \"1\"\n")},
		{name: "policy by a drop-in of the image", flags: `flags = { "config-dir" = "` + dropIns + `" }`, state: none, isGone: true,
			world: "drop-ins " + dropIns + ` => {"value":{"paths":["` + dropIns + `/10-a.conf"]}}` + "\n" +
				config("10-a.conf", "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n")},
		{name: "reserved CPUs that a container holds", config: `patch = { cpuManagerPolicy = "static", reservedSystemCPUs = "0" }`, state: free1, isGone: true,
			why: "reserved CPUs 0 are not among its free ones, 1"},
		{name: "reserved CPUs that are free", config: `patch = { cpuManagerPolicy = "static", reservedSystemCPUs = "1" }`, state: free1},
		{name: "a recording that is older", config: `patch = { cpuManagerPolicy = "static", reservedSystemCPUs = "0" }`, state: none,
			world: "target cpu_manager_state => {\"fail\":\"unread\",\"detail\":\"never asked\"}\n"},
		{name: "garbage, of whatever policy", config: "patch = { maxPods = 20 }", isGone: true, why: "not a state that the kubelet can read",
			world: "target cpu_manager_state => {\"value\":{\"exists\":true,\"mode\":384,\"private\":true,\"garbled\":true}}\n"},
		{name: "a state that cannot be read", config: `patch = { cpuManagerPolicy = "static", reservedSystemCPUs = "0" }`,
			world: "target cpu_manager_state => {\"fail\":\"unusable\",\"detail\":\"input/output error\"}\n"},
		{name: "policy by flag, and the site leaves the configuration out", config: "when = false", state: none, isGone: true,
			flags: `flags = { "cpu-manager-policy" = "static", "reserved-cpus" = "0" }`, why: `cpuManagerPolicy is "static"`},
		{name: "the same with a state of it", config: "when = false", state: static,
			flags: `flags = { "cpu-manager-policy" = "static", "reserved-cpus" = "0" }`},
		{name: "a file block of the configuration", config: "when = false", state: none, isGone: true, file: "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n",
			why: `made by policy "none" and cpuManagerPolicy is "static"`},
		{name: "the same with a state that fits the policy", config: "when = false", state: static, file: "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n"},
		{name: "a configuration that the site leaves out", config: "when = false", state: static},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := fmt.Sprintf("base = %q", testKubeletConfig)
			if strings.Contains(c.config, "drop-in") || c.file != "" {
				base = ""
			}
			file := ""
			if c.file != "" {
				file = fmt.Sprintf(
					"file \"c\" {\n path = \"/var/lib/kubelet/config.yaml\"\n content = %q\n}",
					testKubeletConfig+c.file,
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
`, base, c.config, c.flags, file))
			world := c.world + fmt.Sprintf(
				"target cpu_manager_state => {\"value\":{\"exists\":true,\"mode\":384,\"sha256\":\"00\",\"text\":%q}}\n", c.state)
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
				if !p.Complete || gone != c.isGone || gone && (!isOutdated || !strings.Contains(why, c.why)) {
					t.Errorf("got a complete plan: %v, the state gone: %v, for %q, outdated as wanted: %v; want gone %v for %q\n%s",
						p.Complete, gone, why, isOutdated, c.isGone, c.why, showDiagnostics(p.Diagnostics))
				}
			}
			check(p, strings.Contains(c.name, "container holds") || strings.Contains(c.name, "garbage"))
			if strings.Contains(c.why, "changes") || strings.Contains(world, "unread") {
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
