// Package sample chooses the cases that a long test tries: a random part of them, all with PRELET_SWEEP=full, as in
// `make nightly`, and fewer with PRELET_SWEEP=quick, as in `make test`. It is for tests only.
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

// Sample is the choice of one test.
type Sample struct{ seed string }

// New returns a new choice and logs its seed, which is printed with a failure. PRELET_SEED repeats it.
func New(t testing.TB) Sample {
	t.Helper()
	s := Sample{cmp.Or(os.Getenv("PRELET_SEED"), rand.Text()[:8])}
	if !IsFull() {
		t.Logf("a sample; PRELET_SWEEP=%s PRELET_SEED=%s takes the same cases again, PRELET_SWEEP=full takes all",
			os.Getenv("PRELET_SWEEP"), s.seed)
	}

	return s
}

// IsFull reports whether all cases are tried.
func IsFull() bool { return os.Getenv("PRELET_SWEEP") == "full" }

// IsQuick reports whether `make test` runs, which takes a quarter of the cases of the longest tests.
func IsQuick() bool { return os.Getenv("PRELET_SWEEP") == "quick" }

// Quarter returns the step that a quick run has in place of n: four times n. Else it returns n.
func Quarter(n int) int {
	if IsQuick() {
		return 4 * n
	}

	return n
}

// OneIn takes one of n cases that are counted from 0: it returns the first, and the step from one to the next. The
// first depends on the seed and on the name of the series: a test with several series takes different cases of each.
func (s Sample) OneIn(n int, name ...any) (first, step int) {
	if IsFull() {
		return 0, 1
	}
	sum := sha256.Sum256(fmt.Append(nil, s.seed, name))

	return int(binary.LittleEndian.Uint32(sum[:]) % uint32(n)), n
}

// Has reports whether a case is taken, as one of n is.
func (s Sample) Has(n int, name ...any) bool {
	first, _ := s.OneIn(n, name...)

	return first == 0
}
