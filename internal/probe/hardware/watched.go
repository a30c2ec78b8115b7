package hardware

import (
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"
)

// watchedTree says what is being read now, so that somebody else can see that it hangs, and refuses what has hung before.
type watchedTree struct {
	Tree
	hung   []string // devices and files that did not answer
	asked  atomic.Int64
	inside atomic.Pointer[string] // nil between two files
}

var errHung = errors.New("it did not answer in time")

func (t *watchedTree) enter(name string) error {
	for _, h := range t.hung {
		if rest, below := strings.CutPrefix(name, h); below && (rest == "" || rest[0] == '/') {
			return &fs.PathError{Op: "read", Path: name, Err: errHung}
		}
	}
	t.asked.Add(1)
	t.inside.Store(&name)
	return nil
}

func (t *watchedTree) leave() { t.inside.Store(nil) }

func (t *watchedTree) ReadFile(name string, limit int) ([]byte, error) {
	if err := t.enter(name); err != nil {
		return nil, err
	}
	defer t.leave()
	return t.Tree.ReadFile(name, limit)
}

func (t *watchedTree) ReadDir(name string) ([]string, error) {
	if err := t.enter(name); err != nil {
		return nil, err
	}
	defer t.leave()
	return t.Tree.ReadDir(name)
}

func (t *watchedTree) ReadLink(name string) (string, error) {
	if err := t.enter(name); err != nil {
		return "", err
	}
	defer t.leave()
	return t.Tree.ReadLink(name)
}

// deviceOf is what to give up with a file that hangs: all of the device that it belongs to, because the next of its files
// would hang as long, or else the file alone.
func deviceOf(name string) string {
	for _, folder := range []string{pciFolder, netFolder, "proc/driver/nvidia/gpus", kfdNodes, cpuFolder, nodesFolder} {
		if rest, below := strings.CutPrefix(name, folder+"/"); below {
			if device, _, inside := strings.Cut(rest, "/"); inside {
				return folder + "/" + device
			}
		}
	}
	return name
}
