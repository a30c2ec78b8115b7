package boot

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// A token that comes late: the gate is shut, the reason is logged, and the node joins when the token exists. A node
// that has joined does not need it.
func TestTokenLate(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	token := m.read("/etc/credstore/bootstrap-token")
	if err := os.Remove(m.Root + "/etc/credstore/bootstrap-token"); err != nil {
		t.Fatal(err)
	}
	m.Start()
	m.Within(30*time.Second, "a failed run", func() string {
		if s := m.status(); s.Exit != 11 || s.Gate.Open || !strings.Contains(s.Summary, "bootstrap-token") {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	m.put("/etc/credstore/bootstrap-token", token)
	m.verdict("good")
	m.well(1)
	if err := os.Remove(m.Root + "/etc/credstore/bootstrap-token"); err != nil {
		t.Fatal(err)
	}
	m.Off()
	m.Boot()
	m.well(1)
}

// A site that makes the kubelet unhealthy on the first boot: no generation exists to roll back to, so it stays, and is
// judged again at each boot, until the site is fixed.
func TestIllOnFirstBoot(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.edit(pool, crash)
	m.Boot()
	wantUnhealthy := func(when string) {
		m.Within(90*time.Second, "a bad verdict "+when, func() string {
			if s := m.status(); s.Verdict != "bad" || s.State == "running" || s.Exit != 50 || s.Held != nil ||
				s.Generation != 1 ||
				s.Code != 1 {
				return fmt.Sprintf("%+v", s)
			}
			return ""
		})
	}
	wantUnhealthy("on the first boot")
	m.Off()
	m.Boot()
	wantUnhealthy("on the second")
	m.put("/etc/prelet/site.hcl", m.site)
	if r := m.Try("prelet", "run"); r.Exit != 0 {
		t.Errorf("with the site fixed: got %+v; want exit 0", r)
	}
	m.Do("systemctl", "reset-failed")
	m.well(2)
}

// What the cluster says differently is a change at the next boot.
func TestClusterChanges(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.cluster.SetConfigMap(
		"kube-system",
		"kubelet-config",
		map[string]string{"kubelet": strings.Replace(kubeletConfig, "cluster.local", "other.local", 1)},
	)
	m.Boot()
	m.verdict("good")
	m.well(2)
	if starts := m.starts(); len(starts) != 2 || starts[1].Domain != "other.local" {
		t.Errorf("starts: got %+v; want 2 starts and starts[1].Domain \"other.local\"", starts)
	}
}

// By hand, while prelet.service waits 6 s or more before its next try: the wait ends, and the answer is the node's.
func TestByHandWhileWaiting(t *testing.T) {
	m := newMachine(t)
	m.cluster.away()
	m.Start()
	m.Within(60*time.Second, "a long wait", func() string {
		if text := m.property("prelet", "StatusText"); !strings.Contains(text, "before try 4") {
			return "StatusText: " + text
		}
		return ""
	})
	m.cluster.back()
	began := time.Now()
	r := m.Try("prelet", "run")
	if took := time.Since(began); r.Exit != 0 || took > 5*time.Second {
		t.Errorf("prelet run, after %s: got %+v; want exit 0 and took at most 5s", took, r)
	}
	m.verdict("good")
	m.well(1)
}

// The kubelet that the unit starts is the one that is asked for its version, although another one is in /usr/bin.
func TestKubeletElsewhere(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if err := errors.Join(
		os.MkdirAll(m.Root+"/opt/k8s", 0o755),
		os.Rename(m.Root+"/usr/bin/kubelet", m.Root+"/opt/k8s/kubelet"),
		os.WriteFile(m.Root+"/usr/bin/kubelet", []byte("#!/bin/sh\necho Kubernetes v1.22.0\n"), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	m.put("/etc/systemd/system/kubelet.service.d/20-elsewhere.conf", "[Service]\nExecStart=\n"+
		"ExecStart=/opt/k8s/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS\n")
	m.Boot()
	m.verdict("good")
	m.well(1)
	got := m.read("/var/lib/prelet/kubelet.json")
	if !strings.Contains(got, `"/opt/k8s/kubelet"`) || !strings.Contains(got, `"v1.36.3"`) {
		t.Errorf("the kept version: got %s; want v1.36.3 of /opt/k8s/kubelet", got)
	}
}
