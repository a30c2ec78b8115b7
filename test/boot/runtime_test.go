package boot

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// runtimeService has the unit name of containerd. It reads the drop-ins when it starts, and refuses some.
const runtimeService = `[Unit]
Before=prelet.service
[Service]
TimeoutStartSec=20
ExecStartPre=/bin/sh -c 'echo "start $(cat /etc/containerd/conf.d/*.toml | grep -o -E "pause:[a-z]+")" >>/run/containerd.log'
ExecStartPre=/bin/sh -c '! grep -q pause:broken /etc/containerd/conf.d/*.toml'
ExecStartPre=/bin/sh -c '! grep -q pause:hangs /etc/containerd/conf.d/*.toml || sleep infinity'
ExecStart=/bin/sleep infinity
[Install]
WantedBy=multi-user.target
`

// pauses writes a site that configures containerd with a sandbox image of a tag.
func (m *machine) pauses(tag string) {
	m.put("/etc/prelet/runtime.hcl", fmt.Sprintf(`override {
  stage "write" "kubelet" {
    file "containerd" {
      path   = "/etc/containerd/conf.d/90-site.toml"
      notify = [stage.restart.containerd, stage.restart.kubelet]
      content = tomlencode({
        version = 3
        plugins = {
          "io.containerd.cri.v1.images" = { pinned_images = { sandbox = "registry.example/pause:%s" } }
        }
      })
    }
  }
}
stage "restart" "containerd" {
  unit    = "containerd.service"
  timeout = "10s"
}
`, tag))
}

// TestRuntime: containerd is restarted before the kubelet. Settings that it refuses, or hangs with, are rolled back. An
// edit by hand is replaced, and a runtime that does not run is not started.
func TestRuntime(t *testing.T) {
	t.Parallel()
	const dropIn = "/etc/containerd/conf.d/90-site.toml"
	m := newMachine(t)
	m.put("/etc/systemd/system/containerd.service", runtimeService)
	m.put("/etc/containerd/config.toml", "version = 3\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n")
	m.put("/etc/containerd/conf.d/10-image.toml", "version = 3\n# pause:image\n")
	if out, err := exec.Command("chroot", m.Root, "systemctl", "enable", "containerd.service").
		CombinedOutput(); err != nil {
		t.Fatalf("systemctl enable: got %v: %s; want no error", err, out)
	}
	m.pauses("one")
	m.Boot()
	m.verdict("good")
	m.checkLog("containerd", "start pause:image", "start pause:image pause:one")
	runtime, kubelet := m.monotonic("containerd", "ExecMainStart"), m.monotonic("kubelet", "ExecMainStart")
	if runtime >= kubelet {
		t.Errorf("containerd started at %s, and the kubelet at %s; want containerd first", runtime, kubelet)
	}

	pid := m.property("kubelet", "MainPID")
	for _, tag := range []string{"broken", "hangs"} {
		m.pauses(tag)
		r := m.Try("prelet", "run")
		if r.Exit != 50 || !strings.Contains(r.Errors, "containerd.service") {
			t.Errorf("%s: prelet run: got %+v, want 50 and the unit", tag, r)
		}
		m.Within(90*time.Second, tag+" is rolled back", func() string {
			text, state := m.read(dropIn), m.property("containerd", "ActiveState")
			if strings.Contains(text, "pause:one") && state == "active" {
				return ""
			}
			return state + "\n" + text
		})
	}

	m.pauses("two")
	m.Do("prelet", "run")
	if got := m.property("kubelet", "MainPID"); got == pid {
		t.Errorf("the kubelet: got process %s still, want another one", got)
	}

	m.put(dropIn, "version = 3\n# pause:hand\n")
	m.Do("prelet", "run")
	if got := m.read(dropIn); !strings.Contains(got, "pause:two") {
		t.Errorf("after an edit by hand: got %q, want that of pause:two", got)
	}

	m.Do("systemctl", "stop", "containerd.service")
	m.pauses("three")
	m.Do("prelet", "run")
	if got := m.property("containerd", "ActiveState"); got != "inactive" {
		t.Errorf("a runtime that was stopped: got %s, want inactive", got)
	}
}
