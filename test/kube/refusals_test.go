package kube

import (
	"cmp"
	"context"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// refusal is an entry of refusals.yaml.
type refusal struct {
	Name, Rule, Code, Label, Says string
	Config                        map[string]any
	Flags                         map[string]string
	Kernel                        map[string]int64
	Files                         map[string]string
	Swap, Exits, Unsure           bool
}

// refusals are inputs that the real kubelet rejects, or should, each with the rule that finds it: at least one for
// each rule that can be run here. The file is with the rules, which are tested with it without a kubelet as well.
func refusals(t *testing.T) (list []refusal) {
	t.Helper()
	text, err := os.ReadFile("../../internal/model/kubelet/rules/testdata/refusals.yaml")
	must(t, err)
	online, err := os.ReadFile("/proc/cpuinfo")
	must(t, err)
	cpus := strings.Count("\n"+string(online), "\nprocessor")
	must(t, yaml.UnmarshalStrict([]byte(strings.ReplaceAll(string(text), "@CPUS@", fmt.Sprint(cpus))), &list))
	return list
}

const (
	caseBase = "/etc/prelet-case/base.yaml"
	// Without a kubeconfig the kubelet runs for itself, which is enough for all that it looks at before it joins.
	baseline = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: " +
		"cgroupfs\nfailCgroupV1: false\nfailSwapOn: false\n" +
		"authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}\nauthorization: {mode: AlwaysAllow}\n"
	started = "Started kubelet" // in its log
	settled = 3 * time.Second   // after it has started: what ends late has ended
	patient = 90 * time.Second  // for a start, and for the end of one that is to end
)

// TestRefusals gives each bad input to the real kubelet and to prelet, which also asks the kubelet's binary: both refuse
// it, in the same words, or the kubelet silently ignores it, and prelet does not.
func TestRefusals(t *testing.T) {
	t.Parallel()
	p, all, certificates := programs(t), refusals(t), pemTexts(t)
	var mu sync.Mutex
	var idle []*Node // no input is tried there now
	var ran []trial
	t.Cleanup(func() { // after all of them
		if len(ran) == len(all) { // and not only some
			heard(t, ran)
		}
		for _, n := range idle {
			n.Stop()
		}
	})
	for _, c := range all {
		t.Run(strings.ReplaceAll(c.Name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			mu.Lock()
			var n *Node
			if len(idle) > 0 {
				n, idle = idle[0], idle[1:]
			}
			mu.Unlock()
			if n == nil {
				n = newTried(t, p, "", nil)
			}
			t.Cleanup(func() {
				mu.Lock()
				defer mu.Unlock()
				idle = append(idle, n)
			})
			for name, text := range c.Files {
				must(t, n.Write(name, certificates.Replace(text), 0o600))
			}
			if c.Swap {
				in(t, n, "mount", "--bind", "/etc/prelet-case/swaps", "/proc/swaps")
				defer in(t, n, "umount", "/proc/swaps")
			}
			for name, value := range c.Kernel {
				file := "/etc/prelet-case/kernel-" + strings.ReplaceAll(name, "/", "-")
				must(t, n.Write(file, fmt.Sprintln(value), 0o644))
				in(t, n, "mount", "--bind", file, "/proc/sys/"+name)
				defer in(t, n, "umount", "/proc/sys/"+name)
			}
			said := judged(t, n, c)
			log, exited := ranKubelet(t, n, c)
			minds := complaints(log)
			mu.Lock()
			ran = append(ran, trial{c.Rule, minds, said})
			mu.Unlock()
			switch {
			case exited != c.Exits:
				t.Errorf("the kubelet ended: %t, want %t:\n%s", exited, c.Exits, last(log, 3000))
			case !c.Exits && !strings.Contains(log, started):
				t.Errorf("the kubelet has not started within %s:\n%s", patient, last(log, 3000))
			// What it ends with.
			case c.Exits && (c.Says == "" || len(minds) == 0 || !strings.Contains(minds[len(minds)-1], c.Says)):
				t.Errorf("the kubelet does not end with %q, but with %q:\n%s", c.Says, minds, last(log, 3000))
			}
			if c.Rule == "" && !c.Exits {
				said = slices.DeleteFunc(said, func(s string) bool { // about another owner of the label, and the network
					return strings.HasPrefix(s, "label-shared note ") ||
						strings.HasPrefix(s, "kubelet-machine note The Node is NotReady until it has one.")
				})
				if len(said) > 0 {
					t.Errorf("prelet rejects it: got %q; want no message", said)
				}
				return
			}
			want := cmp.Or(c.Code, "kubelet-config")
			if !slices.ContainsFunc(
				said,
				func(s string) bool { return strings.HasPrefix(s, want+" ") && strings.Contains(s, c.Says) },
			) {
				t.Errorf("prelet does not say %s with %q, but %q", want, c.Says, said)
			}
		})
	}
}

// newTried is a node on which kubelets are tried that do not belong to a cluster; kubelet is another program than that
// of the installed version, or "", and files are further programs. The caller stops it.
func newTried(t *testing.T, p Programs, kubelet string, files map[string]string) *Node {
	t.Helper()
	n, err := p.NewNode(t.Context(), NodeOptions{Name: "n1", Kubelet: kubelet, Files: files})
	must(t, err)
	whole := false
	defer func() {
		if !whole {
			n.Stop()
		}
	}()
	must(t, n.StartFakeRuntime(t.Context(), "cgroupfs"))
	must(t, n.Write(caseBase, baseline, 0o644))
	must(
		t,
		n.Write(
			"/etc/prelet-case/swaps",
			"Filename\tType\tSize\tUsed\tPriority\n/dev/sda2\tpartition\t1048576\t0\t-2\n",
			0o644,
		),
	)
	whole = true
	return n
}

// pemTexts fill in a CA, a certificate of it with its key, and another key.
func pemTexts(t *testing.T) *strings.Replacer {
	t.Helper()
	ca := newAuthority(t, "case")
	cert, key := pair(t, ca.issue(t, pkix.Name{}, time.Now()))
	_, other := pair(t, ca.issue(t, pkix.Name{}, time.Now()))

	return strings.NewReplacer("@CA@", ca.pem(), "@CERT@", cert, "@KEY@", key, "@OTHER@", other)
}

// in runs a command in a node that must succeed.
func in(t *testing.T, n *Node, words ...string) {
	t.Helper()
	r, err := n.Run(context.WithoutCancel(t.Context()), words...)
	must(t, err)
	if r.Exit != 0 {
		t.Fatal(r)
	}
}

// judged is what prelet says, a line for each message about the kubelet: code, severity, words.
func judged(t *testing.T, n *Node, c refusal) (said []string) {
	t.Helper()
	write := func(name string, v any) {
		b, err := json.Marshal(v)
		must(t, err)
		must(t, n.Write(name, string(b), 0o644))
	}
	if c.Config == nil {
		c.Config = map[string]any{}
	}
	if c.Flags == nil {
		c.Flags = map[string]string{}
	}
	write("/etc/prelet-case/patch.json", c.Config)
	// Taints are stages' own; as a flag they can only have been there before.
	flags, base := maps.Clone(c.Flags), ""
	if taints, ok := flags["register-with-taints"]; ok {
		base = "KUBELET_EXTRA_ARGS=--register-with-taints=" + taints
		delete(flags, "register-with-taints")
	}
	write("/etc/prelet-case/flags.json", flags)
	labels := ""
	if key, value, ok := strings.Cut(c.Label, "="); ok {
		labels = fmt.Sprintf("stage \"label\" \"x\" { labels = { %q = %q } }\n", key, value)
	}
	must(t, n.Site(map[string]string{"site.hcl": labels + `
stage "detect-hw" "node" {}
stage "write" "kubelet" {
  bootstrap_kubeconfig { when = false }
  ca_certificate { when = false }
  kubelet_config {
    base  = file("` + caseBase + `")
    patch = jsondecode(file("/etc/prelet-case/patch.json"))
  }
  kubelet_flags {
    base  = "` + base + `"
    flags = jsondecode(file("/etc/prelet-case/flags.json"))
  }
}
`}))
	return c.planMessages(t, n)
}

// planMessages returns the plan's messages about the kubelet with the current site.
func (c refusal) planMessages(t *testing.T, n *Node) (said []string) {
	t.Helper()
	r, err := n.Prelet(context.WithoutCancel(t.Context()), "plan", "-o", "json")
	must(t, err)
	var p struct {
		Diagnostics []struct{ Severity, Code, Detail string }
	}
	if err := json.Unmarshal([]byte(r.Out), &p); err != nil {
		t.Fatalf("got %v: %s; want no error", err, r)
	}
	failed := false
	for _, d := range p.Diagnostics {
		if family, _, _ := strings.Cut(d.Code, "-"); slices.Contains(
			[]string{"flags", "kubelet", "label", "taint"},
			family,
		) {
			said = append(said, d.Code+" "+d.Severity+" "+d.Detail)
			failed = failed || d.Severity == "error"
		}
	}
	if c.Exits && failed == c.Unsure {
		t.Errorf("prelet has an error: %t, want %t: %q", failed, !c.Unsure, said)
	}
	return said
}

// ranKubelet starts the kubelet on an input and says whether it ended by itself.
func ranKubelet(t *testing.T, n *Node, c refusal) (log string, exited bool) {
	t.Helper()
	const dir = "/var/lib/kubelet-case"
	writeCase(t, n, c)
	words := []string{
		"/usr/bin/kubelet",
		"--config=/etc/prelet-case/config.yaml",
		"--root-dir=" + dir,
		"--hostname-override=n1",
	}
	for _, name := range slices.Sorted(maps.Keys(c.Flags)) {
		words = append(words, "--"+name+"="+c.Flags[name])
	}
	if c.Label != "" {
		words = append(words, "--node-labels="+c.Label)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patient)
	defer cancel()
	// The shell waits for the end of a kubelet that is to end; of another it waits for the start and then a while
	// longer, and ends it: what ran until then was not refused.
	script := fmt.Sprintf(`"$@" >/run/case.log 2>&1 & pid=$!
for i in $(seq %d); do
  kill -0 $pid 2>/dev/null || break
  ! %t && grep -q %q /run/case.log && { sleep %d; break; }
  sleep 0.1
done
if kill -0 $pid 2>/dev/null; then kill -KILL $pid; wait $pid 2>/dev/null; exit 100; fi
exit 0`, int((patient-20*time.Second).Seconds())*10, c.Exits, started, int(settled.Seconds()))
	r, err := n.Run(ctx, append([]string{"sh", "-c", script, "sh"}, words...)...)
	must(t, err)
	log, err = n.Read("/run/case.log")
	must(t, err)
	return log, r.Exit != 100
}

// writeCase writes the configuration of a case, as the kubelet will read it, and takes away what the one before has
// left.
func writeCase(t *testing.T, n *Node, c refusal) {
	t.Helper()
	var config map[string]any
	must(t, yaml.Unmarshal([]byte(baseline), &config))
	merged(config, c.Config)
	text, err := yaml.Marshal(config)
	must(t, err)
	const dir = "/var/lib/kubelet-case"
	must(t, os.RemoveAll(n.Root()+dir+"/cpu_manager_state"))
	must(t, os.RemoveAll(n.Root()+dir+"/memory_manager_state"))
	must(t, n.Write("/etc/prelet-case/config.yaml", string(text), 0o644))
	// Before each, since systemd removes empty control groups.
	in(t, n, "sh", "-ec", `for h in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do
  [ ! -e $h ] || mkdir -p ${h%cgroup.procs}is/there
done`)
}

// merged applies a merge patch without deletions.
func merged(to, patch map[string]any) {
	for name, v := range patch {
		from, isObject := v.(map[string]any)
		into, has := to[name].(map[string]any)
		if isObject && has {
			merged(into, from)
			continue
		}
		to[name] = v
	}
}
