package evaluate

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/plan/hostfiles"
	"github.com/prelet/prelet/internal/testing/table"
)

// TestNeeds: the table of docs/operators/rolling-out.md, of a node that has joined and has the files of another site.
func TestNeeds(t *testing.T) {
	for _, c := range table.YAML[[]struct {
		Name           string
		Fields, Before string // of the kubelet's configuration, in the site and on the disk
		File           string // a block of the site
		Flags          string // of the site
		Label          string
		World          string
		Fresh          bool // the node has not joined
		Want           Need
		Why            string
	}](t, `
- {name: no change, want: nothing}
- {name: a label, label: b, want: kubelet}
- {name: a flag, flags: '"v" = "4"', want: kubelet}
- {name: a file that nothing is restarted for, file: path = "/etc/motd", want: nothing}
- {name: a sysctl, file: path = "/etc/sysctl.d/90-a.conf", want: units}
- {name: a file of the runtime, file: path = "/etc/containerd/certs.d/a/hosts.toml", want: nothing}
- {name: a DNS server, fields: 'clusterDNS = ["10.0.0.10"]', want: kubelet}
- {name: fewer pods, fields: maxPods = 50, want: drain, why: "maxPods becomes 50, was 110"}
- {name: fewer pods by flag, flags: '"max-pods" = "50"', want: drain, why: "maxPods becomes 50, was 110"}
- {name: more pods, fields: maxPods = 200, want: kubelet}
- {name: more pods than before, fields: maxPods = 60, before: "maxPods: 50", want: kubelet}
- {name: a larger reservation, fields: 'kubeReserved = { memory = "2Gi" }', before: "kubeReserved: {memory: 1Gi}", want: drain, why: kubeReserved.memory becomes 2Gi}
- {name: a CPU manager, fields: 'cpuManagerPolicy = "static", reservedSystemCPUs = "0"', want: drain, why: cpuManagerPolicy becomes static}
- {name: a memory manager that ends, before: "memoryManagerPolicy: Static", want: drain, why: memoryManagerPolicy becomes None}
- name: a state that the kubelet refuses
  fields: cpuManagerPolicy = "static", reservedSystemCPUs = "0"
  before: "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\""
  world: |
    target cpu_manager_state => {"value":{"exists":true,"mode":384,"text":"{\"policyName\":\"none\",\"checksum\":1}"}}
  want: drain
  why: cpu_manager_state is removed
- {name: fewer pods on a node that has not joined, fields: maxPods = 50, fresh: true, want: kubelet}
- name: a configuration that not every user may read
  fields: clusterDNS = ["10.0.0.10"]
  world: |
    target config.yaml => {"value":{"exists":true,"mode":384,"private":true}}
  want: drain
  why: config.yaml changes, and what it changes is not known
- name: a file that may set flags
  file: path = "/etc/systemd/system/kubelet.service.d/90-a.conf"
  want: drain
  why: 90-a.conf changes, and may set anything of the kubelet
`) {
		site := func(label, fields, flags, file string) string {
			if file != "" {
				file = "stage \"write\" \"f\" {\n file \"a\" {\n" + file + "\ncontent = \"\"\n}\n}"
			}

			return fmt.Sprintf(`
stage "label" "l" { labels = { "example.com/a" = %q } }
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config {
    base  = %q
    patch = { %s }
  }
  kubelet_flags { flags = { %s } }
}
%s
`, label, testKubeletConfig, fields, flags, file)
		}
		answers := c.World + fmt.Sprintf("kubelet  => {\"value\":{\"version\":\"v1.36.3\",\"joined\":%t}}\n", !c.Fresh)
		onDisk := planSite(t, site("a", "", "", ""), answers)
		for _, f := range onDisk.Node.Files {
			text := f.Text.Template()
			if f.Purpose == "kubelet-config" && c.Before != "" {
				text += c.Before + "\n"
			}
			answers += fmt.Sprintf("target %s => {\"value\":{\"exists\":true,\"mode\":%d,\"sha256\":\"%x\",\"text\":%q}}\n",
				f.Path, f.Mode, sha256.Sum256([]byte(text)), text)
		}

		label := "a"
		if c.Label != "" {
			label = c.Label
		}
		p := planSite(t, site(label, c.Fields, c.Flags, c.File), answers)
		isWhy := c.Why == "" && p.Drains == nil || c.Why != "" && strings.Contains(strings.Join(p.Drains, "\n"), c.Why)
		if got := p.Needs(); got != c.Want || !isWhy || !p.Complete {
			t.Errorf("%s: got %s because of %q, want %s because of %q\n%s",
				c.Name, got, p.Drains, c.Want, c.Why, showDiagnostics(p.Diagnostics))
		}
	}
}

// Property: random changes need no less than some of them.
func TestMoreChangesNeedNoLess(t *testing.T) {
	order := []Need{NeedsNothing, NeedsUnits, NeedsKubelet, NeedsDrain}
	rng := rand.New(rand.NewPCG(4, 4))
	seen := map[Need]int{}
	for range 2000 {
		var few, many Changed
		for range rng.IntN(4) {
			of := []*Changed{&many}
			if rng.IntN(2) == 0 {
				of = append(of, &few)
			}
			kind := rng.IntN(4)
			for _, c := range of {
				c.Changes = append(c.Changes, FileChange{Action: "update"})
				switch kind {
				case 1:
					c.Units = append(c.Units, hostfiles.UnitChange{Because: []string{"a"}})
				case 2:
					c.Restart.Needed = true
				case 3:
					c.Restart.Needed, c.Drains = true, append(c.Drains, "maxPods")
				}
			}
		}
		less, more := few.Needs(), many.Needs()
		seen[more]++
		if slices.Index(order, less) > slices.Index(order, more) {
			t.Fatalf("%+v needs %s, and with more changes %s", few, less, more)
		}
	}
	if len(seen) != len(order) {
		t.Errorf("got the needs %v, want all of %v", seen, order)
	}
}
