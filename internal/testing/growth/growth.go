// Package growth checks how the cost of a function grows with its input. The two sizes that it compares are measured in
// the same run, so no machine is too slow for a test. It is for tests only.
package growth

import (
	"math"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"
)

// times is how much larger the large input is, and most how much more of the processor it may take: 4 is in proportion,
// 16 is the square.
const times, most = 4, 9

// Check fails the test where the work on an input of 4 times the size takes more than 9 times the processor's time.
// prepare returns the work on an input of a size; the last call is that of the large one. A measurement is wrong now
// and then, so that one of several is enough. No other test may run in the process meanwhile.
func Check(t testing.TB, size int, prepare func(size int) (work func())) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // as measure collects between calls
	got := compare(size, prepare, used)
	t.Logf("an input of size %d takes %.1f times the processor time of size %d", times*size, got, size)
	if got > most {
		const format = "processor time: got %.1f times as much for %d times the size, want at most %d times"
		t.Errorf(format, got, times, most)
	}
}

// compare returns how many times as much the large input takes: the least of up to twenty measurements on a clock.
func compare(size int, prepare func(size int) func(), clock func() time.Duration) float64 {
	small, large := prepare(size), prepare(times*size)
	least := math.Inf(1)
	for range 20 {
		before := measure(small, clock)
		least = min(least, measure(large, clock)/before)
		if least <= most {
			break
		}
	}

	return least
}

// measure returns the seconds of one call. It calls work until the sum is long enough to measure.
func measure(work func(), clock func() time.Duration) float64 {
	const enough = 50 * time.Millisecond
	runtime.GC() // of the garbage of others

	began := clock()
	for calls := 1; ; calls++ {
		work()
		if sum := clock() - began; sum >= enough {
			return sum.Seconds() / float64(calls)
		}
	}
}

// Allocated returns the bytes of memory that the work takes, which are the same on each machine. No other test may run
// in the process meanwhile.
func Allocated(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)

	return after.TotalAlloc - before.TotalAlloc
}

// used returns the processor time of this process. Unlike the clock, it does not depend on what else the machine does.
func used() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // its arguments are valid
	}

	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
