package boot

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// watchdogBlock is a drop-in of the kubelet's unit, in the site.
const watchdogBlock = `
  file "watchdog" {
    path    = "/etc/systemd/system/kubelet.service.d/70-watchdog.conf"
    content = "[Service]\nWatchdogSec=2s\n"
  }
`

// The site sets a watchdog to which this kubelet, a stand-in, does not report: systemd kills it again and again. The
// generation is rolled back, and the reason is the watchdog.
func TestWatchdogKills(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Off()
	m.site = strings.Replace(m.site, `settle  = "1s"`, `settle  = "4s"`, 1) // longer than the watchdog waits
	m.edit(`stage "write" "kubelet" {}`, `stage "write" "kubelet" {`+watchdogBlock+"}")
	m.Boot()
	m.Within(120*time.Second, "prelet-verify goes back", func() string {
		if s := m.status(); s.State != "failed" {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	m.running("prelet-verify.service")

	s := m.status()
	if s.Exit != 50 || s.Held == nil {
		t.Errorf("status: got %+v; want exit 50 and a held plan", s)
	}
	if want := "systemd's watchdog killed it, because it did not report for WatchdogSec=2s"; !strings.Contains(s.Summary, want) {
		t.Errorf("the status: got %s; want text with %q", s.Summary, want)
	}
	if m.Exists("/etc/systemd/system/kubelet.service.d/70-watchdog.conf") {
		t.Error("70-watchdog.conf is still there, want it rolled back")
	}
	if got := m.property("kubelet", "WatchdogUSec"); got != "0" && got != "infinity" {
		t.Errorf("WatchdogSec= of the kubelet after the rollback: got %s, want none", got)
	}

	// The same with a second is refused before anything is written: no kubelet starts with that.
	m.edit(`stage "write" "kubelet" {}`, `stage "write" "kubelet" {`+strings.ReplaceAll(watchdogBlock, "2s", "1s")+"}")
	r := m.Try("prelet", "run")
	if want := "configure watchdog timeout too small"; r.Exit != 30 || !strings.Contains(r.Out+r.Errors, want) {
		t.Errorf("run with WatchdogSec=1s: got exit %d, %s%s; want 30 and %q", r.Exit, r.Out, r.Errors, want)
	}
}

// A real logind: a drop-in that it reads after that of the kubelet limits a shutdown's delay, so plan and doctor warn of
// a longer shutdownGracePeriod. Without the drop-in the kubelet raises the delay itself, and nothing is reported.
func TestShutdownDelay(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.edit(`stage "write" "kubelet" {}`, `stage "write" "kubelet" {
  kubelet_config { patch = { shutdownGracePeriod = "60s" } }
}`)
	const warning = "shutdownGracePeriod would not have the intended effect"

	plan := func(what string, want ...string) {
		t.Helper()
		r := m.Try("prelet", "plan")
		text := r.Out + r.Errors
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("plan %s: got\n%s\nwant text with %q", what, text, w)
			}
		}
		if len(want) == 0 && strings.Contains(text, warning) {
			t.Errorf("plan %s: got\n%s\nwant nothing about shutdownGracePeriod", what, text)
		}
	}
	delay := func(want string) {
		t.Helper()
		m.Do("systemctl", "restart", "systemd-logind.service")
		const property = "busctl get-property org.freedesktop.login1 /org/freedesktop/login1 " +
			"org.freedesktop.login1.Manager InhibitDelayMaxUSec"
		m.Within(20*time.Second, "logind's delay", func() string {
			if got := strings.TrimSpace(m.Try("sh", "-c", property).Out); got != want {
				return fmt.Sprintf("got %q, want %q", got, want)
			}
			return ""
		})
	}

	delay("t 5000000")
	plan("with logind's default")

	const late = "/usr/lib/systemd/logind.conf.d/unattended-upgrades-logind-maxdelay.conf"
	m.put(late, "[Login]\nInhibitDelayMaxSec=30\n")
	delay("t 30000000")
	plan("with a late drop-in", warning, "by 30s at most", late)
	if text := m.Try("prelet", "doctor").Out; !strings.Contains(text, late) {
		t.Errorf("doctor: got\n%s\nwant text with %s", text, late)
	}

	m.Do("systemctl", "stop", "systemd-logind.service")
	plan("with a late drop-in and without a logind", warning, "by 30s at most")
	if state := m.property("systemd-logind", "ActiveState"); state != "inactive" {
		t.Errorf("after a plan logind is %s, want inactive: plan must not start it", state)
	}

	m.put("/etc/systemd/logind.conf.d/zz.conf", "[Login]\nInhibitDelayMaxSec=2min\n")
	delay("t 120000000")
	plan("with a longer delay")

	m.Do("rm", "/etc/systemd/logind.conf.d/zz.conf")
	m.Do("ln", "-s", "/dev/null", "/etc/systemd/logind.conf.d/unattended-upgrades-logind-maxdelay.conf")
	delay("t 5000000")
	plan("with the late drop-in masked")

	m.Do("systemctl", "mask", "--now", "systemd-logind.service")
	plan("with logind masked", warning, "systemd-logind is not installed or masked")
}
