package faults

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// swept are the system calls at which the writer is killed: all that write, and openat, which may make a file.
const swept = "openat,openat2,write,pwrite64,fsync,fdatasync,renameat,renameat2,unlinkat,mkdirat,linkat,fchmod,fchmodat,fchown,fchownat,fsetxattr,ftruncate,fallocate,close"

// call is one system call of a trace.
type call struct {
	thread   string
	name     string
	args     string
	failed   bool
	errno    string
	injected bool
	index    int // among the calls of its thread, from 1
	nth      int // among those of its thread and name, from 1: strace's when= counts these
}

// ended is how a traced program ended.
type ended struct {
	exit   int
	killed bool
	output string
}

// execute runs a command to its end.
func execute(name string, args ...string) (ended, error) {
	var out bytes.Buffer
	c := exec.Command(name, args...)
	c.Stdout, c.Stderr = &out, &out
	c.Env = append(os.Environ(), "GOMAXPROCS=1")
	err := c.Run()
	e := ended{output: out.String()}
	var x *exec.ExitError
	if errors.As(err, &x) {
		w := x.Sys().(syscall.WaitStatus)
		e.killed, e.exit = w.Signaled() && w.Signal() == syscall.SIGKILL, w.ExitStatus()
		return e, nil
	}
	return e, err
}

// straced runs a command under strace with more options, each call of all threads, and reads what it did.
func straced(file string, options, command []string) ([]call, ended, error) {
	args := slices.Concat([]string{"-f", "-qq", "-y", "-s", "0", "-o", file}, options, command)
	e, err := execute("strace", args...)
	if err != nil {
		return nil, e, err
	}
	calls, err := readTrace(file)

	return calls, e, err
}

// killedAt runs a command and kills it as it enters one of the calls of its first thread: that one is not done. Other
// threads are not traced: strace counts each kind of call on each thread by itself, and one that only reads may come to
// the same count earlier. (It cannot send a signal with --seccomp-bpf.)
func killedAt(at call, command ...string) (ended, error) {
	if at.nth == 0 {
		return execute(command[0], command[1:]...)
	}
	return execute("strace", append([]string{"-qq", "-o", "/dev/null", "-e", "trace=" + at.name,
		"-e", fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", at.name, at.nth)}, command...)...)
}

// killedTraced is killedAt for a program of several threads, whose counts are not the same each time: it reads where
// the kill came.
func killedTraced(file string, at call, command ...string) ([]call, ended, error) {
	if at.nth == 0 {
		return traced(file, command...)
	}
	inject := fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", at.name, at.nth)
	return straced(file, []string{"-e", "trace=" + swept, "-e", inject}, command)
}

// failingAt runs a command, lets one of its calls fail, and reads what it did. hit is the call that failed, nil when
// none did.
func failingAt(file string, at call, errno string, command ...string) (calls []call, hit *call, e ended, err error) {
	var options []string
	when := at.nth
	if byName(at) {
		options, when = []string{"-P", filepath.Base(at.paths()[0])}, 1
	}
	inject := fmt.Sprintf("inject=%s:error=%s:when=%d", at.name, errno, when)
	calls, e, err = straced(file, append(options, "-e", "trace="+swept, "-e", inject), command)
	injected := 0
	for i := range calls {
		if calls[i].injected {
			hit = &calls[i]
			injected++
		}
	}
	if injected > 1 { // two threads have counted so far: the effects cannot be assigned
		hit = nil
	}
	return calls, hit, e, err
}

// byName says whether a call is found by the name that it creates, and not by its count: opening happens in threads
// whose counts of it are another each time, and a file that is created has one name.
func byName(c call) bool { return c.name == "openat" && c.creates() }

// traced runs a command and reads what it did, in order.
func traced(file string, command ...string) ([]call, ended, error) {
	return straced(file, []string{"--seccomp-bpf", "-e", "trace=" + swept}, command)
}

var (
	line      = regexp.MustCompile(`^(\d+) +(\w+)\((.*)\) += (-?\d+|\?)(?:<[^>]*>)?(?: (E[A-Z0-9]+))?.*$`)
	resumed   = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>(.*)$`)
	fdPath    = regexp.MustCompile(`^(?:\d+|AT_FDCWD)<([^>]*)>$`)
	separator = regexp.MustCompile(`, `)
)

// readTrace parses strace's -f -y output. A call that another thread interrupts is put together again.
func readTrace(file string) ([]call, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []call
	open, count := map[string]string{}, map[string]int{} // by thread, and by thread and name
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		text := s.Text()
		if before, ok := strings.CutSuffix(text, " <unfinished ...>"); ok {
			open[strings.Fields(text)[0]] = before
			continue
		}
		if m := resumed.FindStringSubmatch(text); m != nil {
			text = open[m[1]] + m[3]
		}
		m := line.FindStringSubmatch(text)
		if m == nil {
			if strings.Contains(text, "+++ ") || strings.Contains(text, "--- ") ||
				strings.Contains(text, "<detached ...>") {
				continue
			}
			return nil, fmt.Errorf("%s: not understood: %s", file, text)
		}
		name := m[1] + m[2]
		count[m[1]]++
		count[name]++
		out = append(
			out,
			call{
				thread:   m[1],
				name:     m[2],
				args:     m[3],
				failed:   m[4] == "-1" || m[4] == "?",
				errno:    m[5],
				injected: strings.HasSuffix(text, "(INJECTED)"),
				index:    count[m[1]],
				nth:      count[name],
			},
		)
	}
	return out, s.Err()
}

func (c call) split() []string { return separator.Split(c.args, -1) }

// at is the path that the i-th argument, a descriptor, is open on.
func (c call) at(i int) string {
	if a := c.split(); i < len(a) {
		if m := fdPath.FindStringSubmatch(a[i]); m != nil {
			return strings.TrimSuffix(m[1], " (deleted)")
		}
	}
	return ""
}

// in is the path that the i-th and next argument, a folder and a name in it, mean.
func (c call) in(i int) string {
	a := c.split()
	if i+1 >= len(a) {
		return ""
	}
	name, err := strconv.Unquote(a[i+1])
	if err != nil {
		return ""
	}
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(c.at(i), name)
}

// paths are the things that a call is about; the last is what it changes.
func (c call) paths() []string {
	switch c.name {
	case "openat", "openat2", "unlinkat", "mkdirat", "fchmodat", "fchownat":
		return []string{c.in(0)}
	case "renameat", "renameat2", "linkat":
		return []string{c.in(0), c.in(2)}
	}
	return []string{c.at(0)}
}

// creates says whether an open may make a file, or change one.
func (c call) creates() bool {
	return strings.HasPrefix(c.name, "openat") && (strings.Contains(c.args, "O_CREAT") || c.writes())
}

func (c call) writes() bool {
	return strings.Contains(c.args, "O_WRONLY") || strings.Contains(c.args, "O_RDWR") ||
		strings.Contains(c.args, "O_TRUNC")
}

// changes says whether a disk is another after this call, or is asked to keep what it has.
func (c call) changes() bool {
	switch c.name {
	case "openat", "openat2":
		return c.creates()
	case "close":
		return false
	}
	return true
}

// below says whether a call is about something below a folder.
func (c call) below(dir string) bool {
	for _, p := range c.paths() {
		if p == dir || strings.HasPrefix(p, dir+string(filepath.Separator)) {
			return true
		}
	}
	return false
}
