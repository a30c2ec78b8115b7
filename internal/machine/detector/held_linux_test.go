package detector

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNotHeld looks at processes that a busy machine ends late: one that sleeps, and one that was killed and is not
// reaped. None of them is held by a driver.
func TestNotHeld(t *testing.T) {
	c := exec.Command("sleep", "600")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, c.Start())
	defer func() { _ = c.Wait() }()
	group := c.Process.Pid

	for step, signal := range map[string]unix.Signal{"sleeps": 0, "was killed": unix.SIGKILL} {
		must(t, unix.Kill(-group, signal))
		// Polled: it is in state D for a moment while the kernel reads its program.
		for late := time.Now().Add(patience); countHeld(group) > 0; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("a process that %s: got held for %v, want not", step, patience)
			}
		}
	}
}

func countHeld(group int) int {
	_, held := countThreads(group)

	return held
}
