package hardware

import (
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"
)

// watchedTree publishes the file that is being read, so that another goroutine can detect a hanging read, and refuses
// devices that hung before.
type watchedTree struct {
	Tree
	hung    []string // devices and files that hung
	asked   atomic.Int64
	current atomic.Pointer[string] // the file that is being read, nil between two files
}

var errHung = errors.New("it did not answer in time")

// watch calls read while it publishes the name, unless the file or its device hung before.
func watch[T any](t *watchedTree, name string, read func(string) (T, error)) (value T, err error) {
	for _, h := range t.hung {
		if name == h || strings.HasPrefix(name, h+"/") {
			return value, &fs.PathError{Op: "read", Path: name, Err: errHung}
		}
	}

	t.asked.Add(1)
	t.current.Store(&name)
	defer t.current.Store(nil)

	return read(name)
}

// ReadFile implements Tree.
func (t *watchedTree) ReadFile(name string, limit int) ([]byte, error) {
	return watch(t, name, func(name string) ([]byte, error) {
		return t.Tree.ReadFile(name, limit)
	})
}

// ReadDir implements Tree.
func (t *watchedTree) ReadDir(name string) ([]string, error) {
	return watch(t, name, t.Tree.ReadDir)
}

// ReadLink implements Tree.
func (t *watchedTree) ReadLink(name string) (string, error) {
	return watch(t, name, t.Tree.ReadLink)
}

// deviceOf returns the folder of the device that a file belongs to, because its other files would hang, too. It
// returns the file if it belongs to none.
func deviceOf(name string) string {
	for _, folder := range []string{
		pciFolder,
		netFolder,
		"proc/driver/nvidia/gpus",
		kfdNodes,
		cpuFolder,
		nodesFolder,
	} {
		rest, isBelow := strings.CutPrefix(name, folder+"/")
		device, _, isInside := strings.Cut(rest, "/")

		if isBelow && isInside {
			return folder + "/" + device
		}
	}

	return name
}
