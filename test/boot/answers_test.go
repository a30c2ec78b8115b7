package boot

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/demo"
)

// badAnswer is a cluster that answers, and wrongly.
type badAnswer struct {
	name string
	make func(*testing.T, *cluster)
	fix  func(*cluster)
	exit int    // of a node that never joined
	says string // in its summary
	code string // for which a node that has joined is degraded
}

func badAnswers() []badAnswer {
	back := func(c *cluster) { c.instead("") }
	return []badAnswer{
		{"a portal", func(t *testing.T, c *cluster) {
			portal := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, "<html><body>Please log in.</body></html>")
			}))
			t.Cleanup(portal.Close)
			c.instead(strings.TrimPrefix(portal.URL, "https://"))
		}, back, 23, "as a captive portal sends", "stale"},
		{"a cluster with another CA", func(t *testing.T, c *cluster) {
			other := demo.Start(demo.Options{})
			t.Cleanup(other.Close)
			c.instead(strings.TrimPrefix(other.URL, "https://"))
		}, back, 21, "no pin covers the CA", "stale"},
		{"a ConfigMap that is no YAML", func(_ *testing.T, c *cluster) {
			c.SetConfigMap(
				"kube-system",
				"kubelet-config",
				map[string]string{"kubelet": "kind: [KubeletConfiguration\n"},
			)
		}, func(c *cluster) {
			c.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": kubeletConfig})
		}, 23, `fetch-config.kubelet.data["kubelet"]`, "cluster-unusable"},
	}
}

// A node that has joined boots with its last good answers, and uses no part of the bad one.
func TestBadAnswerOnJoinedNode(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	before := m.disk()
	for n, bad := range badAnswers() {
		bad.make(t, m.cluster)
		m.Boot()
		m.running()
		s := m.status()
		if s.State != "degraded" || s.Code != 2 || s.Exit != 0 || s.Generation != 1 || len(s.Degraded) == 0 {
			t.Errorf("%s: status: got %+v; want State \"degraded\", Code 2, Exit 0, Generation 1 and some Degraded",
				bad.name, s)
		}
		if !strings.Contains(m.read("/var/log/standin/starts"), "cluster.local") || len(m.starts()) != 2+n {
			t.Errorf("%s: starts: got %+v; want text with \"cluster.local\" and starts %v", bad.name, m.starts(), 2+n)
		}
		if metrics := m.Do("cat", "/run/prelet/metrics.prom"); !strings.Contains(
			metrics,
			fmt.Sprintf("prelet_degraded{code=%q} ", bad.code),
		) {
			t.Errorf("%s: the metrics do not contain it:\n%s", bad.name, metrics)
		}
		m.Off()
		if d := differs(before, m.disk()); len(d) > 0 {
			t.Errorf("%s: written: got %q; want none", bad.name, d)
		}
		bad.fix(m.cluster)
	}
	m.Boot()
	m.well(1)
}

// A node that never joined keeps its gate shut, sends its token only to a server that it trusts, and joins when the
// right cluster answers.
func TestBadAnswerOnFreshNode(t *testing.T) {
	t.Parallel()
	for _, bad := range badAnswers() {
		t.Run(bad.name, func(t *testing.T) {
			m := newMachine(t)
			bad.make(t, m.cluster)
			m.Start()
			m.Within(45*time.Second, "a failed run", func() string {
				if s := m.status(); s.Exit != bad.exit || s.Gate.Open || !strings.Contains(s.Summary, bad.says) {
					return fmt.Sprintf("%+v", s)
				}
				return ""
			})
			if len(m.starts()) != 0 || m.Exists("/var/lib/kubelet/config.yaml") ||
				m.Exists("/etc/kubernetes/bootstrap-kubelet.conf") {
				t.Error("something was written, or the kubelet was executed")
			}
			bad.fix(m.cluster)
			m.verdict("good")
			m.well(1)
		})
	}
}

// A reboot after the bootstrap token has expired: the node has its own certificate, and asks with that.
func TestRebootAfterTokenExpired(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.cluster.ExpireToken()
	before, shown := m.disk(), m.cluster.Authorizations()
	m.Boot()
	m.well(1)
	if d := differs(before, m.disk()); len(d) > 0 {
		t.Errorf("written: got %q; want none", d)
	}
	if n := m.cluster.Authorizations(); n != shown {
		t.Errorf("the token was shown %d times", n-shown)
	}
}

// The site's files are gone, and a generation is in place: it stays, and status says why.
func TestSiteGone(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	if err := os.Remove(m.Root + "/etc/prelet/site.hcl"); err != nil {
		t.Fatal(err)
	}
	before := m.disk()
	m.Boot()
	m.running()
	if s := m.status(); s.Code != 2 || s.Generation != 1 || !s.Gate.Open || len(s.Degraded) == 0 {
		t.Errorf("status: got %+v; want Code 2, Generation 1, Gate.Open and some Degraded", s)
	}
	if d := differs(before, m.disk()); len(d) > 0 {
		t.Errorf("written: got %q; want none", d)
	}
}

// A stage `write` that is not there any more, as of a layer that was not deployed: the kubelet keeps its files and
// starts on them, at a boot and by hand, and with the stage there is nothing to do.
func TestWriteStageGone(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.edit(`stage "write" "kubelet" {}`, "")
	before := m.disk()
	m.Boot()
	m.running("prelet.service")
	if s := m.status(); s.Exit != 10 || s.Generation != 1 || !s.Gate.Open ||
		!strings.Contains(s.Summary, "kubelet's own files") {
		t.Errorf("status: %+v, want exit 10 on generation 1, the gate open, and what would go", s)
	}
	if r := m.Try("prelet", "run"); r.Exit != 10 || !strings.Contains(r.Errors, "removal-refused") ||
		!strings.Contains(r.Errors, "/var/lib/kubelet/config.yaml") {
		t.Errorf("prelet run: %+v, want 10, removal-refused and the files", r)
	}
	if d := differs(before, m.disk()); len(d) > 0 || len(m.starts()) != 2 {
		t.Errorf("written: %q; starts: %+v; want nothing, and one start a boot", d, m.starts())
	}

	m.put("/etc/prelet/site.hcl", m.site)
	before = m.disk()
	m.Do("systemctl", "restart", "prelet")
	m.Do("systemctl", "reset-failed", "prelet-apply.service")
	m.well(1)
	if d := differs(before, m.disk()); len(d) > 0 || len(m.starts()) != 2 {
		t.Errorf("with the stage, written: %q; starts: %+v; want nothing more", d, m.starts())
	}
}

// A site that changed while the machine was off: the boot applies it, and the kubelet starts once, on the new one.
func TestSiteChangedAtBoot(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.edit(pool, `"example.com/pool" = "b"`)
	m.Boot()
	m.verdict("good")
	m.well(2)
	if starts := m.starts(); len(starts) != 2 || starts[1].Labels["example.com/pool"] != "b" ||
		starts[1].Generation != "2" {
		t.Errorf(
			"starts: got %+v; want 2 starts, starts[1].Labels[example.com/pool] \"b\" and starts[1].Generation \"2\"",
			starts,
		)
	}
}
