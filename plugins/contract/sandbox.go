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

// MinFolder is the least length, in bytes, of the path of the folder for a detector's socket, so that the address of
// each socket in it is longer than the abstract addresses of daemons: bind(2) of a shorter one is refused, because a
// detector could take the address of a daemon that is not running. A name in the folder can have 42 bytes (sun_path).
const MinFolder = 64

// MinAddress is the least length of an address that bind(2) accepts: the family, the folder, a slash and one byte.
const MinAddress = 2 + MinFolder + 2

// SocketFolder returns the path of a folder below dir that has at least MinFolder bytes.
func SocketFolder(dir string) string {
	missing := MinFolder - len(dir) - len("/")

	return dir + "/" + strings.Repeat("s", max(1, missing))
}

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
