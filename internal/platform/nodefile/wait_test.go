package nodefile

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile/hangfs"
)

// readers are the reads of this package, for a folder with the names of hangfs.
func readers() map[string]func(dir string) error {
	withLook := func(name string, links Links, read func(*Look) error) func(string) error {
		return func(dir string) error {
			look, err := Root("").Look(filepath.Join(dir, name), links)
			if err != nil {
				return err
			}
			defer look.Close()

			return read(look)
		}
	}

	return map[string]func(string) error{
		"ReadFile": func(dir string) error { _, err := ReadFile(dir+"/file", Max); return err },
		"through a link": func(dir string) error {
			_, err := ReadFile(dir+"/link", Max)
			return err
		},
		"Text": func(dir string) error {
			if _, f := Root(filepath.Dir(dir)).Text(filepath.Base(dir) + "/file"); f != nil {
				return f
			}
			return nil
		},
		"Observe":     func(dir string) error { _, err := Root("").Observe(dir+"/file", Max); return err },
		"of a folder": func(dir string) error { _, err := Root("").Observe(dir+"/folder", Max); return err },
		"Names":       func(dir string) error { _, err := Root("").Names(dir+"/folder", 1); return err },
		"Target":      withLook("link", FollowNone, func(l *Look) error { _, err := l.Target(); return err }),
		"Stat":        func(dir string) error { _, err := Stat(dir + "/file"); return err },
		"Readlink":    func(dir string) error { _, err := Readlink(dir + "/link"); return err },
		"ReadDir":     func(dir string) error { _, err := ReadDir(dir + "/folder"); return err },
		"FindDisk":    func(dir string) error { return Root("").FindDisk(dir + "/file").Err },
	}
}

// TestEveryReadEnds reads in a file system that never answers: each read ends, and names the path.
func TestEveryReadEnds(t *testing.T) {
	setPatience(t, 500*time.Millisecond)

	all := readers()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			dir := hangfs.Mount(t)
			err := all[name](dir)
			if err == nil || !strings.Contains(err.Error(), "did not answer within") {
				t.Errorf("got %v, want that its file system did not answer", err)
			}
			if f := new(fault.Fault); errors.As(err, &f) && f.Code != fault.NoAnswer {
				t.Errorf("code: got %s, want %s", f.Code, fault.NoAnswer)
			}
			if at := new(fs.PathError); errors.As(err, &at) && !strings.Contains(dir+"/", at.Path+"/") &&
				!strings.HasPrefix(at.Path, dir) {
				t.Errorf("path: got %s, want one in %s", at.Path, dir)
			}
		})
	}
	t.Logf("%d cases", len(all))
}

// begunIn returns how many reads of a folder were begun, and are not answered.
func begunIn(dir string) (count int) {
	unanswered.mu.Lock()
	defer unanswered.mu.Unlock()
	for c := range unanswered.now {
		if strings.HasPrefix(c.path+"/", dir+"/") {
			count++
		}
	}

	return count
}

// TestHangingFolder reads many files of a folder that hangs: only the first waits.
func TestHangingFolder(t *testing.T) {
	setPatience(t, 500*time.Millisecond)
	dir := hangfs.Mount(t)

	for range 100 {
		if _, err := ReadFile(dir+"/file", Max); !errors.As(err, new(*NoAnswerError)) {
			t.Fatalf("got %v, want that its file system did not answer", err)
		}
	}
	if got := begunIn(dir); got != 1 {
		t.Errorf("100 reads: got %d that were begun and not answered, want 1", got)
	}
	if got := Waiting(0); len(got) > 0 {
		t.Errorf("Waiting: got %q, want none: no caller waits any more", got)
	}
}

func setPatience(t *testing.T, d time.Duration) {
	t.Helper()
	was := unanswered.patience
	unanswered.patience = d
	t.Cleanup(func() { unanswered.patience = was })
}

// TestFirstThread checks that no read is on the thread to which the kernel gives the signals of the process.
func TestFirstThread(t *testing.T) {
	var all sync.WaitGroup
	for range 2000 {
		all.Go(func() {
			thread, _ := Within("/", func() (int, error) { return unix.Gettid(), nil })
			if thread == os.Getpid() {
				t.Error("got a read on the first thread, want it on another one")
			}
		})
	}
	all.Wait()
}
