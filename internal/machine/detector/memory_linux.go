package detector

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// memoryPause is the time between two looks at the memory of a running detector: 0.3 ms on a node with 500
	// processes.
	memoryPause = 50 * time.Millisecond

	// memoryProcesses is how much memory all processes of a detector may hold together, in limits of one process: an
	// honest detector has one large process, and a child that it forks has as much until it executes its program.
	memoryProcesses = 2
)

// errMemory means that a detector was killed because of its memory.
var errMemory = errors.New("it was killed for its memory")

// watchMemory ends a run by stop once all processes of the detector together hold too much memory at two looks in a
// row. The kernel's limit of one process counts writable private pages only: not those that are read-only since they
// were written, and no page tables. A detector cannot stop or deceive prelet, unlike prelet-detect, which has its user.
func (p *process) watchMemory(ctx context.Context, limit int64, stop context.CancelCauseFunc) {
	for isOver := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(memoryPause):
		}

		held := measureMemory(p.Process.Pid)
		if held > limit && isOver {
			stop(fmt.Errorf(
				"%w: its processes hold %d MiB with their page tables; together they may hold %d MiB, twice the "+
					"`memory` of its block. Raise that, or let the detector hold less",
				errMemory, held>>20, limit>>20,
			))
			return
		}
		isOver = held > limit
	}
}

// measureMemory returns the bytes of memory and page tables that a detector's processes hold. They are those of the
// group of prelet-detect without itself: the filter of system calls keeps them in it. Pages that a process shares with
// its parent since fork(2) count for both. Where /proc hides the processes of others from root (hidepid=ptraceable) it
// is 0.
func measureMemory(group int) (held int64) {
	for _, pid := range members(group) {
		if pid == strconv.Itoa(group) {
			continue
		}

		status, _ := os.ReadFile("/proc/" + pid + "/status") // it may have ended
		for line := range strings.Lines(string(status)) {
			key, value, _ := strings.Cut(line, ":")
			switch key {
			case "RssAnon", "RssShmem", "VmSwap", "VmPTE":
				number, _, _ := strings.Cut(strings.TrimSpace(value), " ")
				kib, _ := strconv.ParseInt(number, 10, 64)
				held += kib << 10
			}
		}
	}

	return held
}
