// Package hardware reads what a machine is made of, as world.Facts: processors, memory, NUMA nodes, PCI devices,
// accelerators, network cards, addresses, firmware, operating system, and what the container runtime is configured to
// be. ReadKernelState reads what a kubelet checks of the running kernel.
//
// It may read below one root and nothing else: /sys, /proc, /etc, udev's database in /run and, of a recorded tree,
// addresses.json at its top. The one exception is Detect of this machine itself, which asks the kernel for the
// addresses of its interfaces. It runs no program, opens no connection, and never reads this machine when the root is a
// recorded one: a symbolic link that leads out of a recorded tree is refused.
//
// The only files that it writes are a recorded machine's: what an archive has, and copies for ghw. They are in one
// folder, which is removed again, in TMPDIR, or in /dev/shm if that is not set, or in /tmp on a system without
// /dev/shm. Where there is no room, nothing else is tried: the error names the place and says to set TMPDIR. A boot
// writes none of them, because it reads this machine. (prelet's units have PrivateTmp=, so /tmp is mounted before they
// start.)
//
// ghw reads the product, BIOS, chassis, baseboard, total memory, disks, and the PCI functions with their names.
// Everything that it does is behind ask, because ghw 0.26 takes no context, follows links out of a root, reads the
// syslog and the environment, and prints warnings. functions lists the PCI bus where ghw lists nothing: one function
// without a modalias or above domain 1ffff is enough. The patches in docs/upstream make that, and the environment
// variable for pci.ids, unnecessary.
//
// The rest is read directly, because ghw does not have it or has less: SR-IOV, PCI Express and network links,
// InfiniBand, CPUs that are offline, kinds of cores, NUMA nodes of kernels without Hugetlb in meminfo, huge pages by
// node, the memory of GPUs, drivers' own files, virtualization, and the container runtime.
//
// Nothing is guessed. What cannot be found out is nil, and Facts.Unknown says why; one odd device does not lose the
// others. Detect fails only where CPUs or memory cannot be read. An entry of Unknown that is marked degraded is a
// failure of this machine (a file that cannot be read, a device that vanished); any other is how the machine is (a link
// that is down has no speed).
//
// Each fact knows where it was read: Facts.Evidence. A file that hangs is given up with its device after
// Options.Patience, and all else is read.
//
// Lists are sorted by PCI address and then name, whatever order the kernel lists folders in.
package hardware
