// Package hardware reads the hardware of a machine, its operating system and the configuration of its container
// runtime as tape.Facts. Detect reads the facts below a root, which is this machine or a recorded one; WaitFor waits
// for links and drivers before, and ReadKernelState reads the kernel's state that a kubelet checks. The package must
// not read outside of the root, run a program, open a connection, or write anything but copies of a recorded machine.
//
// Facts are never guessed: an unknown fact is nil, and Facts.Unknown contains the reason. If one device fails, the
// facts of the others are still read. docs/develop/decisions/0012-libraries.md describes what ghw reads, and why the
// package reads the rest directly.
package hardware
