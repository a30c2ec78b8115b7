package nodefile

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Patience is how long a file system may take to answer one read. A slow disk answers in less; a dead network mount, or
// a FUSE file system without its server, never does.
const Patience = 10 * time.Second

// NoAnswerError is the error of a path on a file system that does not answer.
type NoAnswerError struct{ After time.Duration }

func (e *NoAnswerError) Error() string {
	return fmt.Sprintf("its file system did not answer within %s", e.After)
}

// Timeout reports true, as net.Error does.
func (*NoAnswerError) Timeout() bool { return true }

// call is one read of a path of this machine that the kernel has not answered. Nothing can end it but the kernel: its
// goroutine is left behind, and ends with the process.
type call struct {
	path  string // where it is; it changes while links and folders are followed
	since time.Time
	hangs bool // its caller has gone on
}

// calls are the unanswered reads of this process. They are state of the process as its threads are: a read of a path
// that hangs, or of one below it, is refused at once, so that a folder of many files costs Patience once.
type calls struct {
	mu       sync.Mutex
	now      map[*call]struct{}
	patience time.Duration
}

// unanswered has the reads of this process: it is package state, because threads in the kernel belong to the process.
var unanswered = calls{now: map[*call]struct{}{}, patience: Patience}

// begin notes a read, unless its path is, or is below, that of a read that hangs.
func (c *calls) begin(path string) (begun *call, isRefused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := range c.now {
		if other.hangs && (path == other.path || strings.HasPrefix(path, other.path+"/")) {
			return nil, true
		}
	}
	begun = &call{path: path, since: time.Now()}
	c.now[begun] = struct{}{}

	return begun, false
}

func (c *calls) end(ended *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.now, ended)
}

// leave notes that the caller of a call has gone on.
func (c *calls) leave(left *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left.hangs = true
}

// reach notes which part of its path a call has come to. It is nil for a read without such parts.
func (c *calls) reach(at *call, path string) {
	if at == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at.path = path
}

// Waiting returns the paths of reads that somebody has waited for so long.
func Waiting(atLeast time.Duration) []string {
	unanswered.mu.Lock()
	defer unanswered.mu.Unlock()
	paths := map[string]struct{}{}
	for c := range unanswered.now {
		if !c.hangs && time.Since(c.since) >= atLeast {
			paths[c.path] = struct{}{}
		}
	}

	return slices.Sorted(maps.Keys(paths))
}

// Within reads a path of this machine, and waits for Patience at most: then the error is a *fs.PathError with a
// *NoAnswerError, and what read returns later is lost. read must not change anything.
func Within[T any](path string, read func() (T, error)) (T, error) {
	return within(path, path, func(*call) (T, error) { return read() })
}

// Stat is os.Stat, within Patience.
func Stat(path string) (fs.FileInfo, error) {
	return Within(path, func() (fs.FileInfo, error) { return os.Stat(path) })
}

// Lstat is os.Lstat, within Patience.
func Lstat(path string) (fs.FileInfo, error) {
	return Within(path, func() (fs.FileInfo, error) { return os.Lstat(path) })
}

// Readlink is os.Readlink, within Patience.
func Readlink(path string) (string, error) {
	return Within(path, func() (string, error) { return os.Readlink(path) })
}

// ReadDir is os.ReadDir, within Patience.
func ReadDir(path string) ([]fs.DirEntry, error) {
	return Within(path, func() ([]fs.DirEntry, error) { return os.ReadDir(path) })
}

// offFirstThread runs f on another thread than the first one of this process. To that one the kernel gives the signals
// of the process (complete_signal in kernel/signal.c): while it waits for a file system that does not answer, it
// receives none, and SIGTERM would be lost.
func offFirstThread(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.Gettid() != os.Getpid() {
		f()
		return
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// within is Within for a path that has another name on the node.
func within[T any](path, name string, read func(*call) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	begun, isRefused := unanswered.begin(path)
	if isRefused {
		return none, pathError("read", name, &NoAnswerError{After: unanswered.patience})
	}

	answered := make(chan answer, 1)
	go offFirstThread(func() {
		value, err := read(begun)
		unanswered.end(begun)
		answered <- answer{value, err}
	})

	patience := time.NewTimer(unanswered.patience)
	defer patience.Stop()
	select {
	case a := <-answered:
		return a.value, a.err
	case <-patience.C:
	}
	unanswered.leave(begun)

	return none, pathError("read", name, &NoAnswerError{After: unanswered.patience})
}
