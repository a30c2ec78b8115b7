//go:build linux && amd64

// Command shiftclock runs a command with a shifted wall clock that the kernel reports as not synchronised, until a
// file exists:
//
//	shiftclock SECONDS FILE COMMAND…
//
// SECONDS are added to the time of day (negative for the past) until FILE exists; then adjtimex(2) also reports a
// synchronised clock. So it behaves like a machine with an empty clock battery until its time service has set the
// clock. FILE.asked is created when the command calls adjtimex(2). Time namespaces only cover monotonic clocks, and a
// static program cannot be preloaded, so the command is traced: its vDSO is hidden, and the results of
// clock_gettime(2) and adjtimex(2) are changed.
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: shiftclock SECONDS FILE COMMAND…")
		os.Exit(64)
	}
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "shiftclock:", err)
		os.Exit(70)
	}
	os.Exit(code)
}

func run() (int, error) {
	seconds, err := strconv.ParseInt(os.Args[1], 10, 64)
	if err != nil {
		return 0, err
	}
	runtime.LockOSThread() // the tracer is a thread
	cmd := exec.Command(os.Args[3], os.Args[4:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	first := cmd.Process.Pid
	var status unix.WaitStatus
	if _, err := unix.Wait4(first, &status, unix.WALL, nil); err != nil {
		return 0, err
	}
	// Threads are traced, child processes are not: they have the real time.
	err = unix.PtraceSetOptions(
		first,
		unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL,
	)
	if err != nil {
		return 0, err
	}
	if err := hideVDSO(first); err != nil {
		return 0, err
	}
	t := tracer{
		seconds: seconds,
		set:     os.Args[2],
		inside:  map[int]bool{},
	}
	if err := unix.PtraceSyscall(first, 0); err != nil {
		return 0, err
	}
	for {
		pid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, err
		case status.Exited() && pid == first:
			return status.ExitStatus(), nil
		case status.Signaled() && pid == first:
			return 128 + int(status.Signal()), nil
		case !status.Stopped():
			continue
		}
		deliver := 0
		switch s := status.StopSignal(); {
		case s == unix.SIGTRAP|0x80:
			t.call(pid)
		case s == unix.SIGTRAP,
			s == unix.SIGSTOP && !t.known(pid): // an event, or a thread that is new
		default:
			deliver = int(s)
		}
		_ = unix.PtraceSyscall(pid, deliver) // it may be gone
	}
}

// tracer knows which threads are inside of a call.
type tracer struct {
	seconds int64
	set     string
	inside  map[int]bool
}

func (t *tracer) known(pid int) bool {
	_, ok := t.inside[pid]
	if !ok {
		t.inside[pid] = false
	}
	return ok
}

// call is called at the entry and at the exit of each system call.
func (t *tracer) call(pid int) {
	t.inside[pid] = !t.inside[pid]
	if t.inside[pid] {
		return
	}
	var r unix.PtraceRegs
	if unix.PtraceGetRegs(pid, &r) != nil {
		return
	}
	if r.Orig_rax == unix.SYS_ADJTIMEX {
		_ = os.WriteFile(t.set+".asked", nil, 0o644)
	}
	if _, err := os.Stat(t.set); err == nil {
		if r.Orig_rax == unix.SYS_ADJTIMEX && int64(r.Rax) == unix.TIME_ERROR {
			r.Rax = unix.TIME_OK
			_ = unix.PtraceSetRegs(pid, &r)
			t.status(pid, uintptr(r.Rdi), func(s int32) int32 {
				return s &^ unix.STA_UNSYNC
			})
		}
		return
	}
	switch r.Orig_rax {
	case unix.SYS_CLOCK_GETTIME:
		if (r.Rdi == unix.CLOCK_REALTIME || r.Rdi == unix.CLOCK_REALTIME_COARSE) && r.Rax == 0 {
			t.add(pid, uintptr(r.Rsi))
		}
	case unix.SYS_GETTIMEOFDAY:
		t.add(pid, uintptr(r.Rdi))
	case unix.SYS_ADJTIMEX:
		r.Rax = unix.TIME_ERROR
		_ = unix.PtraceSetRegs(pid, &r)
		t.status(pid, uintptr(r.Rdi), func(s int32) int32 {
			return s | unix.STA_UNSYNC
		})
	}
}

// add changes the seconds of a timespec or timeval.
func (t *tracer) add(pid int, at uintptr) {
	var b [8]byte
	if _, err := unix.PtracePeekData(pid, at, b[:]); err != nil {
		return
	}
	binary.NativeEndian.PutUint64(b[:], uint64(int64(binary.NativeEndian.Uint64(b[:]))+t.seconds))
	_, _ = unix.PtracePokeData(pid, at, b[:])
}

// status changes that of a timex: after modes, offset, freq, maxerror, esterror (struct timex, on 64 bits).
func (t *tracer) status(pid int, timex uintptr, change func(int32) int32) {
	var b [4]byte
	if _, err := unix.PtracePeekData(pid, timex+40, b[:]); err != nil {
		return
	}
	binary.NativeEndian.PutUint32(b[:], uint32(change(int32(binary.NativeEndian.Uint32(b[:])))))
	_, _ = unix.PtracePokeData(pid, timex+40, b[:])
}

// hideVDSO removes the address of the vDSO from the auxiliary vector (getauxval(3)) on the stack of a program that is
// about to start.
func hideVDSO(pid int) error {
	const (
		ignore = 1  // AT_IGNORE
		vdso   = 33 // AT_SYSINFO_EHDR
	)
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &r); err != nil {
		return err
	}
	at := uintptr(r.Rsp)
	word := func() (uint64, error) {
		var b [8]byte
		_, err := unix.PtracePeekData(pid, at, b[:])
		at += 8
		return binary.NativeEndian.Uint64(b[:]), err
	}
	if _, err := word(); err != nil {
		return err
	}
	for range 2 {
		for {
			w, err := word()
			if err != nil {
				return err
			}
			if w == 0 {
				break
			}
		}
	}
	for {
		tag, err := word()
		if err != nil || tag == 0 {
			return err
		}
		if tag == vdso {
			var b [8]byte
			binary.NativeEndian.PutUint64(b[:], ignore)
			_, err := unix.PtracePokeData(pid, at-8, b[:])
			return err
		}
		at += 8
	}
}
