package stack

import (
	"runtime"
	"testing"
	"unsafe"
)

// deep goes 16 KiB deep and says where it began and ended. A stack that was moved meanwhile is another address for what stays
// where it is.
//
//go:noinline
func deep(n int, at *byte) byte {
	var frame [1 << 10]byte
	frame[n] = *at
	if n == 0 {
		return frame[0]
	}
	return deep(n-1, at) + frame[n]
}

// moved says whether the stack of a fresh goroutine was moved while it went deep.
func moved(grow bool) bool {
	out := make(chan bool)
	go func() {
		if grow {
			Grow()
		}
		var here byte
		before := uintptr(unsafe.Pointer(&here))
		runtime.KeepAlive(deep(16, &here))
		out <- before != uintptr(unsafe.Pointer(&here))
	}()
	return <-out
}

func TestGrow(t *testing.T) {
	if moved(true) {
		t.Error("the stack was moved although there was room")
	}
	if !moved(false) {
		t.Skip("this runtime gives a fresh goroutine more than it takes")
	}
}
