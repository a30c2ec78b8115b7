package contract

// What every detector has without a grant: a node's sandbox is made of it, and the conformance kit takes it for the same.

// Limits of each of a detector's processes, and of all of them. A Go program needs some twenty threads, a vendor's library a few more.
const (
	MaxProcesses = 64
	MaxFiles     = 256     // open at a time
	MaxCore      = 1       // bytes of a core file: none is written, and no program is started for one
	MaxStack     = 1 << 20 // bytes; glibc gives each thread as much, which counts as memory
)

// Readable are the files, and the folders with what is below, that a detector may read.
func Readable() []string {
	return []string{"/sys", "/proc", "/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache"}
}

// Discard is the one file that a detector may also write.
const Discard = "/dev/null"
