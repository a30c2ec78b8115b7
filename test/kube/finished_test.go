package kube

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	finishedCases = "PRELET_KUBE_FINISHED_CASES"
	finishedSeed  = "PRELET_KUBE_FINISHED_SEED"
)

// TestFinishedNode compares the plan's node with what the real kubelet makes of it, over random sites: what is
// reserved and the thresholds with /configz, what is left to pods, the number of pods and the taints with its Node
// object. Policies, base, patch, flags, kubeadm's flags and drop-ins, later ones too, say something about the same
// fields.
func TestFinishedNode(t *testing.T) {
	t.Parallel()
	cases, seed := 4, rand.Uint64()
	if text := os.Getenv(finishedCases); text != "" {
		n, err := strconv.Atoi(text)
		must(t, err)
		cases = n
	}
	if text := os.Getenv(finishedSeed); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		must(t, err)
		seed = n
	}
	t.Logf("%s=%d", finishedSeed, seed)
	r := rand.New(rand.NewPCG(seed, 0))

	c := start(t, ClusterOptions{})
	m := newMember(t, c, NodeOptions{})
	n := m.Node
	base, err := c.ConfigMap(t.Context(), "kube-system", "kubelet-config")
	must(t, err)

	for i, refused := 0, 0; i < cases; {
		stages := finishedSite(r, i, base["kubelet"])
		m.site(stages)
		for _, name := range []string{"50-image", "99-late"} {
			must(
				t,
				n.Write(
					imageDropIns+"/"+name+".conf",
					"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+
						strings.Join(someOf(
							r,
							"systemReserved: {memory: "+drawAmount(r)+"}\n",
							"maxPods: 44\n",
							"evictionHard: {pid.available: 2%}\n",
							"registerWithTaints: [{key: example.com/"+name+", effect: PreferNoSchedule}]\n",
						), ""),
					0o644,
				),
			)
		}
		must(t, n.Write("/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\""+
			strings.Join(
				someOf(
					r,
					"--kube-reserved=memory="+drawAmount(r),
					"--eviction-hard=memory.available<120Mi",
					"--max-pods=19",
					"--system-reserved=pid=800",
					"--reserved-cpus=0",
					"--register-with-taints=example.com/kubeadm=:PreferNoSchedule",
					"--node-labels=example.com/kubeadm=1",
					"--config-dir="+imageDropIns,
				),
				" ",
			)+"\"\n", 0o644))
		plan, err := n.Prelet(context.WithoutCancel(t.Context()), "plan", "-o", "json")
		must(t, err)
		if plan.Exit == 30 && strings.Contains(plan.Out, "reserve-refused") && refused < 10*cases {
			refused++ // with too little left to pods, which is judged elsewhere
			continue
		}
		if plan.Exit == 10 && strings.Contains(plan.Out, "has no effect here") && refused < 10*cases {
			refused++ // with taints that a flag or a drop-in takes, which is judged elsewhere
			continue
		}
		i++
		p := planOf(t, n)

		// Taints are taken when the node registers.
		_ = c.Client.CoreV1().Nodes().Delete(t.Context(), n.Name, metav1.DeleteOptions{})
		m.run(0)
		node, err := c.Ready(t.Context(), n.Name)
		must(t, err)
		asPlanned(t, p, node)
		must(t, waitFor(t.Context(), time.Minute, "the kubelet has what is planned", func() string {
			running, err := c.Configz(t.Context(), n)
			if err != nil {
				return err.Error()
			}
			return compareReserved(p, running)
		}))
		if t.Failed() {
			t.Fatalf("case %d:\n%s", i, stages)
		}
	}
}

// compareReserved returns how the configuration of a kubelet differs from what a plan says of it, "" if it does not.
func compareReserved(p plan, running map[string]any) string {
	r := p.Node.Reserved
	for field, want := range map[string]map[string]string{"kubeReserved": r.Kube, "systemReserved": r.System, "evictionHard": r.EvictionHard} {
		got := map[string]string{}
		object, _ := running[field].(map[string]any)
		for name, v := range object {
			got[name] = fmt.Sprint(v)
		}
		if running["reservedSystemCPUs"] != nil { // which the kubelet puts in place of these
			delete(got, "cpu")
		}
		isSame := func(a, b string) bool {
			x, err1 := resource.ParseQuantity(a)
			y, err2 := resource.ParseQuantity(b)
			return a == b || err1 == nil && err2 == nil && x.Cmp(y) == 0
		}
		if !maps.EqualFunc(got, want, isSame) {
			return fmt.Sprintf("%s: the kubelet has %v, planned %v", field, got, want)
		}
	}
	if cpus, _ := running["reservedSystemCPUs"].(string); cpus != r.CPUs {
		return fmt.Sprintf("reservedSystemCPUs: the kubelet has %q, planned %q", cpus, r.CPUs)
	}
	if got := fmt.Sprint(running["maxPods"]); got != fmt.Sprint(r.MaxPods) {
		return fmt.Sprintf("maxPods: the kubelet has %s, planned %d", got, r.MaxPods)
	}

	return ""
}

// someOf draws about a third of the parts.
func someOf(r *rand.Rand, parts ...string) (out []string) {
	for _, p := range parts {
		if r.IntN(3) == 0 {
			out = append(out, p)
		}
	}

	return out
}

func drawAmount(r *rand.Rand) string { return fmt.Sprintf("%dMi", 64+r.IntN(400)) }

// imageDropIns is a folder of drop-ins that the image has.
const imageDropIns = "/etc/kubernetes/image.conf.d"

// finishedSite draws the stages of a site.
func finishedSite(r *rand.Rand, i int, base string) string {
	some := func(parts ...string) []string { return someOf(r, parts...) }
	amount := func() string { return drawAmount(r) }
	thresholds := func(assign string) string {
		t := some(
			`"nodefs.available"`+assign+`"7%"`,
			`"imagefs.available"`+assign+`"11%"`,
			`"pid.available"`+assign+`"3%"`,
		)
		return "{" + strings.Join(t, ", ") + "}"
	}

	policy := []string{`policy = "gke"`, `policy = "aks"`, `policy = "gdc"`, "policy = \"eks\"\n max_pods = 17",
		"policy = \"static\"\n static { memory = \"" + amount() + "\" }"}[r.IntN(5)]
	document := base + strings.Join(some("systemReserved: {memory: "+amount()+", pid: \"1000\"}\n", "maxPods: 77\n",
		"evictionHard: "+strings.ReplaceAll(thresholds(": "), `{}`, `{memory.available: 200Mi}`)+"\n",
		"registerWithTaints: [{key: example.com/base, effect: PreferNoSchedule}]\n"), "")
	patch := some("systemReserved = { pid = \"900\" }", "evictionHard = "+thresholds(" = "), "maxPods = 33",
		`registerWithTaints = [{ key = "example.com/patch", effect = "PreferNoSchedule" }]`)
	if strings.Contains(policy, "max_pods") {
		patch = nil
	}
	flags := some(
		`kube-reserved = "memory=`+amount()+`"`,
		`eviction-hard = "memory.available<150Mi,nodefs.available<6%"`,
		`max-pods = 21`,
		`system-reserved = "cpu=50m"`,
		`reserved-cpus = "0"`,
		`config-dir = "`+imageDropIns+`"`,
	)

	return fmt.Sprintf(`
stage "detect-hw" "node" {}
stage "label" "l" { labels = { "example.com/case" = "%d" } }
stage "reserve" "r" {
 %s
}
stage "write" "kubelet" {
  kubelet_config {
    base  = %q
    patch = { %s }
  }
  kubelet_flags { flags = { %s } }
}
stage "restart" "kubelet" {
  verify { settle = "1s" }
}
`, i, policy, strings.ReplaceAll(document, "${", "$${"), strings.Join(patch, ", "), strings.Join(flags, ", "))
}
