package conformance

import "golang.org/x/sys/unix"

// oldCalls are those that newer architectures never had.
func oldCalls() map[int]string {
	return map[int]string{
		unix.SYS_OPEN: "open", unix.SYS_CREAT: "open", unix.SYS_MKDIR: "mkdir", unix.SYS_RMDIR: "unlink", unix.SYS_UNLINK: "unlink",
		unix.SYS_RENAME: "rename", unix.SYS_LINK: "link", unix.SYS_SYMLINK: "symlink", unix.SYS_MKNOD: "mknod", unix.SYS_CHMOD: "chmod",
		unix.SYS_CHOWN: "chown", unix.SYS_LCHOWN: "chown",
	}
}

func isCreat(nr int) bool { return nr == unix.SYS_CREAT }
