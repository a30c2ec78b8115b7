package conformance

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/sandbox"
)

// startMark is the line of a trace from which on the calls are the detector's.
const startMark = "the detector starts"

// traceCommand returns the beginning of a command that lists the system calls of a program in descriptor 4: strace, as
// a grandchild of this process, so that the program stays a child, and in a process group of its own.
func traceCommand() []string {
	calls := []string{
		"open", "openat", "openat2", "mkdir", "mkdirat", "execve", "execveat", "connect", // decided by their paths
		"socket", "socketpair", "bind", "clone", "mmap", "fadvise64", "fcntl", "setsockopt", // refused for some
	}
	calls = append(calls, slices.Sorted(maps.Values(sandbox.Calls()))...)

	return []string{
		"strace", "-DD", "-f", "-qq", "-y", "-x", "-s", "4096", "-o", "/proc/self/fd/4", "-e", "signal=none",
		"-e", "trace=?" + strings.Join(calls, ",?"), // a name that strace does not know on this machine is skipped
	}
}

// findTracer returns why system calls cannot be watched here, "" if they can.
func findTracer() (why string) {
	out, err := exec.Command(
		"strace",
		"-DD",
		"-qq",
		"-o",
		os.DevNull,
		"true",
	).CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "strace is not installed"
	case err != nil || len(out) > 0:
		return strings.TrimSpace(fmt.Sprintf("strace: %s %v", shorten(string(out)), err))
	}

	return ""
}

// watcher reads the trace of one detector, and finds the accesses that the sandbox of a node refuses.
type watcher struct {
	policy  sandbox.Policy // of the process
	program string         // the path of the detector's program
	machine []string       // the roots that it is asked about

	attempts []attempt
	done     chan struct{} // closed at the end of the trace
}

func (k *kit) newWatcher(policy sandbox.Policy) *watcher {
	program, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", k.program.Fd()))

	return &watcher{
		policy:  policy,
		program: program,
		machine: k.roots,
		done:    make(chan struct{}),
	}
}

// traced is one finished line of a trace, after the number of the process: a call, its arguments and its error.
var traced = regexp.MustCompile(`^(\w+)\((.*)\) += .*?(EPERM|EACCES|ENOENT|ENOTDIR|$)`)

// read reads the trace until all processes of the detector have ended.
func (w *watcher) read(trace io.ReadCloser) {
	defer close(w.done)
	defer trace.Close()

	lines := bufio.NewReader(trace)
	isDetector := false
	begun := map[string]string{} // by process: a call during which another process made one

	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		pid, call, _ := strings.Cut(strings.TrimSpace(line), " ")
		call = strings.TrimSpace(call)
		_, rest, isResumed := strings.Cut(call, " resumed>")

		switch begin, isUnfinished := strings.CutSuffix(call, "<unfinished ...>"); {
		case strings.HasSuffix(line, startMark+"\n"):
			isDetector = true
			continue
		case isUnfinished:
			begun[pid] = begin
			continue
		case isResumed && strings.HasPrefix(call, "<... "):
			call = begun[pid] + rest
		}
		if found := traced.FindStringSubmatch(call); isDetector && found != nil {
			w.checkCall(found[1], found[2], found[3])
		}
	}
}

func (w *watcher) add(check string, s Outcome, text string) {
	w.attempts = append(w.attempts, attempt{check, s, text})
}

// checkCall checks a call with an error, "" for none.
func (w *watcher) checkCall(call, arguments, failure string) {
	isMissing := failure == "ENOENT" || failure == "ENOTDIR"

	what := fmt.Sprintf("%s(%s)", call, shorten(address.ReplaceAllString(arguments, "…")))

	switch path := parsePath(arguments); {
	case strings.HasPrefix(call, "open"):
		w.checkOpen(path, arguments, isMissing)
	case strings.HasPrefix(call, "exec"):
		if path != "" && path != sandbox.BinaryPath && !isMissing && !w.mayExecute(path) {
			w.add("declared", Failed, "runs "+path)
		}
	case strings.HasPrefix(call, "mkdir"):
		w.add("no-writes", Failed, "mkdir "+path)
	case call == "connect":
		w.checkConnect(arguments)
	case failure != "EPERM":
	case strings.HasPrefix(call, "socket"):
		w.add("no-network", Note, what)
	default:
		w.add("declared", Failed, "calls "+what+", which is refused to all detectors")
	}
}

// address is a place in memory or a socket, which differ from call to call.
var address = regexp.MustCompile(`\b0x[0-9a-f]{7,}|\b\d+<socket:[^>]*>`)

// pathArgument is a folder, if the call has one, and a path.
var pathArgument = regexp.MustCompile(`^(?:[^<",]*<([^>]*)>, )?("(?:[^"\\]|\\.)*")`)

// parsePath returns the absolute path of a call's arguments, "" if there is none.
func parsePath(arguments string) string {
	found := pathArgument.FindStringSubmatch(arguments)
	if found == nil {
		return ""
	}
	path, err := strconv.Unquote(found[2])
	if err != nil {
		path = found[2]
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}

	return filepath.Join("/", found[1], path) // detectors start in /
}

// forWriting is a flag of open that needs the right to write.
var forWriting = regexp.MustCompile(`\bO_(WRONLY|RDWR|CREAT|TRUNC)\b`)

func (w *watcher) checkOpen(path, arguments string, isMissing bool) {
	flags := arguments[strings.LastIndex(arguments, `"`)+1:]
	isPathOnly := strings.Contains(flags, "O_PATH")
	isOwn := path == contract.Discard || isBelow(path, w.policy.Socket)

	switch {
	case path == "", isPathOnly, isOwn, matchesAny(w.policy.Grants.Devices, path):
	case forWriting.MatchString(flags):
		w.add("no-writes", Failed, "open for writing: "+path)
	case !isMissing && !w.mayRead(path):
		w.add("declared", Note, "reads "+path)
	}
}

// mayRead reports whether a node's sandbox lets the detector read a path, or the file that a link leads to.
func (w *watcher) mayRead(path string) bool {
	if isBelow(path, "/proc") { // its links depend on the reader
		return true
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}

	granted := slices.Concat(
		contract.Readable(),
		w.policy.Grants.Read,
		w.policy.Grants.Execute,
		[]string{w.program},
	)
	for at := path; at != "/" && at != "."; at = filepath.Dir(at) {
		if matchesAny(granted, at) {
			return true
		}
	}

	return false
}

func (w *watcher) mayExecute(path string) bool {
	target, _ := filepath.EvalSymlinks(path)
	isItself := isBelow(path, "/proc") && filepath.Base(path) == "exe"

	return isItself || matchesAny(w.policy.Grants.Execute, path) || matchesAny(w.policy.Grants.Execute, target)
}

// socketAddress is the address of a Unix socket. No other socket can be made.
var socketAddress = regexp.MustCompile(`sun_path=(@?)("(?:[^"\\]|\\.)*")`)

func (w *watcher) checkConnect(arguments string) {
	found := socketAddress.FindStringSubmatch(arguments)
	if found == nil {
		return
	}
	name, _ := strconv.Unquote(found[2])
	path := found[1] + name
	onNode := path
	for _, root := range w.machine {
		if rest, isInRoot := strings.CutPrefix(path, root+"/"); isInRoot {
			onNode = "/" + rest
		}
	}
	isMissing := found[1] == "" && !exists(path)
	if !isMissing && !isBelow(path, w.policy.Socket) && !matchesAny(w.policy.Grants.Sockets, onNode) {
		w.add("declared", Failed, "connects to "+onNode)
	}
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
