package activation

import (
	"testing"
	"time"
)

func TestMountOf(t *testing.T) {
	mounts := []Mount{
		{Path: "/var", Active: true}, {Path: "/var/lib", State: "failed"}, {Path: "/var/lib/kubelet", Active: true},
	}

	for file, want := range map[string]string{
		"/etc/a": "/", "/var/x": "/var", "/var/lib/x": "/var", "/var/lib/kubelet/config.yaml": "/var/lib/kubelet",
		"/var/lib/kubelet": "/var/lib/kubelet", "/var/lib/kubelets/x": "/var", "/various/x": "/",
	} {
		if got := MountOf(mounts, file); got != want {
			t.Errorf("%s: got mount point %s, want %s", file, got, want)
		}
	}
}

// TestAwaitMounts waits for a mount that has a job, and not for ever: for 90 s in all.
func TestAwaitMounts(t *testing.T) {
	n := newNode(t)
	m := &Machine{Units: n.systemd, Clock: n.clk}
	n.systemd.mounts = []Mount{{Path: "/var", Unit: "var.mount", State: "inactive", Job: true}}
	n.clk.schedule(2*time.Second, func() {
		n.systemd.mounts = []Mount{{Path: "/var", Unit: "var.mount", State: "active", Active: true}}
	})
	begun := n.clk.now

	mounts, waited, err := m.AwaitMounts(t.Context(), []string{"/var/x"})
	if took := n.clk.now - begun; err != nil || !waited || len(mounts) != 1 || !mounts[0].Active ||
		took > 3*time.Second {
		t.Errorf("late: got %+v, waited %v for %s, %v; want it active after 2s", mounts, waited, took, err)
	}

	n.systemd.mounts = []Mount{{Path: "/var", Unit: "var.mount", State: "inactive", Job: true}}
	begun = n.clk.now

	mounts, waited, err = m.AwaitMounts(t.Context(), []string{"/var/x"})
	left := mountWait - 2*time.Second
	if took := n.clk.now - begun; err != nil || !waited || mounts[0].Active || took < left-time.Second ||
		took > left+time.Second {
		t.Errorf("never: got %+v, waited %v for %s, %v; want it given up after %s", mounts, waited, took, err, left)
	}

	begun = n.clk.now
	if _, waited, err = m.AwaitMounts(t.Context(), []string{"/var/x"}); waited || err != nil || n.clk.now != begun {
		t.Errorf("once more: waited %v for %s, %v; want no further wait", waited, n.clk.now-begun, err)
	}
}
