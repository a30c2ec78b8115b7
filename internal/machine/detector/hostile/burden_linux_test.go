package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// repeat calls f until it fails or a number of times, and returns how often it succeeded.
func repeat(limit int, f func(n int) error) (int, error) {
	for n := range limit {
		if err := f(n); err != nil {
			return n, err
		}
	}

	return limit, nil
}

// child returns this program under another name, with our pipes.
func child(name string) *exec.Cmd {
	c := exec.Command("/proc/self/fd/3")
	c.Args[0] = name
	program := os.NewFile(3, "program")
	c.ExtraFiles = []*os.File{program}
	c.Stdout = os.Stdout
	c.Stderr = os.Stderr

	return c
}

// startChild starts a process that ignores signals and sleeps.
func startChild(int) error {
	return child("sleeper").Start()
}

// exhaustMemory allocates memory until there is none. Go's runtime ends the process then.
func exhaustMemory() error {
	var keep [][]byte
	for range 4096 {
		b := make([]byte, 1<<20)
		touch(b)
		keep = append(keep, b)
	}

	return fmt.Errorf("took %d MiB", len(keep))
}

// mapShared maps and uses a MiB of shared memory.
func mapShared(int) error {
	b, err := mapMemory(1<<20, unix.MAP_SHARED)
	if err == nil {
		touch(b)
	}

	return err
}

// mapMemory maps memory without a file.
func mapMemory(size, flags int) ([]byte, error) {
	const protection = unix.PROT_READ | unix.PROT_WRITE
	return unix.Mmap(-1, 0, size, protection, flags|unix.MAP_ANON)
}

// freezeMemory maps and uses a MiB of private memory and makes it read-only: the limit of private memory counts what is
// writable.
func freezeMemory(int) error {
	b, err := mapMemory(1<<20, unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	touch(b)

	return unix.Mprotect(b, unix.PROT_READ)
}

// fillPageTables reads one byte of each page table of 96 GiB: these have 192 MiB, and no memory of their own is behind
// them.
func fillPageTables() error {
	const size, perTable = 96 << 30, 2 << 20
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return err
	}
	sum := 0
	for i := 0; i < size; i += perTable {
		sum += int(b[i])
	}
	fmt.Fprintln(os.Stderr, "read", sum)

	return nil
}

// splitMemory makes as many mappings as a process may have by default, of one page each and without memory of their own.
func splitMemory() error {
	const page, pages = 4096, 65_000
	b, err := unix.Mmap(-1, 0, page*pages, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return err
	}
	for i := 0; i < pages; i += 2 {
		if err := unix.Mprotect(b[i*page:(i+1)*page], unix.PROT_NONE); err != nil {
			return err
		}
	}

	return nil
}

// fork starts a child of one thread that has a copy of all mappings and sleeps.
func fork(int) error {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	switch {
	case errno != 0:
		return errno
	case pid != 0:
		return nil
	}
	for { // Go's runtime does not work here
		_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}

// touch writes to each page.
func touch(b []byte) {
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
}

func makeFile(n int) error {
	path := filepath.Join(socketDir(), fmt.Sprint("f", n))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0)
	if err != nil {
		return err
	}

	return f.Close()
}

// makeNestedFolder makes a folder in the working directory and enters it.
func makeNestedFolder(int) error {
	if err := os.Mkdir("d", 0o700); err != nil {
		return err
	}

	return os.Chdir("d")
}
