package hostile

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attempts are the results by name; spaces become underscores.
type attempts map[string]string

func (a attempts) put(key, text string) {
	a[strings.ReplaceAll(key, " ", "_")] = text
}

// putAll records how attempts ended.
func (a attempts) putAll(results map[string]error) {
	for key, err := range results {
		a.put(key, describe(err))
	}
}

// errorOf returns only the error of a call.
func errorOf[T any](_ T, err error) error {
	return err
}

// tries attempts actions that the sandbox must forbid or permit, and returns the results. The configuration has paths
// that depend on the machine. With paths_only it makes no attempt that only the filter of system calls forbids: on a
// busy machine some of them take minutes, or stop prelet-detect.
func tries(config map[string]any) map[string]string {
	a := attempts{}
	pathsOnly, _ := config["paths_only"].(string)
	delete(config, "paths_only")
	for key, v := range config {
		path, _ := v.(string)
		kind, _, _ := strings.Cut(key, "_")
		a.put(key, describe(tryPath(kind, path)))
		if kind == "device" {
			a.put(key+"_ioctl", describe(tryIoctl(path)))
		}
	}
	a.tryHost()
	a.trySocketDir()
	if pathsOnly == "" {
		a.trySockets()
		a.tryTrace()
		a.tryCalls()
		a.tryMemory()
		a.tryShared()
		a.tryLimits()
	}
	a.reportSelf()

	return a
}

// tryPath tries a path of the configuration.
func tryPath(kind, path string) error {
	switch kind {
	case "read":
		return errorOf(os.ReadFile(path))
	case "list":
		return errorOf(os.ReadDir(path))
	case "truncate":
		return os.Truncate(path, 0)
	case "tcp":
		return dial("tcp", path)
	case "connect":
		return dial("unix", path)
	case "send":
		return send(path)
	case "make":
		return os.Mkdir(path, 0o700)
	case "run":
		return exec.Command(path).Run()
	case "device":
		return errorOf(os.OpenFile(path, os.O_RDWR, 0))
	case "signal":
		pid, err := strconv.Atoi(path)
		return cmp.Or(err, unix.Kill(pid, 0))
	}

	return errors.New("unknown attempt")
}

// tryIoctl makes a request that no driver knows.
func tryIoctl(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()

	return call(unix.SYS_IOCTL, f.Fd(), 0x1234)
}

func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, 30*time.Second)
	if err == nil {
		_ = c.Close()
	}

	return err
}

// send sends to a datagram socket without connect(2): a socket of a pair takes an address with each message.
func send(path string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	to := &unix.SockaddrUnix{Name: path}

	return unix.Sendto(pair[0], []byte("x"), unix.MSG_DONTWAIT, to)
}

func (a attempts) trySockets() {
	for name, kind := range map[string][2]int{
		"tcp":           {unix.AF_INET, unix.SOCK_STREAM},
		"udp":           {unix.AF_INET, unix.SOCK_DGRAM},
		"tcp6":          {unix.AF_INET6, unix.SOCK_STREAM},
		"netlink":       {unix.AF_NETLINK, unix.SOCK_RAW},
		"unix datagram": {unix.AF_UNIX, unix.SOCK_DGRAM},
		"unix packets":  {unix.AF_UNIX, unix.SOCK_SEQPACKET},
		"unix stream":   {unix.AF_UNIX, unix.SOCK_STREAM},
	} {
		fd, err := unix.Socket(kind[0], kind[1]|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		a.put("socket "+name, describe(err))
	}
	a.put("bind abstract", describe(bindAbstract()))
}

// bindAbstract binds an abstract address of the form that daemons have.
func bindAbstract() error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)

	return unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("@/org/kernel/linux/storage/prelet-%d", os.Getpid())})
}

// tryHost attacks prelet-detect and PID 1, and reads files that every detector may read.
func (a attempts) tryHost() {
	host := os.Getppid()
	a.putAll(map[string]error{
		"signal host":         unix.Kill(host, 0),
		"signal its threads":  signalThreads(host),
		"limit host":          unix.Prlimit(host, unix.RLIMIT_CPU, nil, &unix.Rlimit{}),
		"memory of host":      errorOf(os.Open(fmt.Sprintf("/proc/%d/mem", host))),
		"environment of host": errorOf(os.ReadFile(fmt.Sprintf("/proc/%d/environ", host))),
		"signal 1":            unix.Kill(1, 0),
		"cpuinfo":             errorOf(os.ReadFile("/proc/cpuinfo")),
		"null":                os.WriteFile("/dev/null", []byte("x"), 0),
	})
}

// signalThreads tries to signal any thread of a process, in each way that names a thread.
func signalThreads(process int) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", process))
	if err != nil {
		return err
	}

	for _, entry := range threads {
		thread, _ := strconv.Atoi(entry.Name())
		for _, err := range []error{
			unix.Kill(thread, 0),
			unix.Tgkill(process, thread, 0),
			call(unix.SYS_TKILL, uintptr(thread), 0),
			queueSignal(unix.SYS_RT_SIGQUEUEINFO, uintptr(thread), 0),
			queueSignal(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(process), uintptr(thread), 0),
			signalByFolder(entry.Name()),
			ownFile(thread, unix.SYS_FCNTL, unix.F_SETOWN),
			ownFile(thread, unix.SYS_FCNTL, unix.F_SETOWN_EX),
			ownFile(thread, unix.SYS_IOCTL, fioSetOwn),
		} {
			if err == nil {
				return nil
			}
		}
	}

	return unix.EPERM
}

// queueSignal makes a system call whose last argument, behind these, is a siginfo_t from this process.
func queueSignal(number uintptr, args ...uintptr) error {
	const queued = -1 // SI_QUEUE
	info := [32]int32{2: queued, 4: int32(os.Getpid()), 5: int32(os.Getuid())}

	var errno syscall.Errno
	if len(args) == 2 {
		_, _, errno = unix.Syscall(number, args[0], args[1], uintptr(unsafe.Pointer(&info)))
	} else {
		_, _, errno = unix.Syscall6(number, args[0], args[1], args[2], uintptr(unsafe.Pointer(&info)), 0, 0)
	}
	if errno == 0 {
		return nil
	}

	return errno
}

// signalByFolder signals a thread by its folder in /proc, which is as good as a pidfd.
func signalByFolder(thread string) error {
	fd, err := unix.Open("/proc/"+thread, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)

	return unix.PidfdSendSignal(fd, 0, nil, 0)
}

// fioSetOwn is the command of ioctl(2) that does for a socket what F_SETOWN does for any file.
const fioSetOwn = 0x8901

// ownFile makes a thread the one that gets the signals of a socket, by a command of fcntl(2) or ioctl(2).
func ownFile(thread int, number, command uintptr) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])

	owner := [2]int32{0, int32(thread)} // struct f_owner_ex: F_OWNER_TID
	switch command {
	case unix.F_SETOWN:
		return call3(number, uintptr(pair[0]), command, uintptr(thread))
	case fioSetOwn:
		return call3(number, uintptr(pair[0]), command, uintptr(unsafe.Pointer(&owner[1])))
	}

	return call3(number, uintptr(pair[0]), command, uintptr(unsafe.Pointer(&owner)))
}

// tryTrace traces prelet-detect for a moment: traced on, it would stop at its next signal.
func (a attempts) tryTrace() {
	runtime.LockOSThread() // ptrace(2) is of a thread
	defer runtime.UnlockOSThread()

	host := os.Getppid()
	err := unix.PtraceAttach(host)
	a.put("ptrace host", describe(err))
	if err == nil {
		_, _ = unix.Wait4(host, nil, unix.WALL, nil)
		_ = unix.PtraceDetach(host)
	}
}

// tryCalls makes system calls that are refused.
func (a attempts) tryCalls() {
	var params [120]byte

	a.putAll(map[string]error{
		"setsid":          errorOf(unix.Setsid()),
		"setpgid":         unix.Setpgid(0, 0),
		"memfd":           errorOf(unix.MemfdCreate("x", 0)),
		"shared memory":   errorOf(mapMemory(4096, unix.MAP_SHARED)),
		"system v memory": errorOf(unix.SysvShmGet(0, 4096, unix.IPC_CREAT|unix.IPC_PRIVATE|0o600)),
		"keyring": errorOf(
			unix.KeyctlInt(unix.KEYCTL_GET_KEYRING_ID, unix.KEY_SPEC_SESSION_KEYRING, 1, 0, 0),
		),
		"mount":    unix.Mount("none", "/mnt", "tmpfs", 0, ""),
		"setuid":   unix.Setuid(0),
		"io_uring": call(unix.SYS_IO_URING_SETUP, 8, uintptr(unsafe.Pointer(&params))),
		"bpf":      call(unix.SYS_BPF, 0, 0),
		"perf":     call(unix.SYS_PERF_EVENT_OPEN, 0, 0),
	})
}

// call makes a system call with two arguments.
func call(number, first, second uintptr) error {
	return call3(number, first, second, 0)
}

// call3 makes a system call with three arguments.
func call3(number, first, second, third uintptr) error {
	_, _, errno := unix.Syscall(number, first, second, third)
	if errno == 0 {
		return nil
	}

	return errno
}

// trySocketDir makes files in the folder of the socket.
func (a attempts) trySocketDir() {
	dir := socketDir()
	file := filepath.Join(dir, "empty")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		defer f.Close()
		fd := int(f.Fd())
		a.putAll(map[string]error{
			"allocate a file":       unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, 4096),
			"xattr of a descriptor": unix.Fsetxattr(fd, "user.x", []byte("x"), 0),
		})
	}
	a.putAll(map[string]error{
		"write next to the socket":  os.WriteFile(filepath.Join(dir, "x"), []byte("x"), 0o600),
		"fifo":                      unix.Mkfifo(filepath.Join(dir, "f"), 0o600),
		"folder next to the socket": os.Mkdir(filepath.Join(dir, "d"), 0o700),
		"file next to the socket":   err,
		"xattr":                     unix.Setxattr(file, "user.y", []byte("x"), 0),
		"xattr of a link":           unix.Lsetxattr(file, "user.z", []byte("x"), 0),
	})
}

// tryMemory uses memory that the limit of private memory does not count.
func (a attempts) tryMemory() {
	const growing = unix.MAP_PRIVATE | unix.MAP_GROWSDOWN
	a.putAll(map[string]error{
		"growing memory": errorOf(mapMemory(1<<30, growing)),
		"moved stack":    moveStack(),
	})
	const mapShadowStack = 453
	if call(mapShadowStack, 0, 1<<30) == nil {
		a.put("shadow stack", "ok") // only some machines have them
	}

	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		a.put("send buffer", describe(err))
		return
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])

	setBuffer := func(option int) error {
		return unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, option, 1<<20)
	}
	a.putAll(map[string]error{
		"send buffer":    setBuffer(unix.SO_SNDBUF),
		"receive buffer": setBuffer(unix.SO_RCVBUF),
	})
}

// tryShared uses what all programs of the machine share: huge pages, System V's and POSIX's means of communication,
// requests of asynchronous input and output, timers, the disk, its cache, and locks.
func (a attempts) tryShared() {
	const hugePages = unix.MAP_PRIVATE | unix.MAP_HUGETLB | unix.MAP_NORESERVE // also where the machine has none
	a.put("huge pages", describe(errorOf(mapMemory(2<<20, hugePages))))

	// Numbers that do not exist: only a filter answers EPERM.
	for name, number := range map[string]uintptr{
		"shmat": unix.SYS_SHMAT, "shmctl": unix.SYS_SHMCTL,
		"semop": unix.SYS_SEMOP, "semtimedop": unix.SYS_SEMTIMEDOP, "semctl": unix.SYS_SEMCTL,
		"msgsnd": unix.SYS_MSGSND, "msgrcv": unix.SYS_MSGRCV, "msgctl": unix.SYS_MSGCTL,
		"mq_unlink": unix.SYS_MQ_UNLINK, "mq_getsetattr": unix.SYS_MQ_GETSETATTR,
	} {
		err := call(number, math.MaxInt32, 0)
		if err != nil && !errors.Is(err, unix.EPERM) {
			err = nil // it reached the kernel
		}
		a.put(name, describe(err))
	}

	var requests uintptr
	a.put("io_setup", describe(call(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&requests)))))
	timers, err := repeat(1<<12, makeTimer)
	a.put("timers", describe(err))
	a.put("number of timers", strconv.Itoa(timers))

	f, err := os.Open("/proc/self/fd/3") // the program, which each detector may read
	if err != nil {
		a.put("fsync", describe(err))
		return
	}
	defer f.Close()
	fd := int(f.Fd())
	a.putAll(map[string]error{
		"fsync":             unix.Fsync(fd),
		"fdatasync":         unix.Fdatasync(fd),
		"drop cached pages": unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED),
		"flock":             unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB),
		"record lock":       unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &unix.Flock_t{Type: unix.F_RDLCK}),
	})
}

func makeTimer(int) error {
	var timer int32
	return call3(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&timer)))
}

// tryLimits looks at the limit of core files and raises that of memory.
func (a attempts) tryLimits() {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_CORE, &limit)
	isSet := limit.Cur == 1 && limit.Max == 1
	if err == nil && !isSet {
		a.put("core file", "ok")
	}

	_ = unix.Getrlimit(unix.RLIMIT_DATA, &limit)
	limit.Max++
	err = unix.Setrlimit(unix.RLIMIT_DATA, &limit)
	a.put("raise memory", describe(err))
}

// moveStack grows the last page of the main thread's stack to a GiB elsewhere.
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
		_, err = fmt.Sscanf(line, "%x-%x", &low, &high)
		if err != nil {
			return err
		}
		_, _, errno := unix.Syscall6(
			unix.SYS_MREMAP,
			low,
			4096,
			1<<30,
			unix.MREMAP_MAYMOVE,
			0,
			0,
		)
		if errno == 0 {
			return nil
		}
		return errno
	}

	return errors.New("no stack found")
}

// reportSelf reports the detector's environment, user, rights and descriptors.
func (a attempts) reportSelf() {
	a.put("environment", strings.Join(os.Environ(), " "))
	score, _ := os.ReadFile("/proc/self/oom_score_adj")
	a.put("oom score", strings.TrimSpace(string(score)))

	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		key, v, _ := strings.Cut(line, ":")
		switch key {
		case "Uid", "Gid", "Groups", "CapEff", "CapPrm", "CapAmb", "NoNewPrivs", "Seccomp":
			words := strings.Fields(v)
			a.put("status "+key, strings.Join(words, " "))
		}
	}

	var descriptors []string
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		target, _ := os.Readlink("/proc/self/fd/" + e.Name())
		kind, _, _ := strings.Cut(target, ":")
		text := e.Name() + "=" + filepath.Base(kind)
		descriptors = append(descriptors, text)
	}
	a.put("descriptors", strings.Join(descriptors, " "))
}
