package refused

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Namespaces are the flags of clone(2) for other views of the machine.
const Namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// SharedMemory are the flags that mmap(2) must not have together: memory that no file holds and no limit counts.
// MAP_SHARED_VALIDATE has that bit too, MAP_PRIVATE has not.
const SharedMemory = unix.MAP_ANONYMOUS | unix.MAP_SHARED

// StackMemory is the flag of mmap(2) for memory that the kernel takes for a stack, which the limit of memory does not count.
const StackMemory = unix.MAP_GROWSDOWN

// SocketKind is the part of socket(2)'s second argument that is the kind; the rest are flags.
const SocketKind = 0xf

// Absent are the system calls that do not exist for a detector (ENOSYS), by number, with their names. Libraries try them and do
// without: that one tried is nothing to report.
func Absent() map[uint32]string {
	return map[uint32]string{
		// Its flags are in memory, where no filter sees them. Libraries then use clone.
		unix.SYS_CLONE3: "clone3",
		// It makes a page of the stack as large as one likes, which no limit counts. Libraries then copy.
		unix.SYS_MREMAP: "mremap",
		// It makes a stack of any size, which no limit counts either.
		mapShadowStack: "map_shadow_stack",
	}
}

// BufferOptions are the options of a socket, of the level SOL_SOCKET, that raise how much of the kernel's memory it may take.
func BufferOptions() []uint32 {
	return []uint32{unix.SO_SNDBUF, unix.SO_RCVBUF, unix.SO_SNDBUFFORCE, unix.SO_RCVBUFFORCE}
}

// These have one number everywhere; not every architecture's list names them.
const (
	memfdSecret    = 447
	mapShadowStack = 453
	setxattrat     = 463
)

// Calls are the system calls that are refused with whatever arguments, by number, with their names: those for which neither a
// detector nor its host has a use, and with which one could get out, stay, hide memory, or burden the machine.
func Calls() map[uint32]string {
	return map[uint32]string{
		// out of the process group, by which prelet ends everything
		unix.SYS_SETSID: "setsid", unix.SYS_SETPGID: "setpgid",
		// other processes
		unix.SYS_PTRACE: "ptrace", unix.SYS_PROCESS_VM_READV: "process_vm_readv", unix.SYS_PROCESS_VM_WRITEV: "process_vm_writev",
		unix.SYS_PIDFD_GETFD: "pidfd_getfd", unix.SYS_KCMP: "kcmp", unix.SYS_PROCESS_MADVISE: "process_madvise",
		// round the filters of system calls
		unix.SYS_IO_URING_SETUP: "io_uring_setup", unix.SYS_IO_URING_ENTER: "io_uring_enter", unix.SYS_IO_URING_REGISTER: "io_uring_register",
		// memory that no limit counts
		unix.SYS_MEMFD_CREATE: "memfd_create", memfdSecret: "memfd_secret", unix.SYS_SHMGET: "shmget", unix.SYS_MSGGET: "msgget",
		unix.SYS_SEMGET: "semget", unix.SYS_MQ_OPEN: "mq_open",
		unix.SYS_SETXATTR: "setxattr", unix.SYS_LSETXATTR: "lsetxattr", unix.SYS_FSETXATTR: "fsetxattr", setxattrat: "setxattrat",
		// into the kernel
		unix.SYS_BPF: "bpf", unix.SYS_PERF_EVENT_OPEN: "perf_event_open", unix.SYS_USERFAULTFD: "userfaultfd", unix.SYS_KEYCTL: "keyctl",
		unix.SYS_ADD_KEY: "add_key", unix.SYS_REQUEST_KEY: "request_key", unix.SYS_INIT_MODULE: "init_module", unix.SYS_FINIT_MODULE: "finit_module",
		unix.SYS_DELETE_MODULE: "delete_module", unix.SYS_KEXEC_LOAD: "kexec_load", unix.SYS_KEXEC_FILE_LOAD: "kexec_file_load", unix.SYS_FANOTIFY_INIT: "fanotify_init",
		// other views of the machine
		unix.SYS_MOUNT: "mount", unix.SYS_UMOUNT2: "umount2", unix.SYS_PIVOT_ROOT: "pivot_root", unix.SYS_CHROOT: "chroot", unix.SYS_UNSHARE: "unshare",
		unix.SYS_SETNS: "setns", unix.SYS_OPEN_TREE: "open_tree", unix.SYS_MOVE_MOUNT: "move_mount", unix.SYS_FSOPEN: "fsopen", unix.SYS_FSMOUNT: "fsmount",
		unix.SYS_FSPICK: "fspick", unix.SYS_MOUNT_SETATTR: "mount_setattr", unix.SYS_PERSONALITY: "personality",
		unix.SYS_OPEN_BY_HANDLE_AT: "open_by_handle_at", unix.SYS_NAME_TO_HANDLE_AT: "name_to_handle_at", unix.SYS_QUOTACTL: "quotactl", unix.SYS_QUOTACTL_FD: "quotactl_fd",
		// the disk that the boot waits for
		unix.SYS_SYNC: "sync", unix.SYS_SYNCFS: "syncfs",
	}
}

// Call tells whether a system call of the native architecture is refused to every detector, and what it would have been. connect(2) is
// not among them: what a site grants decides. Of an argument the low half is looked at: all that are asked for are 32 bits wide in the kernel.
func Call(number uint32, args [6]uint64) (what string, refused bool) {
	if name, ok := Calls()[number]; ok {
		return name, true
	}
	if name, ok := Absent()[number]; ok {
		return name, true
	}

	switch number {
	case unix.SYS_CLONE:
		return "clone with a new namespace", args[0]&Namespaces != 0
	case unix.SYS_MMAP:
		if args[3]&StackMemory != 0 {
			return "mmap of memory that grows as a stack", true
		}
		return "mmap of shared memory without a file", args[3]&SharedMemory == SharedMemory
	case unix.SYS_SETSOCKOPT:
		isBuffer := slices.Contains(BufferOptions(), uint32(args[2]))
		return "setsockopt of a buffer's size", uint32(args[1]) == unix.SOL_SOCKET && isBuffer
	case unix.SYS_SOCKET, unix.SYS_SOCKETPAIR:
		return "a socket that is no Unix stream", uint32(args[0]) != unix.AF_UNIX || args[1]&SocketKind != unix.SOCK_STREAM
	}
	return "", false
}
