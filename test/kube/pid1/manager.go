package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// logFile is where the service's output goes, in place of a journal.
const logFile = "/var/log/kubelet.log"

// stopTime is systemd's TimeoutStopSec= by default.
const stopTime = 90 * time.Second

// manager runs one service as systemd runs one of Type=simple.
type manager struct {
	name string
	bus  bus

	mu       sync.Mutex
	active   string // ActiveState
	sub      string // SubState
	result   string // Result
	pid      int
	started  time.Duration // on CLOCK_MONOTONIC
	restarts uint32        // NRestarts
	wanted   bool          // no stop was requested
	ended    chan struct{} // closed when the main process has ended
	again    *time.Timer   // the automatic restart
	job      uint32
}

func newManager(name string) *manager {
	return &manager{name: name, active: "inactive", sub: "dead", result: "success"}
}

// start begins the service. The answer is the result of a job.
func (m *manager) start(automatic bool) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pid != 0 {
		return "done"
	}
	if m.again != nil {
		m.again.Stop()
	}
	m.wanted = true
	if !automatic {
		m.restarts = 0
	}
	u, err := loadUnit(m.name)
	if err != nil {
		m.failed("resources", nil, err)
		return "failed"
	}
	words, environment, err := u.command()
	if err != nil {
		m.failed("resources", u, err)
		return "failed"
	}
	if len(words) == 0 {
		m.failed("resources", u, errors.New("no ExecStart="))
		return "failed"
	}
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		m.failed("resources", u, err)
		return "failed"
	}
	defer out.Close()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = environment, "/", out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		m.failed("exit-code", u, err)
		return "failed"
	}
	m.pid, m.ended = cmd.Process.Pid, make(chan struct{})
	m.active, m.sub, m.result, m.started = "active", "running", "success", monotonic()
	return "done"
}

// failed is a start that did not come to a process, or a process that ended unasked. The lock is held.
func (m *manager) failed(result string, u *unitFile, why error) {
	m.pid, m.active, m.sub, m.result = 0, "failed", "failed", result
	if why != nil {
		m.say("%s: %v", m.name, why)
	}
	if u == nil || u.restart == "no" || !m.wanted {
		return
	}
	m.active, m.sub = "activating", "auto-restart"
	m.again = time.AfterFunc(u.pause, func() {
		m.mu.Lock()
		due := m.sub == "auto-restart"
		if due {
			m.restarts++
		}
		m.mu.Unlock()
		if due {
			m.start(true)
		}
	})
}

// stop ends the service: SIGTERM, and SIGKILL when it does not listen.
func (m *manager) stop() string {
	m.mu.Lock()
	m.wanted = false
	if m.again != nil {
		m.again.Stop()
	}
	pid, ended := m.pid, m.ended
	if pid == 0 {
		m.active, m.sub = "inactive", "dead"
	} else {
		m.active, m.sub = "deactivating", "stop-sigterm"
	}
	m.mu.Unlock()
	if pid == 0 {
		return "done"
	}
	_ = syscall.Kill(pid, syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(stopTime):
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		<-ended
	}
	return "done"
}

// reap reaps all processes that have ended, including the main process.
func (m *manager) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if pid <= 0 || err != nil {
			return
		}
		m.mu.Lock()
		if pid == m.pid {
			m.pid = 0
			close(m.ended)
			switch {
			case !m.wanted:
				m.active, m.sub, m.result = "inactive", "dead", "success"
			default:
				result := "exit-code"
				if status.Signaled() {
					result = "signal"
				} else if status.ExitStatus() == 0 {
					result = "success"
				}
				u, _ := loadUnit(m.name)
				m.failed(result, u, nil)
			}
		}
		m.mu.Unlock()
	}
}

// say writes where the service's own output goes, as systemd writes into a unit's journal.
func (m *manager) say(format string, args ...any) {
	_ = os.MkdirAll(filepath.Dir(logFile), 0o755)
	f, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(f, "systemd[1]: "+format+"\n", args...)
}

func monotonic() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}
