// Package faults breaks what prelet stands on, and looks whether it keeps its promises.
//
// The sweep kills the writer at each of its system calls, cuts the power of a file system in a loop file, mounts it again,
// recovers, and compares with the invariants of internal/commit/generation; it kills the recovery as well. The trace check reads
// the order of fsyncs and renames out of strace, because one journal for a whole file system hides a forgotten fsync of a
// folder. Mutants are the writer with one mistake each: what finds none of them proves nothing. The rows give the real
// binary a disk that is full, read-only, failing, or not what was declared.
//
// It runs as root on Linux, in a mount namespace of its own that takes loop devices and mounts with it when it ends. A tool
// that is missing is a failure, not a skip: `make faults` is the quick part, `make sweep` all of it.
package faults
