package measure

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Load is the CPU time that the machine has spent since it started, in ticks of 10 ms.
type Load struct {
	all, busy, stolen float64
	ours              float64 // this process and the children that it waited for
}

// ReadLoad reads the first line of /proc/stat, see proc_stat(5), and getrusage(2).
func ReadLoad() (Load, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Load{}, err
	}

	var l Load
	line, _, _ := strings.Cut(string(text), "\n")
	for i, word := range strings.Fields(line) {
		if i == 0 || i > 8 { // the name, and guests, which are counted twice
			continue
		}

		ticks, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return Load{}, fmt.Errorf("/proc/stat: %w", err)
		}

		l.all += ticks
		switch i {
		case 4, 5: // idle, waiting for a disk
		case 8:
			l.stolen += ticks
		default:
			l.busy += ticks
		}
	}

	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if err := syscall.Getrusage(who, &usage); err != nil {
			return Load{}, err
		}
		l.ours += float64(
			time.Duration(usage.Utime.Nano()+usage.Stime.Nano()),
		) / float64(10*time.Millisecond)
	}

	return l, nil
}

// DescribeSince returns a sentence on the machine and on what other programs did meanwhile.
func (l Load) DescribeSince(before Load) string {
	all := max(l.all-before.all, 1)
	others := max(l.busy-before.busy-(l.ours-before.ours), 0)

	return fmt.Sprintf(
		"%s/%s, %d CPUs; meanwhile other programs used %.0f %% of them, and the host's other machines %.0f %%",
		runtime.GOOS,
		runtime.GOARCH,
		runtime.NumCPU(),
		100*others/all,
		100*(l.stolen-before.stolen)/all,
	)
}
