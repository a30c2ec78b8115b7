package conformance

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/refused"
)

// notif is struct seccomp_notif, answer struct seccomp_notif_resp.
type notif struct {
	ID    uint64
	PID   uint32
	Flags uint32
	NR    int32
	Arch  uint32
	IP    uint64
	Args  [6]uint64
}

type answer struct {
	ID    uint64
	Val   int64
	Error int32
	Flags uint32
}

// watcher answers what a detector's process asks, as the sandbox of a node would.
type watcher struct {
	fd     int
	names  map[int]string
	grants contract.Needs
	free   []string // folders in which everything is allowed: the socket's
	read   []string // files and folders that may be read
	roots  []string // of the machines that it is asked about
	open   bool     // lets sockets be made, to see where they go

	mu    sync.Mutex
	tried attempts
	quit  chan struct{}
	done  chan struct{}
}

// openForWriting begins what is noted of a file that was opened to be written.
const openForWriting = "open for writing: "

// serve answers until the last process is gone or stop is called.
func (w *watcher) serve() {
	defer close(w.done)
	for {
		select {
		case <-w.quit:
			return
		default:
		}
		poll := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, 100); err != nil && err != unix.EINTR {
			return
		}
		if poll[0].Revents&(unix.POLLHUP|unix.POLLNVAL|unix.POLLERR) != 0 {
			return
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			continue
		}
		var n notif
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(w.fd), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&n))); errno != 0 {
			continue // it was killed meanwhile
		}
		a := answer{ID: n.ID, Flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		if errno := w.judge(n); errno != 0 {
			a = answer{ID: n.ID, Error: -int32(errno)}
		}
		// ENOENT: who asked is gone. There is nobody to answer, and nothing to do.
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(w.fd), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&a)))
	}
}

// judge says what the sandbox would: 0 or an error.
func (w *watcher) judge(n notif) unix.Errno {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch what := w.names[int(n.NR)]; what {
	case "open":
		return w.judgeOpen(n)
	case "exec":
		return w.judgeExec(n)
	case "socket":
		return w.judgeSocket(n)
	case "connect":
		return w.judgeConnect(n)
	case "mkdir", "unlink", "rename", "link", "symlink", "mknod", "truncate", "chmod", "chown":
		p := w.path(n, w.pathArgument(n))
		if w.within(p, w.free) && what != "mkdir" {
			return 0
		}
		w.tried.add(wrote, what+" "+p)
		return unix.EACCES
	}
	return w.judgeRefused(n)
}

// judgeRefused is of what the sandbox refuses to all detectors.
func (w *watcher) judgeRefused(n notif) unix.Errno {
	what, no := refused.Call(uint32(n.NR), n.Args)
	_, absent := refused.Absent()[uint32(n.NR)]
	switch {
	case !no:
		return 0
	case n.NR == unix.SYS_CLONE3:
		// That it is not there, libraries expect, and take clone. What it was for stands in memory: struct clone_args.
		if b := memory(n.PID, n.Args[0], 8); len(b) == 8 && binary.LittleEndian.Uint64(b)&(refused.Namespaces|unix.CLONE_NEWTIME) != 0 {
			w.tried.add(called, "clone3 with a new namespace")
		}
		return unix.ENOSYS
	case absent:
		return unix.ENOSYS
	}
	w.tried.add(called, what)
	return unix.EPERM
}

// pathArgument returns which argument is the path that is changed; before it may be the folder that it is relative to.
func (w *watcher) pathArgument(n notif) int {
	switch int(n.NR) {
	case unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_MKDIRAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_MKNODAT,
		unix.SYS_FCHMODAT, unix.SYS_FCHOWNAT, unix.SYS_EXECVEAT:
		return 1
	case unix.SYS_LINKAT:
		return 3
	case unix.SYS_SYMLINKAT:
		return 2
	}
	if name := w.names[int(n.NR)]; name == "link" || name == "symlink" {
		return 1
	}
	return 0
}

// path reads a path argument out of the process that asks, and makes it absolute.
func (w *watcher) path(n notif, argument int) string {
	p := cString(n.PID, n.Args[argument])
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	from := "cwd"
	at := argument > 0 && !(argument == 1 && (w.names[int(n.NR)] == "link" || w.names[int(n.NR)] == "symlink") && int(n.NR) != unix.SYS_LINKAT)
	if at {
		if folder := int32(n.Args[argument-1]); folder != unix.AT_FDCWD {
			from = fmt.Sprintf("fd/%d", folder)
		}
	}
	base, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", n.PID, from))
	if err != nil {
		return "?/" + p
	}
	return filepath.Join(base, p)
}

func (w *watcher) judgeOpen(n notif) unix.Errno {
	var flags uint64
	switch {
	case int(n.NR) == unix.SYS_OPENAT:
		flags = n.Args[2]
	case int(n.NR) == unix.SYS_OPENAT2:
		b := memory(n.PID, n.Args[2], 8)
		if len(b) < 8 {
			return unix.EFAULT
		}
		flags = binary.LittleEndian.Uint64(b)
	case w.pathArgument(n) == 0 && isCreat(int(n.NR)):
		flags = unix.O_CREAT | unix.O_WRONLY
	default:
		flags = n.Args[1]
	}
	p := w.path(n, w.pathArgument(n))
	if flags&unix.O_PATH != 0 || w.within(p, w.free) || p == contract.Discard || matches(w.grants.Devices, p) {
		return 0
	}
	if flags&(unix.O_WRONLY|unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC) != 0 {
		w.tried.add(wrote, openForWriting+p)
		return unix.EACCES
	}
	if w.readable(p) {
		return 0
	}
	if _, err := os.Stat(p); err != nil {
		return 0 // it is not there, and the kernel says so
	}
	w.tried.add(read, p)
	return unix.EACCES
}

// readable tells whether a node's sandbox lets a detector read a path. What a link leads to counts.
func (w *watcher) readable(p string) bool {
	if w.within(p, []string{"/proc"}) { // links there are the reader's, not ours
		return true
	}
	if real, err := filepath.EvalSymlinks(p); err == nil {
		p = real
	}

	return w.within(p, w.read) || mayRead(w.grants, p)
}

// mayRead tells whether what is granted lets a path be read.
func mayRead(grants contract.Needs, p string) bool {
	for _, granted := range slices.Concat(grants.Read, grants.Execute) {
		for at := p; at != "/" && at != "."; at = filepath.Dir(at) {
			if contract.MatchPath(granted, at) {
				return true
			}
		}
	}
	return false
}

func (w *watcher) judgeExec(n notif) unix.Errno {
	p := w.path(n, w.pathArgument(n))
	if p == ownProgram { // how it is started itself; once more is its own affair, as /proc/self/exe is
		return 0
	}
	granted := matches(w.grants.Execute, p)
	if real, err := filepath.EvalSymlinks(p); err == nil {
		granted = granted || matches(w.grants.Execute, real)
	} else {
		return 0 // the kernel says that it is not there
	}
	if granted || strings.HasPrefix(p, "/proc/") && strings.HasSuffix(p, "/exe") {
		return 0
	}
	w.tried.add(executed, p)
	return unix.EACCES
}

func (w *watcher) judgeSocket(n notif) unix.Errno {
	domain, kind := int(int32(n.Args[0])), int(n.Args[1])&0xf
	if w.open || domain == unix.AF_UNIX && kind == unix.SOCK_STREAM {
		return 0
	}
	name := map[int]string{unix.AF_UNIX: "a Unix socket that is no stream", unix.AF_INET: "an IPv4 socket", unix.AF_INET6: "an IPv6 socket", unix.AF_NETLINK: "a netlink socket"}[domain]
	if name == "" {
		name = fmt.Sprintf("a socket of family %d", domain)
	}
	w.tried.add(network, name)
	return unix.EPERM
}

func (w *watcher) judgeConnect(n notif) unix.Errno {
	b := memory(n.PID, n.Args[1], int(min(n.Args[2], 128)))
	if len(b) < 3 {
		return unix.EFAULT
	}
	if binary.NativeEndian.Uint16(b) != unix.AF_UNIX {
		w.tried.add(dialled, address(b))
		return unix.ECONNREFUSED
	}
	p := string(b[2:])
	if p[0] == 0 {
		p = "@" + strings.TrimRight(p[1:], "\x00")
	} else {
		p, _, _ = strings.Cut(p, "\x00")
	}
	if matches(w.grants.Sockets, w.onNode(p)) || w.within(p, w.free) {
		return 0
	}
	if _, err := os.Stat(p); err != nil {
		return 0 // nobody is there, and the kernel says so
	}
	w.tried.add(connected, w.onNode(p))
	return unix.EPERM
}

// onNode returns what a path below one of the test's roots is on a node.
func (w *watcher) onNode(p string) string {
	for _, root := range w.roots {
		if rest, ok := strings.CutPrefix(p, root+"/"); ok {
			return "/" + rest
		}
	}
	return p
}

// address writes a sockaddr for people.
func address(b []byte) string {
	port := func() uint16 { return binary.BigEndian.Uint16(b[2:]) }
	switch family := binary.NativeEndian.Uint16(b); {
	case family == unix.AF_INET && len(b) >= 8:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port()).String()
	case family == unix.AF_INET6 && len(b) >= 24:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), port()).String()
	default:
		return fmt.Sprintf("an address of family %d", family)
	}
}

func matches(patterns []string, p string) bool {
	for _, pattern := range patterns {
		if contract.MatchPath(pattern, p) {
			return true
		}
	}
	return false
}

func (w *watcher) within(p string, folders []string) bool {
	for _, f := range folders {
		if p == f || strings.HasPrefix(p, f+"/") {
			return true
		}
	}
	return false
}

// stop ends the watch and returns what was tried.
func (w *watcher) stop() attempts {
	close(w.quit)
	<-w.done
	_ = unix.Close(w.fd) // who asks now gets ENOSYS, but all are dead
	return w.tried
}

// memory reads a process's memory, less where a page is missing.
func memory(pid uint32, address uint64, size int) []byte {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, size)
	got := 0
	for got < size { // not over a page's end at once: the next one may not be there
		step := min(size-got, 4096-int((address+uint64(got))%4096))
		n, err := f.ReadAt(b[got:got+step], int64(address)+int64(got))
		got += n
		if err != nil {
			break
		}
		if bytes.IndexByte(b[:got], 0) >= 0 && size == unix.PathMax {
			break
		}
	}
	return b[:got]
}

func cString(pid uint32, address uint64) string {
	s, _, _ := strings.Cut(string(memory(pid, address, unix.PathMax)), "\x00")
	return s
}
