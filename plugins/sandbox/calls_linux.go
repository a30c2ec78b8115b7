package sandbox

import "golang.org/x/sys/unix"

// Flags and fields of arguments for which a system call is refused.
const (
	// namespaces are the flags of clone(2) for new namespaces.
	namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

	// sharedMemory are the flags that mmap(2) must not have together: such memory has no file and counts towards no
	// limit. MAP_SHARED_VALIDATE includes MAP_SHARED, MAP_PRIVATE does not.
	sharedMemory = unix.MAP_ANONYMOUS | unix.MAP_SHARED

	// stackMemory is the flag of mmap(2) for memory that the kernel counts as stack and not as data.
	stackMemory = unix.MAP_GROWSDOWN

	// hugePages is the flag of mmap(2) for the machine's huge pages, which count towards no limit of memory. The kernel
	// reserves them at the call, so that one call could take them all from the kubelet.
	hugePages = unix.MAP_HUGETLB

	// socketKind masks the kind in the second argument of socket(2). The other bits are flags.
	socketKind = 0xf
)

// System calls that golang.org/x/sys does not name on every architecture. Their numbers are the same on all.
const (
	memfdSecret    = 447
	mapShadowStack = 453
	setxattrat     = 463
)

// Absent returns the system calls that fail with ENOSYS in a detector, by number, with their names. Libraries go
// on when a call is absent, so a detector that tries one is correct.
func Absent() map[uint32]string {
	return map[uint32]string{
		// The flags of clone3 are in memory, which no filter can read. Libraries fall back to clone.
		unix.SYS_CLONE3: "clone3",
		// mremap can grow a page of the stack without a limit. Libraries fall back to copying.
		unix.SYS_MREMAP: "mremap",
		// fsync of a descriptor that can only read still flushes the disk. go-plugin calls it for standard output.
		unix.SYS_FSYNC:     "fsync",
		unix.SYS_FDATASYNC: "fdatasync",
		// map_shadow_stack makes a stack without a limit.
		mapShadowStack: "map_shadow_stack",
		// The descriptor of pidfd_send_signal may be of any thread of prelet-detect, which no filter can read.
		// Libraries fall back to kill.
		unix.SYS_PIDFD_SEND_SIGNAL: "pidfd_send_signal",
	}
}

// bufferOptions returns the options of SOL_SOCKET that raise how much kernel memory a socket may use.
func bufferOptions() []uint32 {
	return []uint32{unix.SO_SNDBUF, unix.SO_RCVBUF, unix.SO_SNDBUFFORCE, unix.SO_RCVBUFFORCE}
}

// sharedCommands returns the commands of fcntl(2) that change state shared with other programs: locks of a file, which
// others would wait for, the size of a pipe, whose memory counts towards no limit, and the receiver of a file's
// signals, which may be a thread of prelet-detect.
func sharedCommands() []uint32 {
	return []uint32{
		unix.F_SETLK, unix.F_SETLKW, unix.F_OFD_SETLK, unix.F_OFD_SETLKW, unix.F_SETLEASE, unix.F_SETPIPE_SZ,
		unix.F_SETOWN, unix.F_SETOWN_EX,
	}
}

// ownerCommands returns the commands of ioctl(2) that change the receiver of a socket's signals: FIOSETOWN and
// SIOCSPGRP.
func ownerCommands() []uint32 {
	return []uint32{0x8901, 0x8902}
}

// Calls returns the system calls that are refused for any arguments, by number, with their names. A detector and its
// host need none of them, and each could help to escape, to outlive the boot, to hide memory or to slow the machine
// down.
func Calls() map[uint32]string {
	return map[uint32]string{
		// Leaving the process group, by which prelet kills everything.
		unix.SYS_SETSID:  "setsid",
		unix.SYS_SETPGID: "setpgid",

		// Access to other processes.
		unix.SYS_PTRACE:            "ptrace",
		unix.SYS_PROCESS_VM_READV:  "process_vm_readv",
		unix.SYS_PROCESS_VM_WRITEV: "process_vm_writev",
		unix.SYS_PIDFD_GETFD:       "pidfd_getfd",
		unix.SYS_KCMP:              "kcmp",
		unix.SYS_PROCESS_MADVISE:   "process_madvise",

		// Ways around filters of system calls.
		unix.SYS_IO_URING_SETUP:    "io_uring_setup",
		unix.SYS_IO_URING_ENTER:    "io_uring_enter",
		unix.SYS_IO_URING_REGISTER: "io_uring_register",

		// Shared memory, semaphores and queues of System V and POSIX: they count towards no limit, remain after their
		// process, and those of other users can be used by their number, without a file that Landlock could refuse.
		unix.SYS_SHMGET:          "shmget",
		unix.SYS_SHMAT:           "shmat",
		unix.SYS_SHMCTL:          "shmctl",
		unix.SYS_SEMGET:          "semget",
		unix.SYS_SEMOP:           "semop",
		unix.SYS_SEMTIMEDOP:      "semtimedop",
		unix.SYS_SEMCTL:          "semctl",
		unix.SYS_MSGGET:          "msgget",
		unix.SYS_MSGSND:          "msgsnd",
		unix.SYS_MSGRCV:          "msgrcv",
		unix.SYS_MSGCTL:          "msgctl",
		unix.SYS_MQ_OPEN:         "mq_open",
		unix.SYS_MQ_UNLINK:       "mq_unlink",
		unix.SYS_MQ_TIMEDSEND:    "mq_timedsend",
		unix.SYS_MQ_TIMEDRECEIVE: "mq_timedreceive",
		unix.SYS_MQ_NOTIFY:       "mq_notify",
		unix.SYS_MQ_GETSETATTR:   "mq_getsetattr",

		// Memory that counts towards no limit.
		unix.SYS_MEMFD_CREATE: "memfd_create",
		memfdSecret:           "memfd_secret",
		unix.SYS_SETXATTR:     "setxattr",
		unix.SYS_LSETXATTR:    "lsetxattr",
		unix.SYS_FSETXATTR:    "fsetxattr",
		setxattrat:            "setxattrat",

		// Changes to the kernel.
		unix.SYS_BPF:             "bpf",
		unix.SYS_PERF_EVENT_OPEN: "perf_event_open",
		unix.SYS_USERFAULTFD:     "userfaultfd",
		unix.SYS_KEYCTL:          "keyctl",
		unix.SYS_ADD_KEY:         "add_key",
		unix.SYS_REQUEST_KEY:     "request_key",
		unix.SYS_INIT_MODULE:     "init_module",
		unix.SYS_FINIT_MODULE:    "finit_module",
		unix.SYS_DELETE_MODULE:   "delete_module",
		unix.SYS_KEXEC_LOAD:      "kexec_load",
		unix.SYS_KEXEC_FILE_LOAD: "kexec_file_load",
		unix.SYS_FANOTIFY_INIT:   "fanotify_init",

		// Other namespaces and mounts.
		unix.SYS_MOUNT:             "mount",
		unix.SYS_UMOUNT2:           "umount2",
		unix.SYS_PIVOT_ROOT:        "pivot_root",
		unix.SYS_CHROOT:            "chroot",
		unix.SYS_UNSHARE:           "unshare",
		unix.SYS_SETNS:             "setns",
		unix.SYS_OPEN_TREE:         "open_tree",
		unix.SYS_MOVE_MOUNT:        "move_mount",
		unix.SYS_FSOPEN:            "fsopen",
		unix.SYS_FSMOUNT:           "fsmount",
		unix.SYS_FSPICK:            "fspick",
		unix.SYS_MOUNT_SETATTR:     "mount_setattr",
		unix.SYS_PERSONALITY:       "personality",
		unix.SYS_OPEN_BY_HANDLE_AT: "open_by_handle_at",
		unix.SYS_NAME_TO_HANDLE_AT: "name_to_handle_at",
		unix.SYS_QUOTACTL:          "quotactl",
		unix.SYS_QUOTACTL_FD:       "quotactl_fd",

		// Requests of asynchronous input and output: all programs share their number (fs.aio-max-nr).
		unix.SYS_IO_SETUP: "io_setup",

		// Flushing the disk, which would slow the boot down, also through a descriptor that can only read.
		unix.SYS_SYNC:            "sync",
		unix.SYS_SYNCFS:          "syncfs",
		unix.SYS_SYNC_FILE_RANGE: "sync_file_range",
		unix.SYS_MSYNC:           "msync",

		// Locks of readable files, which others would wait for.
		unix.SYS_FLOCK: "flock",
	}
}
