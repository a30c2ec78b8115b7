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
	m := &StateMachine{Node: n.asNode()}
	for _, c := range []struct {
		name  string
		comes time.Duration // 0: never
		took  time.Duration
	}{
		{"late", 2 * time.Second, 2 * time.Second},
		{"never", 0, mountWait - 2*time.Second},
		{"once more", 0, 0},
	} {
		n.systemd.mounts = []Mount{{Path: "/var", Unit: "var.mount", State: "inactive", Job: true}}
		if c.comes > 0 {
			n.clk.schedule(c.comes, func() {
				n.systemd.mounts = []Mount{{Path: "/var", Unit: "var.mount", State: "active", Active: true}}
			})
		}
		begun := n.clk.now

		mounts, waited, err := m.AwaitMounts(t.Context(), []string{"/var/x"})
		took := n.clk.now - begun
		if err != nil || len(mounts) != 1 || mounts[0].Active != (c.comes > 0) || waited != (c.took > 0) ||
			(took-c.took).Abs() > time.Second {
			t.Errorf("%s: got %+v, waited %v for %s, %v; want it active: %t, after %s",
				c.name, mounts, waited, took, err, c.comes > 0, c.took)
		}
	}
}
