package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// load is what the machine's CPUs have done, in ticks of a hundredth of a second, and what of it was this program's doing.
type load struct {
	all, busy, stolen, ours float64
}

// now reads it: the first line of /proc/stat (proc_stat(5)) and getrusage(2).
func now() (l load, err error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return l, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	for i, f := range strings.Fields(line) {
		n, err := strconv.ParseFloat(f, 64)
		if i == 0 || i > 8 { // the name; and guests, which are counted twice
			continue
		}
		if err != nil {
			return l, fmt.Errorf("/proc/stat: %w", err)
		}
		l.all += n
		switch i {
		case 4, 5: // idle, and waiting for a disk
		case 8:
			l.stolen += n
		default:
			l.busy += n
		}
	}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			return l, err
		}
		l.ours += float64(time.Duration(u.Utime.Nano()+u.Stime.Nano())) / float64(10*time.Millisecond)
	}
	return l, nil
}

// since tells what others did, in a sentence.
func (l load) since(before load) string {
	all := max(l.all-before.all, 1)
	others := max(l.busy-before.busy-(l.ours-before.ours), 0)
	return fmt.Sprintf("%s, %d CPUs; meanwhile other programs had %.0f %% of them, and other machines of the host %.0f %%",
		runtime.GOARCH, runtime.NumCPU(), 100*others/all, 100*(l.stolen-before.stolen)/all)
}
