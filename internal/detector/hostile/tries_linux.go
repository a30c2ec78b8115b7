package hostile

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tries attempts, one by one, what the sandbox forbids and what it must leave, and tells how each went. What is not the same on
// each machine comes in the configuration: paths of a test.
func tries(config map[string]any) map[string]string {
	m := map[string]string{}
	put := func(key, text string) { m[strings.ReplaceAll(key, " ", "_")] = text }
	try := func(key string, err error) { put(key, said(err)) }
	for key, v := range config {
		path, _ := v.(string)
		what, _, _ := strings.Cut(key, "_")
		switch what {
		case "read":
			_, err := os.ReadFile(path)
			try(key, err)
		case "list":
			_, err := os.ReadDir(path)
			try(key, err)
		case "write":
			try(key, os.WriteFile(path, []byte("x"), 0o600))
		case "truncate":
			try(key, os.Truncate(path, 0))
		case "tcp":
			try(key, dial("tcp", path))
		case "make":
			try(key, os.Mkdir(path, 0o700))
		case "run":
			out, err := exec.Command(path).CombinedOutput()
			if err == nil && len(out) == 0 {
				err = fmt.Errorf("it said nothing")
			}
			try(key, err)
		case "device":
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err == nil {
				_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), 0x1234, 0)
				put(key+"_ioctl", errno.Error())
				_ = f.Close()
			}
			try(key, err)
		case "connect":
			try(key, dial("unix", path))
		case "send":
			try(key, send(path))
		case "signal":
			var pid int
			_, _ = fmt.Sscan(path, &pid)
			try(key, unix.Kill(pid, 0))
		case "environ":
			_, err := os.ReadFile("/proc/" + path + "/environ")
			try(key, err)
		}
	}
	network(try)
	calls(try)
	host := os.Getppid()
	try("signal host", unix.Kill(host, 0))
	try("ptrace host", unix.PtraceAttach(host))
	_, err := os.Open(fmt.Sprintf("/proc/%d/mem", host))
	try("memory of host", err)
	_, err = os.ReadFile(fmt.Sprintf("/proc/%d/environ", host))
	try("environment of host", err)
	try("signal 1", unix.Kill(1, 0))
	devices, _ := filepath.Glob("/sys/bus/pci/devices/*")
	put("pci devices", fmt.Sprint(len(devices)))
	_, err = os.ReadFile("/proc/cpuinfo")
	try("cpuinfo", err)
	try("null", os.WriteFile("/dev/null", []byte("x"), 0))
	put("environment", strings.Join(os.Environ(), " "))
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		key, v, _ := strings.Cut(line, ":")
		switch key {
		case "Uid", "Gid", "Groups", "CapEff", "CapPrm", "CapAmb", "NoNewPrivs", "Seccomp":
			put("status "+key, strings.Join(strings.Fields(v), " "))
		}
	}
	var fds []string
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		to, _ := os.Readlink("/proc/self/fd/" + e.Name())
		kind, _, _ := strings.Cut(to, ":")
		fds = append(fds, e.Name()+"="+filepath.Base(kind))
	}
	put("descriptors", strings.Join(fds, " "))
	score, _ := os.ReadFile("/proc/self/oom_score_adj")
	put("oom score", strings.TrimSpace(string(score)))
	return m
}

func dial(network, address string) error {
	c, err := (&net.Dialer{Timeout: 200 * time.Millisecond}).Dial(network, address)
	if err == nil {
		_ = c.Close()
	}
	return err
}

// send reaches a datagram socket without connect(2): one of a pair takes an address with each message.
func send(path string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	return unix.Sendto(pair[0], []byte("x"), unix.MSG_DONTWAIT, &unix.SockaddrUnix{Name: path})
}

func network(try func(string, error)) {
	for name, kind := range map[string][2]int{
		"tcp": {unix.AF_INET, unix.SOCK_STREAM}, "udp": {unix.AF_INET, unix.SOCK_DGRAM}, "tcp6": {unix.AF_INET6, unix.SOCK_STREAM},
		"netlink": {unix.AF_NETLINK, unix.SOCK_RAW}, "packet": {unix.AF_PACKET, unix.SOCK_RAW}, "vsock": {unix.AF_VSOCK, unix.SOCK_STREAM},
		"unix datagram": {unix.AF_UNIX, unix.SOCK_DGRAM}, "unix packets": {unix.AF_UNIX, unix.SOCK_SEQPACKET}, "unix stream": {unix.AF_UNIX, unix.SOCK_STREAM},
	} {
		fd, err := unix.Socket(kind[0], kind[1]|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		try("socket "+name, err)
	}
	l, err := net.Listen("unix", "@prelet-hostile")
	if err == nil {
		_ = l.Close()
	}
	try("own abstract socket", err)
}

func calls(try func(string, error)) {
	errno := func(e unix.Errno) error {
		if e == 0 {
			return nil
		}
		return e
	}
	_, err := unix.Setsid()
	try("setsid", err)
	try("setpgid", unix.Setpgid(0, 0))
	_, _, e := unix.RawSyscall(unix.SYS_UNSHARE, unix.CLONE_NEWUSER, 0, 0)
	try("unshare user", errno(e))
	_, err = unix.MemfdCreate("x", 0)
	try("memfd", err)
	_, err = unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	try("shared memory", err)
	_, err = unix.SysvShmGet(0, 4096, unix.IPC_CREAT|unix.IPC_PRIVATE|0o600)
	try("system v memory", err)
	var params [120]byte
	_, _, e = unix.Syscall(unix.SYS_IO_URING_SETUP, 8, uintptr(unsafe.Pointer(&params)), 0)
	try("io_uring", errno(e))
	_, _, e = unix.Syscall(unix.SYS_BPF, 0, 0, 0)
	try("bpf", errno(e))
	_, _, e = unix.Syscall(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0)
	try("perf", errno(e))
	_, err = unix.KeyctlInt(unix.KEYCTL_GET_KEYRING_ID, unix.KEY_SPEC_SESSION_KEYRING, 1, 0, 0)
	try("keyring", err)
	try("mount", unix.Mount("none", "/mnt", "tmpfs", 0, ""))
	try("setuid", unix.Setuid(0))
	unix.Sync() // has no result; a filter makes it nothing
	dir := os.Getenv("PLUGIN_UNIX_SOCKET_DIR")
	try("write beside the socket", os.WriteFile(filepath.Join(dir, "x"), []byte("x"), 0o600))
	try("fifo", unix.Mkfifo(filepath.Join(dir, "f"), 0o600))
	try("folder beside the socket", os.Mkdir(filepath.Join(dir, "d"), 0o700))
	file := filepath.Join(dir, "empty")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	try("file beside the socket", err)
	if err == nil {
		try("allocate a file", unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 4096))
		try("xattr of a descriptor", unix.Fsetxattr(int(f.Fd()), "user.x", []byte("x"), 0))
		_ = f.Close()
	}
	try("xattr", unix.Setxattr(file, "user.y", []byte("x"), 0))
	try("xattr of a link", unix.Lsetxattr(file, "user.z", []byte("x"), 0))
	memory(try)
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_CORE, &limit) == nil && (limit.Cur != 1 || limit.Max != 1) {
		try("core file", nil)
	}
	_ = unix.Getrlimit(unix.RLIMIT_DATA, &limit)
	limit.Max++
	try("raise memory", unix.Setrlimit(unix.RLIMIT_DATA, &limit))
}

// memory takes what the limit of private memory does not count.
func memory(try func(string, error)) {
	_, err := unix.Mmap(-1, 0, 1<<30, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_GROWSDOWN)
	try("growing memory", err)
	try("moved stack", moveStack())
	const mapShadowStack = 453
	if _, _, errno := unix.Syscall(mapShadowStack, 0, 1<<30, 0); errno == 0 {
		try("shadow stack", nil) // only some machines have them
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		try("send buffer", err)
		return
	}
	try("send buffer", unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<20))
	try("receive buffer", unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_RCVBUF, 1<<20))
	_, _ = unix.Close(pair[0]), unix.Close(pair[1])
}

// moveStack makes the last page of the main thread's stack one of a GiB, elsewhere.
func moveStack() error {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.Contains(line, "[stack]") {
			continue
		}
		var low, high uintptr
		if _, err := fmt.Sscanf(line, "%x-%x", &low, &high); err != nil {
			return err
		}
		_, _, errno := unix.Syscall6(unix.SYS_MREMAP, low, 4096, 1<<30, unix.MREMAP_MAYMOVE, 0, 0)
		if errno != 0 {
			return errno
		}
		return nil
	}
	return fmt.Errorf("there is no stack")
}
