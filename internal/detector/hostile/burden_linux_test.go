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
