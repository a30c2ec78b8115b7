// Package sample chooses the cases that a long test tries: a random part of them, or all with PRELET_SWEEP=full, as in
// `make nightly`. `make test` takes a quarter of what `make check` takes, which sets PRELET_SWEEP=check. It is for tests
// only.
package sample

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"testing"
)

// quarter is how many times more cases `make check` takes than `make test`.
const quarter = 4

// Sample is the choice of one test.
type Sample struct{ seed string }

// New returns a new choice and logs its seed, which is printed with a failure. PRELET_SEED repeats it.
func New(t testing.TB) Sample {
	t.Helper()
	s := Sample{cmp.Or(os.Getenv("PRELET_SEED"), rand.Text()[:8])}
	if !IsFull() {
		t.Logf("a sample of the cases; PRELET_SEED=%s takes the same again, PRELET_SWEEP=full takes all", s.seed)
	}

	return s
}

// IsFull reports whether all cases are tried.
func IsFull() bool { return os.Getenv("PRELET_SWEEP") == "full" }

// IsQuick reports whether `make test` runs, or a person who named no other part.
func IsQuick() bool { return os.Getenv("PRELET_SWEEP") == "" }

// OneIn takes one of n cases that are counted from 0, and a quarter of that in a quick run: it returns the first, and
// the step from one to the next. The first depends on the seed and on the name of the series: a test with several series
// takes different cases of each. Of a series that is shorter than the step, it may take none.
func (s Sample) OneIn(n int, name ...any) (first, step int) {
	if IsFull() {
		return 0, 1
	}
	if IsQuick() {
		n *= quarter
	}
	sum := sha256.Sum256(fmt.Append(nil, s.seed, name))

	return int(binary.LittleEndian.Uint32(sum[:]) % uint32(n)), n
}

// Has reports whether a case is taken, as one of n is. One in 1 is a case that only a quick run leaves out.
func (s Sample) Has(n int, name ...any) bool {
	first, _ := s.OneIn(n, name...)

	return first == 0
}
