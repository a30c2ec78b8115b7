package contract

import (
	"io"
	"strings"
)

// Limits of each process of a detector; MaxProcesses and MaxTimers are for all together. A Go program needs about
// twenty threads, a vendor's library a few more. The sandbox and the conformance kit set the same limits.
const (
	MaxProcesses = 64
	MaxTimers    = 256     // timers of POSIX and queued signals
	MaxFiles     = 256     // open at the same time
	MaxCore      = 1       // bytes; 0 would still start a core_pattern that is a program
	MaxStack     = 1 << 20 // bytes; glibc reserves as much for each thread, which counts as memory
)

// Readable returns the files and folders that every detector may read.
func Readable() []string {
	return []string{
		"/sys",
		"/proc",
		"/lib",
		"/lib32",
		"/lib64",
		"/usr/lib",
		"/usr/lib32",
		"/usr/lib64",
		"/usr/local/lib",
		"/etc/ld.so.cache",
	}
}

// Discard is the only file that every detector may write.
const Discard = "/dev/null"

// Interpreter returns the words behind #! in the first line of a script. It is false for a program that is not a
// script.
func Interpreter(program io.ReaderAt) (words []string, isScript bool) {
	head := make([]byte, 256)       // the kernel reads no more
	n, _ := program.ReadAt(head, 0) // the file may be shorter
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	line, isScript = strings.CutPrefix(line, "#!")
	if !isScript {
		return nil, false
	}

	return strings.Fields(line), true
}
