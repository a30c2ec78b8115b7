package kube

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestKubeletSaysWhy breaks a real kubelet in ways that no plan can see, and expects the reason in the message, with
// the site's line if there is one.
func TestKubeletSaysWhy(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	pin, err := c.Pin()
	must(t, err)
	t.Run("a wrong token, that only the kubelet uses", func(t *testing.T) {
		n := newNode(t, c, NodeOptions{Name: "token"}, "10.0.0.11:6443")
		journal(t, n)
		base, err := c.ConfigMap(t.Context(), "kube-system", "kubelet-config")
		must(t, err)
		must(t, n.Write("/etc/base.yaml", base["kubelet"], 0o644))
		must(t, n.Credential("bootstrap-token", c.Token[:7]+"0000000000000000"))
		ca, err := c.CA()
		must(t, err)
		must(t, n.Write("/etc/kubernetes/ca.crt", ca, 0o644))
		must(t, n.Site(map[string]string{"site.hcl": `
cluster {
  servers = ["https://10.0.0.11:6443"]
  ca_file = "/etc/kubernetes/ca.crt"
  token   = credential("bootstrap-token")
}
stage "fetch-ca" "cluster" {}
stage "write" "kubelet" {
  kubelet_config { base = file("/etc/base.yaml") }
}
stage "restart" "kubelet" {
  verify {
    settle  = "1s"
    timeout = "20s"
  }
}
`}))
		r := prelet(t, n, 50, "run", "-o", "json")
		if !strings.Contains(r.Out, `"id":"token"`) ||
			!strings.Contains(r.Out, "the cluster does not take the bootstrap token") ||
			!strings.Contains(r.Out, `"at":"/etc/prelet/site.hcl:5:`) {
			t.Errorf(
				"got %s; want text with `\"id\":\"token\"`, text with \"the cluster does not take the "+
					"bootstrap token\" and text with `\"at\":\"/etc/prelet/site.hcl:5:`",
				r,
			)
		}
	})

	// The real kubelet knows the labels that NodeRestriction refuses and exits because of them (below); a cluster may
	// have its own rules. From 1.32 on a kubelet does not log the text of a Forbidden refusal, and a policy's refusal
	// is Invalid if it has no reason.
	for _, p := range []struct {
		reason metav1.StatusReason
		why
	}{
		{metav1.StatusReasonInvalid, why{id: "register", item: "label/example.com/invalid", at: `"team-a"`, says: []string{"it cannot register its node", "example.com/invalid is not allowed here"}}},
		{metav1.StatusReasonForbidden, why{id: "register-forbidden", says: []string{"the cluster forbids the " +
			"node forbidden", "does not say why: a label"}}},
	} {
		t.Run("a label that the cluster refuses as "+string(p.reason), func(t *testing.T) {
			name := strings.ToLower(string(p.reason))
			label := "example.com/" + name
			refuse(t, c, p.reason, label)
			n := newNode(t, c, NodeOptions{Name: name}, "10.0.0.11:6443")
			journal(t, n)
			must(t, n.Credential("bootstrap-token", c.Token))
			m := member{n, t, c, pin}
			m.site(
				"stage \"label\" \"a\" {\n  labels = {\n    \"example.com/free\" = \"x\"\n    \""+label+"\" = \"team-a\"\n  }\n}\n",
				strings.Replace(quick, "40s", "15s", 1),
			)
			toldWhy(t, m, p.why)
			if _, err := c.Node(t.Context(), name); err == nil {
				t.Error("the node is there")
			}
		})
	}

	m := newMember(t, c, NodeOptions{Name: "n1"}, quick)
	journal(t, m.Node)
	// The site writes another environment file of the kubelet's unit, as it had before it used prelet. No rule judges
	// a label there, and the unknown flag is refused before the kubelet is.
	const other = "/var/lib/kubelet/kubeadm-flags.env"
	writing := func(flag string) string {
		content := "<<-EOT\n      # as before\n      KUBELET_KUBEADM_ARGS=\"--v=2 " + flag + "\"\n    EOT\n"
		return strings.Replace(
			quick,
			"{}",
			"{\n  file \"kubeadm\" {\n    path    = \""+other+"\"\n    content = "+content+"  }\n}",
			1,
		)
	}
	t.Run("a forbidden label in a file of the site", func(t *testing.T) {
		m := m
		m.t = t
		m.site(writing("--node-labels=example.com/a=b,node-role.kubernetes.io/worker=x"))
		r := toldWhy(t, m, why{id: "label-forbidden", at: "<<-EOT", item: "label/node-role.kubernetes.io/worker",
			says: []string{"a kubelet may not set these labels on its own node: node-role.kubernetes.io/worker"}})
		if !strings.Contains(r.Out, "was rolled back") {
			t.Errorf("got %s, want text with %q", r, "was rolled back")
		}
		if text, err := m.Read(other); err == nil {
			t.Errorf("got %s in %s, want no such file", text, other)
		}
	})
	t.Run("an unknown flag in a file of the site", func(t *testing.T) {
		m := m
		m.t = t
		m.site(writing("--network-plugin=cni"))
		if r := m.run(10); !strings.Contains(r.Err, "The kubelet would not start with --network-plugin") {
			t.Errorf("got %s, want that the flag is refused", r)
		}
	})

	// A kubelet accepts any name and runs; only the API server rejects it. prelet refuses the flag if it has written
	// it.
	t.Run("a name that no Node can have", func(t *testing.T) {
		n := newNode(t, c, NodeOptions{Name: "fresh"}, "10.0.0.11:6443")
		journal(t, n)
		must(t, n.Credential("bootstrap-token", c.Token))
		m := member{n, t, c, pin}
		m.site(
			strings.Replace(
				strings.Replace(quick, "40s", "10s", 1),
				"{}",
				"{\n  file \"kubeadm\" {\n    path    = \""+other+"\"\n    content = "+
					"\"KUBELET_KUBEADM_ARGS=--hostname-override=not_a_name\"\n  }\n}",
				1,
			),
		)
		if r := m.run(
			50,
			"-o",
			"json",
		); !strings.Contains(r.Out, `"verdict":"bad"`) ||
			!strings.Contains(r.Out, "no Node can have the name not_a_name") {
			t.Errorf("got %s, want a bad verdict for the name", r)
		}
		must(t, waitFor(t.Context(), 20*time.Second, "the cluster refuses the name", func() string {
			if log := n.KubeletLog(); !strings.Contains(
				log,
				`Node \"not_a_name\" is invalid: metadata.name: Invalid value`,
			) {
				return "it says " + last(log, 2000)
			}
			return ""
		}))
		m.site(
			"stage \"write\" \"kubelet\" {\n  kubelet_flags {\n    flags = { hostname-override = " +
				"\"not_a_name\" }\n  }\n}\n",
		)
		if r := prelet(t, m.Node, 10, "plan"); !strings.Contains(r.Err, `invalid Node name "not_a_name"`) {
			t.Errorf("got %s; want text with `invalid Node name \"not_a_name\"`", r)
		}
	})

	// It was there when the node was planned. After a reboot the unit that made it did not.
	t.Run("a cgroup that is gone", func(t *testing.T) {
		m := m
		m.t = t
		const each = `for h in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do [ ! -e $h ] || `
		in(
			t,
			m.Node,
			"sh",
			"-ec",
			each+`mkdir ${h%cgroup.procs}site-reserved; done; ls -d /sys/fs/cgroup/*/site-reserved`,
		)
		m.site(
			strings.Replace(
				quick,
				"{}",
				"{\n  kubelet_config {\n    patch = { enforceNodeAllocatable = [\"pods\", "+
					"\"system-reserved\"], systemReserved = { cpu = \"100m\" }, systemReservedCgroup = "+
					"\"/site-reserved\" }\n  }\n}",
				1,
			),
		)
		m.run(0)
		must(t, m.StopKubelet(t.Context()))
		in(t, m.Node, "sh", "-ec", each+`[ ! -e ${h%cgroup.procs}site-reserved ] || rmdir ${h%cgroup.procs}site-reserved; done`)
		must(t, m.Write("/var/log/kubelet.log", "", 0o644))
		must(t, m.Systemctl(t.Context(), "start"))
		w := why{
			id:   "cgroup-missing",
			item: "config/enforceNodeAllocatable",
			at:   `["pods", "system-reserved"]`,
			says: []string{"enforceNodeAllocatable needs the cgroup /site-reserved, and there is none"},
		}
		checkVerdict(t, m.Node, downAndSays(t, m.Node), w)
	})

	t.Run("a flag that prelet does not manage, and a kubelet that is down", func(t *testing.T) {
		m := m
		m.t = t
		m.site(quick)
		must(t, m.Write(other, "KUBELET_KUBEADM_ARGS=--network-plugin=cni\n", 0o644))
		must(t, m.Write("/var/log/kubelet.log", "", 0o644))
		_ = m.Systemctl(t.Context(), "restart")
		checkVerdict(
			t,
			m.Node,
			downAndSays(t, m.Node),
			why{
				id:   "flag-unknown",
				item: "flag/network-plugin",
				says: []string{"it does not know the flag --network-plugin"},
			},
		)
	})
}

// journal replaces journald on a node without it: journalctl prints the kubelet's log since a time, by the time in
// each of its lines, and lines without a time with the line before. Without a time it prints the lines of one process,
// by the number in each of its lines.
func journal(t *testing.T, n *Node) {
	t.Helper()
	must(t, n.Write("/usr/local/bin/journalctl", `#!/bin/sh
for word; do case $word in --since=*) since=${word#--since=};; _PID=*) pid=${word#_PID=};; esac; done
[ -n "$since" ] || exec awk -v pid="$pid" '/^[IWEF][0-9][0-9][0-9][0-9] / { own = $3 == pid } own' /var/log/kubelet.log
from=$(date -d "$since" "+%m%d %H:%M:%S.%6N") || exit 1
exec awk -v from="$from" '/^[IWEF][0-9][0-9][0-9][0-9] / { new = substr($1, 2) " " $2 >= from } new || !NF' /var/log/kubelet.log
`, 0o755))
}

// why is the expected message about a kubelet that fails.
type why struct {
	id, item string
	at       string // the site's text that the message points to; "" if it points outside of the site
	says     []string
}

// toldWhy runs prelet, which starts the real kubelet and must report why it is unhealthy.
func toldWhy(t *testing.T, m member, w why) Result {
	t.Helper()
	began := time.Now()
	r := m.run(50, "-o", "json")
	var j verdict
	must(t, json.Unmarshal([]byte(r.Out), &j))
	checkVerdict(t, m.Node, j, w)
	t.Logf("after %s: %s", time.Since(began).Round(time.Millisecond), j.Why)
	return r
}

// downAndSays waits until the kubelet was started, died, and prelet knows of what.
func downAndSays(t *testing.T, n *Node) (j verdict) {
	t.Helper()
	must(t, waitFor(t.Context(), 30*time.Second, "the kubelet is down and says why", func() string {
		r, err := n.Prelet(t.Context(), "verify", "-o", "json")
		if err != nil || r.Exit != 50 || json.Unmarshal([]byte(r.Out), &j) != nil || j.Cause == nil {
			return fmt.Sprint(r, err)
		}
		return ""
	}))
	return j
}

// checkVerdict checks a verdict's message, and the place that it points to.
func checkVerdict(t *testing.T, n *Node, j verdict, w why) {
	t.Helper()
	if j.Cause == nil || j.Cause.ID != w.id || w.item != "" && j.Cause.Item != w.item {
		t.Errorf("%+v\n%+v", j, j.Cause)
		return
	}
	for _, s := range w.says {
		if !strings.Contains(j.Cause.Sentence, s) {
			t.Errorf("got %q does not say %q; want text with %q", j.Cause.Sentence, s, s)
		}
	}
	if w.at == "" {
		if j.Cause.At != "" {
			t.Errorf("it points to %s; want nothing", j.Cause.At)
		}
		return
	}
	site, err := n.Read("/etc/prelet/site.hcl")
	must(t, err)
	before, _, found := strings.Cut(site, w.at)
	line := 1 + strings.Count(before, "\n")
	if want := fmt.Sprintf("/etc/prelet/site.hcl:%d:%d", line, len(before)-strings.LastIndex(before, "\n")); !found ||
		!strings.HasPrefix(j.Cause.At, want+",") {
		t.Errorf("it points to %q, and %s is %q", j.Cause.At, want, w.at)
	}
}
