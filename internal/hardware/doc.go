// Package hardware reads what a machine is made of, as world.Facts: processors, memory, NUMA nodes, PCI devices,
// accelerators, network cards, addresses, firmware, operating system, and what the container runtime is configured to be.
//
// It may read below one root and nothing else: /sys, /proc, /etc and, of a recorded tree, addresses.json at its top. The
// one exception is Detect of this machine itself, which asks the kernel for the addresses of its interfaces. It runs no
// program, opens no connection, writes nothing, and never reads this machine when the root is a recorded one: a symbolic
// link that leads out of a recorded tree is refused.
//
// Reading is direct and not through ghw, for four reasons that were measured. ghw drops every PCI device when one has no
// modalias or a domain above 1ffff, and says nothing. It takes names from the pci.ids of the machine that it runs on,
// which costs 20 to 37 ms and makes the facts of a recorded tree depend on the reader's machine. It looks for graphics
// cards in /sys/class/drm, where a board's management controller is and eight H100 are not. And it gives neither SR-IOV
// nor link state nor the memory of a GPU, so that /sys has to be read beside it anyway. What remained was small.
//
// Nothing is guessed. What cannot be found out is nil, and Facts.Unknown says why; one odd device does not lose the
// others. Detect fails only where CPUs or memory cannot be read. An entry of Unknown that is marked degraded is a failure
// of this machine (a file that cannot be read, a device that vanished); any other is how the machine is (a link that is
// down has no speed).
//
// Each fact knows where it was read: Facts.Evidence. A file that hangs is given up with its device after
// Options.Patience, and all else is read.
//
// Lists are sorted by PCI address and then name, whatever order the kernel lists folders in.
package hardware
