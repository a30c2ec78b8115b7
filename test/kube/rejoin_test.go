package kube

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// member is a node that has joined a cluster of its own by a site that the test changes.
type member struct {
	*Node
	t   *testing.T
	c   *Cluster
	pin string
}

func newMember(t *testing.T, c *Cluster, o NodeOptions, stages ...string) member {
	t.Helper()
	n := newNode(t, c, o, "10.0.0.11:6443")
	pin, err := c.Pin()
	must(t, err)
	m := member{n, t, c, pin}
	must(t, n.Credential("bootstrap-token", c.Token))
	m.site(stages...)
	m.run(0)
	_, err = c.Ready(t.Context(), n.Name)
	must(t, err)
	return m
}

// site is the cluster block with the stages given.
func (m member) site(stages ...string) {
	m.t.Helper()
	must(m.t, m.Site(map[string]string{"site.hcl": `
cluster {
  servers        = ["https://10.0.0.11:6443"]
  ca_cert_hashes = ["` + m.pin + `"]
  token          = credential("bootstrap-token")
  retry          = "5s"
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
` + strings.Join(stages, "\n")}))
}

func (m member) run(want int, args ...string) Result {
	m.t.Helper()
	return prelet(m.t, m.Node, want, append([]string{"run"}, args...)...)
}

// drained applies what is refused while pods may run.
func (m member) drained() {
	m.t.Helper()
	must(m.t, m.StopKubelet(m.t.Context()))
	m.run(0)
	must(m.t, m.Systemctl(m.t.Context(), "start"))
	m.run(0)
}

const quick = `stage "restart" "kubelet" {
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
stage "write" "kubelet" {}
`

// TestJoinedNeedsNoToken joins, takes the token away on both sides, and runs again.
func TestJoinedNeedsNoToken(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Audit: true})
	m := newMember(t, c, NodeOptions{}, quick)
	must(
		t,
		c.Client.CoreV1().
			Secrets("kube-system").
			Delete(t.Context(), "bootstrap-token-"+c.Token[:6], metav1.DeleteOptions{}),
	)
	must(t, waitFor(t.Context(), 20*time.Second, "the signature is gone", func() string {
		info, err := c.ConfigMap(t.Context(), "kube-public", "cluster-info")
		if err != nil || info["jws-kubeconfig-"+c.Token[:6]] != "" {
			return "it is there"
		}
		return ""
	}))
	must(t, m.Credential("bootstrap-token", ""))
	before, err := m.disk()
	must(t, err)
	_, n := asked(t, c, 0)
	m.run(0)
	got, _ := asked(t, c, n)
	if len(got) == 0 || len(got) > 2 {
		t.Errorf("asked %q, want one or two requests", got)
	}
	for _, r := range got {
		if !strings.HasPrefix(r, "system:node:n1 ") {
			t.Errorf("asked as %q; want prefix \"system:node:n1 \"", r)
		}
	}
	after, err := m.disk()
	must(t, err)
	if !maps.Equal(before, after) {
		t.Errorf("something was written: got %v; want %v", difference(before, after), after)
	}
}

// difference lists what is not the same on both.
func difference(before, after map[string]string) (out []string) {
	for p, was := range before {
		if after[p] != was {
			out = append(out, fmt.Sprintf("%s: %s, was %s", p, after[p], was))
		}
	}
	for p := range after {
		if _, ok := before[p]; !ok {
			out = append(out, p+": new")
		}
	}
	return out
}

// TestTakesEffect has every kind of label on a node, and sees on the Node object that the plan says of each when it
// takes effect: when the node is made, whenever its kubelet starts, or when prelet patches it.
func TestTakesEffect(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	// And whether the kubelet sees to it at each start (pkg/kubelet/kubelet_node_status.go, updateDefaultLabels).
	keys := map[string]bool{
		"kubernetes.io/hostname":                   true,
		"beta.kubernetes.io/os":                    true,
		"beta.kubernetes.io/arch":                  true,
		"topology.kubernetes.io/zone":              true,
		"topology.kubernetes.io/region":            true,
		"failure-domain.beta.kubernetes.io/zone":   true,
		"failure-domain.beta.kubernetes.io/region": true,
		"node.kubernetes.io/instance-type":         true,
		"beta.kubernetes.io/instance-type":         true,
		"node.kubernetes.io/rack":                  false,
		"feature.node.kubernetes.io/fast":          false,
		"x.kubelet.kubernetes.io/y":                false,
		"example.com/pool":                         false,
		"unqualified":                              false,
	}
	labels := func(v string) string {
		var b strings.Builder
		for key := range keys {
			fmt.Fprintf(&b, "    %q = %q\n", key, v)
		}
		return "stage \"label\" \"x\" {\n  labels = {\n" + b.String() + "  }\n}\n"
	}
	// wantTimes expects the plan to name the time of each change that the kubelet makes at every start, and of the others.
	wantTimes := func(m member, itself, others string) {
		t.Helper()
		p := planOf(t, m.Node)
		for key, follows := range keys {
			want := others
			if follows {
				want = itself
			}
			if got := p.Node.Labels[key].TakesEffect; got != want {
				t.Errorf("the plan says that %s takes effect at %q, want %q", key, got, want)
			}
		}
	}
	// has wants the values on the Node object, once the kubelet has had its turn.
	has := func(when, itself, others string) {
		t.Helper()
		if err := waitFor(t.Context(), 30*time.Second, when, func() string {
			node, err := c.Node(t.Context(), "n1")
			if err != nil {
				return err.Error()
			}
			wrong := ""
			for key, follows := range keys {
				want := others
				if follows {
					want = itself
				}
				if got := node.Labels[key]; got != want {
					wrong += fmt.Sprintf("%s is %q, want %q; ", key, got, want)
				}
			}
			return wrong
		}); err != nil {
			t.Error(err)
		}
	}

	n := newNode(t, c, NodeOptions{}, "10.0.0.11:6443")
	pin, err := c.Pin()
	must(t, err)
	m := member{n, t, c, pin}
	must(t, n.Credential("bootstrap-token", c.Token))
	m.site(labels("one"), quick)
	wantTimes(m, "registration", "registration")
	m.run(0)
	has("the Node is made", "one", "one")

	var patch strings.Builder
	for key := range keys {
		fmt.Fprintf(&patch, ",%q:\"others\"", key)
	}
	must(t, c.patchNode(t, "n1", `{"metadata":{"labels":{`+patch.String()[1:]+`}}}`))
	must(t, m.Systemctl(t.Context(), "restart"))
	has("the kubelet has started again", "one", "others")

	m.site(labels("two"), quick)
	wantTimes(m, "restart", "registration")
	m.run(0)
	has("the site has changed", "two", "others")

	m.site(labels("three"), reconciling)
	wantTimes(m, "restart", "reconcile")
	m.run(0)
	has("prelet patches labels", "three", "three")

	m.site(reconciling)
	m.run(0)
	must(
		t,
		waitFor(
			t.Context(),
			30*time.Second,
			"labels that nothing wants are gone, and the kubelet's own are as it makes them",
			func() string {
				node, err := c.Node(t.Context(), "n1")
				if err != nil {
					return err.Error()
				}
				wrong := ""
				for key := range keys {
					want := map[string]string{"kubernetes.io/hostname": "n1", "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": runtime.GOARCH}[key]
					if got := node.Labels[key]; got != want {
						wrong += fmt.Sprintf("%s is %q, want %q; ", key, got, want)
					}
				}
				return wrong
			},
		),
	)

	// Two are the kubelet's own for good: no flag changes them, and no site is let try.
	own := fmt.Sprintf("kubernetes.io/os=%s,kubernetes.io/arch=%s", "plan9", "pdp11")
	must(t, m.Write("/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=--node-labels="+own+"\n", 0o644))
	must(t, m.Systemctl(t.Context(), "restart"))
	must(t, c.patchNode(t, "n1", `{"metadata":{"labels":{"kubernetes.io/os":"plan9","kubernetes.io/arch":"pdp11"}}}`))
	must(t, waitFor(t.Context(), 30*time.Second, "the kubelet has written its own values over these", func() string {
		node, err := c.Node(t.Context(), "n1")
		if err != nil {
			return err.Error()
		}
		if got := node.Labels["kubernetes.io/os"] + " " + node.Labels["kubernetes.io/arch"]; got != "linux "+runtime.GOARCH {
			return got
		}
		return ""
	}))
	s, err := m.Service(t.Context())
	must(t, err)
	if line, err := m.Read(fmt.Sprintf("/proc/%d/cmdline", s.PID)); err != nil ||
		!strings.Contains(line, "--node-labels="+own) {
		t.Errorf("the kubelet never got the label of another system: got %q, %v; want no error and text with %q",
			line, err, "--node-labels="+own)
	}
	m.site("stage \"label\" \"x\" {\n  labels = { \"kubernetes.io/os\" = \"plan9\" }\n}\n", quick)
	if r := m.run(10); !strings.Contains(r.Err, "Label kubernetes.io/os is the kubelet's own") {
		t.Errorf("got %s; want text with \"Label kubernetes.io/os is the kubelet's own\"", r)
	}
}

// TestManagerState changes the policies that the kubelet's managers remember on its disk.
func TestManagerState(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	policy := func(cpu, memory string) string {
		return fmt.Sprintf(`
stage "detect-hw" "node" {}
stage "reserve" "node" {
  policy = "gke"
  floor  = { cpu = "100m" }
}
stage "write" "kubelet" {
  kubelet_config {
    patch = merge({ cpuManagerPolicy = %q, memoryManagerPolicy = %q },
      %q == "Static" ? { reservedMemory = stage.reserve.node.reserved_memory } : {})
  }
}
stage "restart" "kubelet" {
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
`, cpu, memory, memory)
	}
	m := newMember(t, c, NodeOptions{}, policy("none", "None"))

	t.Run("by hand the kubelet dies of it", func(t *testing.T) {
		before, err := m.Read("/var/lib/kubelet/config.yaml")
		must(t, err)
		must(
			t,
			m.Write(
				"/var/lib/kubelet/config.yaml",
				strings.Replace(before, "cpuManagerPolicy: none", "cpuManagerPolicy: static", 1),
				0o644,
			),
		)
		must(t, m.Systemctl(t.Context(), "restart"))
		must(t, waitFor(t.Context(), 20*time.Second, "the kubelet has died", func() string {
			if s, err := m.Service(t.Context()); err != nil || s.Active == "active" {
				return fmt.Sprint(s, err)
			}
			return ""
		}))
		if !strings.Contains(m.KubeletLog(), "differs from state checkpoint policy") {
			t.Errorf("it died of something else; want text with \"differs from state checkpoint policy\":\n%s",
				last(m.KubeletLog(), 2000))
		}
	})

	t.Run("through prelet it starts", func(t *testing.T) {
		m.site(policy("static", "Static"))
		p := planOf(t, m.Node)
		gone := map[string]bool{}
		for _, f := range p.Files {
			if f.Action == "delete" && f.Purpose == "state" {
				gone[f.Path] = true
			}
		}
		if !gone["/var/lib/kubelet/cpu_manager_state"] || !gone["/var/lib/kubelet/memory_manager_state"] {
			t.Errorf(
				"the plan takes away %v; want gone[/var/lib/kubelet/cpu_manager_state] and "+
					"gone[/var/lib/kubelet/memory_manager_state]",
				gone,
			)
		}
		if r := m.run(40); !strings.Contains(r.Err, "drain the node and reboot it") {
			t.Errorf("while pods may run: got %+v; want text with \"drain the node and reboot it\"", r)
		}
		m.drained()
		running, err := c.Configz(t.Context(), m.Node)
		must(t, err)
		if running["cpuManagerPolicy"] != "static" || running["memoryManagerPolicy"] != "Static" {
			t.Errorf(
				"the kubelet runs with %v and %v; want running[cpuManagerPolicy] \"static\" and "+
					"running[memoryManagerPolicy] \"Static\"",
				running["cpuManagerPolicy"],
				running["memoryManagerPolicy"],
			)
		}
		for _, file := range []string{"cpu_manager_state", "memory_manager_state"} {
			text, err := m.Read("/var/lib/kubelet/" + file)
			must(t, err)
			if !strings.Contains(strings.ToLower(text), `"static"`) {
				t.Errorf("%s: got %s; want text with `\"static\"`", file, text)
			}
		}
	})

	// A boot in which the first NUMA node has one page less, as firmware and kernels may leave it (kubernetes#131253).
	t.Run("of a boot with other memory", func(t *testing.T) {
		const meminfo = "/sys/devices/system/node/node0/meminfo"
		must(t, m.StopKubelet(t.Context()))
		if r, err := m.Run(
			t.Context(),
			"sh",
			"-c",
			"awk '/MemTotal/ { $4 -= 4 } 1' "+meminfo+" > /run/meminfo && mount --bind /run/meminfo "+meminfo,
		); err != nil ||
			r.Exit != 0 {
			t.Fatalf("got %+v, %v; want no error and Exit 0", r, err)
		}
		must(t, m.Systemctl(t.Context(), "start"))
		must(t, waitFor(t.Context(), 30*time.Second, "the kubelet dies of its state", func() string {
			if !strings.Contains(m.KubeletLog(), "the expected machine state is different from the real one") {
				return "its log does not say so"
			}
			return ""
		}))

		must(t, m.StopKubelet(t.Context()))
		m.run(0)
		must(t, m.Systemctl(t.Context(), "start"))
		m.run(0)
		running, err := c.Configz(t.Context(), m.Node)
		must(t, err)
		if running["memoryManagerPolicy"] != "Static" {
			t.Errorf("the kubelet runs with %v, want Static", running["memoryManagerPolicy"])
		}
		if r := m.run(0, "-o", "json"); !strings.Contains(r.Out, `"changed":false`) { // the kubelet's new state fits
			t.Errorf("a run with nothing to do: got %s; want text with `\"changed\":false`", r)
		}
	})

	t.Run("and back", func(t *testing.T) {
		m.site(policy("none", "None"))
		m.drained()
	})

	t.Run("and back by hand, over a change", func(t *testing.T) {
		if r := prelet(t, m.Node, 40, "rollback"); !strings.Contains(
			r.Err,
			"drain the node, systemctl stop kubelet.service, prelet rollback",
		) {
			t.Errorf(
				"while pods may run: got %+v; want text with \"drain the node, systemctl stop kubelet.service, "+
					"prelet rollback\"",
				r,
			)
		}
		must(t, m.StopKubelet(t.Context()))
		prelet(t, m.Node, 0, "rollback")
		must(t, m.Systemctl(t.Context(), "start"))
		running, err := c.Configz(t.Context(), m.Node)
		must(t, err)
		if running["cpuManagerPolicy"] != "static" || running["memoryManagerPolicy"] != "Static" {
			t.Errorf(
				"the kubelet runs with %v and %v; want running[cpuManagerPolicy] \"static\" and "+
					"running[memoryManagerPolicy] \"Static\"",
				running["cpuManagerPolicy"],
				running["memoryManagerPolicy"],
			)
		}
	})
}

// TestManagerStateInTheWay: a state of another policy goes also where prelet writes a drop-in for the first time, and
// where no file changes at all.
func TestManagerStateInTheWay(t *testing.T) {
	t.Parallel()
	const (
		state = "/var/lib/kubelet/cpu_manager_state"
		none  = `{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`
	)
	c := start(t, Options{})
	n := newNode(t, c, NodeOptions{}, "10.0.0.11:6443")
	pin, err := c.Pin()
	must(t, err)
	m := member{n, t, c, pin}
	must(t, n.Credential("bootstrap-token", c.Token))
	image, err := c.ConfigMap(t.Context(), "kube-system", "kubelet-config")
	must(t, err)
	must(t, m.Write("/var/lib/kubelet/config.yaml", image["kubelet"], 0o644))
	must(t, m.Write(state, none, 0o600))
	m.site(`
stage "detect-hw" "node" {}
stage "reserve" "node" {
  policy = "gke"
  floor  = { cpu = "100m" }
}
stage "write" "kubelet" {
  kubelet_config {
    layout = "drop-in"
    patch  = { cpuManagerPolicy = "static" }
  }
}
stage "restart" "kubelet" {
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
`)
	isStatic := func(when string) {
		t.Helper()
		must(t, waitFor(t.Context(), 20*time.Second, when+": the kubelet and its state are static", func() string {
			running, err := c.Configz(t.Context(), m.Node)
			if err != nil {
				return err.Error() // it is still starting
			}
			text, err := m.Read(state)
			must(t, err)
			if running["cpuManagerPolicy"] != "static" || !strings.Contains(text, `"static"`) {
				return fmt.Sprintf("got policy %v and state %s", running["cpuManagerPolicy"], text)
			}

			return ""
		}))
	}

	m.run(0)
	_, err = c.Ready(t.Context(), n.Name)
	must(t, err)
	isStatic("the first drop-in, over the state of the image")

	// A backup of the state is restored, and nothing else differs.
	must(t, m.StopKubelet(t.Context()))
	must(t, m.Write(state, none, 0o600))
	must(t, m.Systemctl(t.Context(), "start"))
	must(t, waitFor(t.Context(), 20*time.Second, "the kubelet dies of its state", func() string {
		if !strings.Contains(m.KubeletLog(), "differs from state checkpoint policy") {
			return "its log does not say so"
		}
		return ""
	}))
	m.drained()
	isStatic("the state of a backup")
	if r := m.run(0, "-o", "json"); !strings.Contains(r.Out, `"changed":false`) {
		t.Errorf("a run with nothing to do: got %s; want text with `\"changed\":false`", r)
	}
}
