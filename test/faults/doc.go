// Package faults injects failures below prelet and checks the promises of internal/machine/generation, and that a look
// for a site leaves the old one or the new one: it kills the writer at each system call, cuts the power of a file
// system, traces the order of fsyncs and renames, and runs mutants of the writer, which the checks must find. `make
// faults` runs the quick part and `make sweep` everything, as root on Linux. It must not leave a loop device or a mount
// on the machine, so it has its own mount namespace; a missing tool is a failure, not a skip.
package faults
