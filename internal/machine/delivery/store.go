package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/registry"
)

const (
	lockFile   = "lock"
	tempPrefix = ".new-" // of files that are not stored yet
	maxKept    = 3       // sites before the present one; a generation has a copy of its site
	lockPause  = 100 * time.Millisecond
)

// errPowerCut is wrapped by the error of Config.Step: nothing may follow it.
var errPowerCut = errors.New("power cut")

// store is the folder of pulled sites. A site is durable before the record names it, and a record replaces the one
// before atomically: after a power cut the record names the old site or the new one, and that is whole.
type store struct {
	dir      string
	stateDir string
	lock     *os.File
	step     func(string) error
}

// openStore makes the folder, waits for another update, and removes the leftovers of a power cut.
func openStore(ctx context.Context, stateDir string, step func(string) error) (*store, error) {
	s := &store{dir: filepath.Join(stateDir, machine.SitesFolder), stateDir: stateDir, step: step}
	if step == nil {
		s.step = func(string) error { return nil }
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	if st, err := nodefile.Lstat(s.dir); err != nil || !st.IsDir() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a folder", s.dir))
	}

	const mode = os.O_RDWR | os.O_CREATE | unix.O_NOFOLLOW | unix.O_NONBLOCK
	lock, err := os.OpenFile(filepath.Join(s.dir, lockFile), mode, 0o600)
	if err != nil {
		return nil, err
	}
	s.lock = lock
	ctx, cancel := context.WithTimeout(ctx, machine.LockTimeout)
	defer cancel()
	for {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			s.close()
			return nil, fmt.Errorf("lock: %w", err)
		}
		select {
		case <-ctx.Done():
			s.close()
			return nil, errors.New("another prelet site update has not ended")
		case <-time.After(lockPause):
		}
	}

	return s, s.clean(tempPrefix)
}

func (s *store) close() { _ = s.lock.Close() }

// clean removes the files and folders with a prefix.
func (s *store) clean(prefix string) error {
	entries, err := nodefile.ReadDir(s.dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, e.Name())))
		}
	}

	return err
}

// stage writes files into a folder that is not stored yet, and makes them durable.
func (s *store) stage(files []registry.File) (folder string, err error) {
	if err := s.clean(tempPrefix); err != nil {
		return "", err
	}
	folder = filepath.Join(s.dir, tempPrefix+"site")
	if err := s.at("make folder", os.Mkdir(folder, 0o755)); err != nil {
		return "", err
	}
	for _, f := range files {
		if err := s.at("write "+f.Name, writeDurable(filepath.Join(folder, f.Name), 0o644, f.Text)); err != nil {
			return "", err
		}
	}

	return folder, s.at("flush folder", syncFolder(folder))
}

// at returns an error of a step, or that the power was cut after it.
func (s *store) at(name string, err error) error {
	if err != nil {
		return &fault.Fault{Code: fault.CannotWrite, Summary: "cannot store the site", Err: err}
	}

	return s.step(name)
}

// put stores a site. Only the record makes it that of the node.
func (s *store) put(site *registry.Artifact) error {
	folder, err := s.stage(site.Files)
	if err != nil {
		return err
	}
	to := machine.PulledFolder(s.stateDir, site.Digest)
	err = s.at("remove damaged site", os.RemoveAll(to)) // a usable site would not have been pulled again
	if err == nil {
		err = s.at("rename folder", os.Rename(folder, to))
	}
	if err == nil {
		err = s.at("flush sites", syncFolder(s.dir))
	}

	return err
}

// writeRecord replaces the record, and then removes old sites.
func (s *store) writeRecord(d *report.Delivery) error {
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	fresh := filepath.Join(s.dir, tempPrefix+"state")
	err = s.at("write record", writeDurable(fresh, 0o644, append(text, '\n')))
	if err == nil {
		err = s.at("rename record", os.Rename(fresh, filepath.Join(s.dir, machine.DeliveryFile)))
	}
	if err == nil {
		err = s.at("flush record", syncFolder(s.dir))
	}
	if err == nil {
		err = errors.Join(s.clean(tempPrefix), s.collect(d.Digest))
	}

	return err
}

// collect removes the oldest sites.
func (s *store) collect(digest string) error {
	entries, err := nodefile.ReadDir(s.dir)
	if err != nil {
		return err
	}

	type site struct {
		path string
		at   time.Time
	}
	var old []site
	for _, e := range entries {
		path := filepath.Join(s.dir, e.Name())
		if !e.IsDir() || path == machine.PulledFolder(s.stateDir, digest) {
			continue
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		old = append(old, site{path, st.ModTime()})
	}
	slices.SortFunc(old, func(a, b site) int { return b.at.Compare(a.at) })
	for _, o := range old[min(len(old), maxKept):] {
		if err := os.RemoveAll(o.path); err != nil {
			return err
		}
	}

	return nil
}

// writeDurable writes a new file and flushes it.
func writeDurable(name string, mode os.FileMode, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW|unix.O_NONBLOCK, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(mode) // the umask of the units is 0077
	}
	if err == nil {
		err = f.Sync()
	}

	return errors.Join(err, f.Close())
}

// syncFolder makes the names in a folder durable.
func syncFolder(dir string) error {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}

	return errors.Join(f.Sync(), f.Close())
}
