package conformance

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/refused"
)

// pathCall is a system call that opens, executes or makes a path.
type pathCall struct {
	name   string
	folder int // the argument with the folder that the path is relative to, or noFolder
	path   int // the argument with the path
}

// noFolder is for paths that are relative to the working directory.
const noFolder = -1

// pathCalls returns the watched system calls with a path, by number.
func pathCalls() map[int]pathCall {
	calls := oldPathCalls()
	maps.Copy(calls, map[int]pathCall{
		unix.SYS_OPENAT:   {"open", 0, 1},
		unix.SYS_OPENAT2:  {"open", 0, 1},
		unix.SYS_EXECVE:   {"exec", noFolder, 0},
		unix.SYS_EXECVEAT: {"exec", 0, 1},
		unix.SYS_MKDIRAT:  {"mkdir", 0, 1},
	})

	return calls
}

// notification is struct seccomp_notif.
type notification struct {
	ID     uint64
	PID    uint32
	Flags  uint32
	Number int32
	Arch   uint32
	IP     uint64
	Args   [6]uint64
}

// response is struct seccomp_notif_resp.
type response struct {
	ID    uint64
	Value int64
	Error int32
	Flags uint32
}

// watcher decides about the system calls of one detector, as the sandbox of a node would.
type watcher struct {
	listener int
	calls    map[int]pathCall
	grants   contract.Needs
	socket   string   // the folder of the detector's socket, in which it may change files
	readable []string // files and folders that it may read without a grant
	roots    []string // of the machines that it is asked about

	attempts []attempt
	quit     chan struct{}
	done     chan struct{}
}

func (k *kit) newWatcher(listener int, socketDir string) *watcher {
	interpreter, _ := contract.Interpreter(k.program)
	readable := append(contract.Readable(), k.dir)
	readable = slices.Concat(readable, k.options.Roots, interpreter)

	link := fmt.Sprintf("/proc/self/fd/%d", k.program.Fd())
	program, err := os.Readlink(link)
	if err == nil {
		readable = append(readable, program)
	}

	return &watcher{
		listener: listener,
		calls:    pathCalls(),
		grants:   k.grants,
		socket:   socketDir,
		readable: readable,
		roots:    k.roots,
		quit:     make(chan struct{}),
		done:     make(chan struct{}),
	}
}

// serve decides about calls until the last process has ended or stop is called.
func (w *watcher) serve() {
	defer close(w.done)

	for {
		select {
		case <-w.quit:
			return
		default:
		}

		poll := []unix.PollFd{{Fd: int32(w.listener), Events: unix.POLLIN}}
		_, err := unix.Poll(poll, 100)
		if err != nil && err != unix.EINTR {
			return
		}
		events := poll[0].Revents
		switch {
		case events&(unix.POLLHUP|unix.POLLNVAL|unix.POLLERR) != 0:
			return
		case events&unix.POLLIN != 0:
			w.handle()
		}
	}
}

// handle receives one call, decides and responds. Errors are ignored: the caller was killed in between.
func (w *watcher) handle() {
	var n notification
	if ioctl(w.listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)) != 0 { //nolint:gosec // no wrapper exists
		return
	}

	r := response{ID: n.ID, Flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	if errno := w.decide(n); errno != 0 {
		r = response{ID: n.ID, Error: -int32(errno)}
	}
	ioctl(w.listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)) //nolint:gosec // no wrapper exists
}

func ioctl(fd int, request uintptr, argument unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument))
	return errno
}

// stop ends the watch and returns the refused attempts.
func (w *watcher) stop() []attempt {
	close(w.quit)
	<-w.done
	_ = unix.Close(w.listener)

	return w.attempts
}

func (w *watcher) add(check string, s State, text string) {
	w.attempts = append(w.attempts, attempt{check, s, text})
}

// decide returns 0 to permit a call, or its error.
func (w *watcher) decide(n notification) unix.Errno {
	if n.Number == unix.SYS_CONNECT {
		return w.decideConnect(n)
	}
	call, hasPath := w.calls[int(n.Number)]
	if !hasPath {
		return w.decideRefused(n)
	}

	path := w.resolve(n, call)
	switch call.name {
	case "open":
		return w.decideOpen(n, path)
	case "exec":
		return w.decideExec(path)
	}
	w.add("no-writes", Failed, call.name+" "+path)

	return unix.EACCES
}

// decideRefused decides about a call that the sandbox refuses to all detectors.
func (w *watcher) decideRefused(n notification) unix.Errno {
	what, isRefused := refused.Call(uint32(n.Number), n.Args)
	switch {
	case !isRefused:
		return 0
	case n.Number == unix.SYS_SOCKET, n.Number == unix.SYS_SOCKETPAIR:
		w.add("no-network", Note, describeSocket(n.Args[0]))
	default:
		w.add("declared", Failed, "calls "+what+", which is refused to all detectors")
	}

	return unix.EPERM
}

func describeSocket(family uint64) string {
	switch uint32(family) {
	case unix.AF_UNIX:
		return "a Unix socket that is not a stream"
	case unix.AF_INET:
		return "an IPv4 socket"
	case unix.AF_INET6:
		return "an IPv6 socket"
	case unix.AF_NETLINK:
		return "a netlink socket"
	}

	return fmt.Sprintf("a socket of family %d", uint32(family))
}

// resolve returns the absolute path of a call's path argument.
func (w *watcher) resolve(n notification, call pathCall) string {
	path := readString(n.PID, n.Args[call.path])
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}

	base := "cwd"
	if call.folder != noFolder {
		fd := int32(n.Args[call.folder])
		if fd != unix.AT_FDCWD {
			base = fmt.Sprintf("fd/%d", fd)
		}
	}
	folder, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", n.PID, base))
	if err != nil {
		return "?/" + path
	}

	return filepath.Join(folder, path)
}

func (w *watcher) decideOpen(n notification, path string) unix.Errno {
	const writing = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC
	flags := openFlags(n)
	isPathOnly := flags&unix.O_PATH != 0
	isOwn := path == contract.Discard || isBelow(path, w.socket)

	switch {
	case isPathOnly, isOwn, matchesAny(w.grants.Devices, path):
		return 0
	case flags&writing != 0:
		w.add("no-writes", Failed, "open for writing: "+path)
		return unix.EACCES
	case w.isReadable(path), !exists(path): // the kernel reports a missing file
		return 0
	}
	w.add("declared", Note, "reads "+path)

	return unix.EACCES
}

// openFlags returns the flags of a call of open or openat. Those of openat2 are in memory and count as reading.
func openFlags(n notification) uint64 {
	switch n.Number {
	case unix.SYS_OPENAT:
		return n.Args[2]
	case unix.SYS_OPENAT2:
		return 0
	}

	return n.Args[1]
}

// isReadable reports whether a node's sandbox lets the detector read a path, or the file that a link leads to.
func (w *watcher) isReadable(path string) bool {
	if isBelow(path, "/proc") { // its links depend on the reader
		return true
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}

	granted := slices.Concat(w.grants.Read, w.grants.Execute)
	for at := path; at != "/" && at != "."; at = filepath.Dir(at) {
		if slices.Contains(w.readable, at) || matchesAny(granted, at) {
			return true
		}
	}

	return false
}

func (w *watcher) decideExec(path string) unix.Errno {
	target, err := filepath.EvalSymlinks(path)
	isMissing := err != nil // the kernel reports it
	isItself := isBelow(path, "/proc") && filepath.Base(path) == "exe"
	isGranted := matchesAny(w.grants.Execute, path) || matchesAny(w.grants.Execute, target)
	if path == ownProgram || isItself || isMissing || isGranted {
		return 0
	}
	w.add("declared", Failed, "runs "+path)

	return unix.EACCES
}

// decideConnect decides about a connection to a Unix socket. No other socket could be made.
func (w *watcher) decideConnect(n notification) unix.Errno {
	size := min(n.Args[2], unix.SizeofSockaddrUnix)
	address := readMemory(n.PID, n.Args[1], int(size))
	if len(address) < 3 {
		return unix.EFAULT
	}

	path := string(address[2:])
	if path[0] == 0 { // an abstract name
		path = "@" + strings.TrimRight(path[1:], "\x00")
	}
	path, _, _ = strings.Cut(path, "\x00")
	onNode := path
	for _, root := range w.roots {
		if rest, isInRoot := strings.CutPrefix(path, root+"/"); isInRoot {
			onNode = "/" + rest
		}
	}
	isAbstract := strings.HasPrefix(path, "@")
	isMissing := !isAbstract && !exists(path) // the kernel reports it
	if isMissing || isBelow(path, w.socket) || matchesAny(w.grants.Sockets, onNode) {
		return 0
	}
	w.add("declared", Failed, "connects to "+onNode)

	return unix.EPERM
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func matchesAny(patterns []string, path string) bool {
	isMatch := func(pattern string) bool {
		return contract.MatchPath(pattern, path)
	}
	return slices.ContainsFunc(patterns, isMatch)
}

func isBelow(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

// readMemory reads a process's memory, up to the first page that is missing.
func readMemory(pid uint32, address uint64, size int) []byte {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return nil
	}
	defer f.Close()

	b := make([]byte, size)
	n, _ := f.ReadAt(b, int64(address)) // a short read is valid

	return b[:n]
}

func readString(pid uint32, address uint64) string {
	memory := readMemory(pid, address, unix.PathMax)
	text, _, _ := strings.Cut(string(memory), "\x00")

	return text
}
