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
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/registry"
)

const (
	lockFile   = "lock"
	tempPrefix = "." // of files that are not stored yet
	maxKept    = 3   // sites before the present one; a rollback needs none of them
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

// openStore makes the folder, and waits for another update.
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

	return s, nil
}

func (s *store) close() { _ = s.lock.Close() }

// clean removes the leftovers of a power cut, and of a site that could not be stored.
func (s *store) clean() error {
	entries, err := nodefile.ReadDir(s.dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tempPrefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, e.Name())))
		}
	}

	return err
}

// stage writes files into a folder that is not stored yet, and makes them durable.
func (s *store) stage(files []registry.File) (folder string, err error) {
	if err := s.at("clean", s.clean()); err != nil {
		return "", err
	}
	folder = filepath.Join(s.dir, tempPrefix+"new-site")
	if err := s.at("make folder", os.Mkdir(folder, 0o755)); err != nil {
		return "", err
	}
	for _, f := range files {
		err := s.at("write "+f.Name, atomicfile.Durable(filepath.Join(folder, f.Name), 0o644, f.Text))
		if err != nil {
			return "", err
		}
	}

	return folder, nil
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
		err = s.at("flush sites", atomicfile.SyncFolder(s.dir))
	}

	return err
}

// writeRecord replaces the record, and then removes the sites that it does not name, but for that of the generation in
// place.
func (s *store) writeRecord(d *report.Delivery, inPlace string) error {
	text, err := json.MarshalIndent(d, "", "  ")
	if err == nil {
		err = s.at("clean", s.clean())
	}
	if err == nil {
		name := filepath.Join(s.dir, machine.DeliveryFile)
		err = s.at("replace record", atomicfile.Durable(name, 0o644, append(text, '\n')))
	}
	if err == nil {
		err = s.collect(d, inPlace)
	}

	return err
}

// collect removes the sites that are neither in place nor named by the record. The order is that of the record: the
// clock may have been wrong. A record that was made again names none yet.
func (s *store) collect(d *report.Delivery, inPlace string) error {
	kept := append([]string{d.Digest, inPlace}, d.Earlier...)
	if d.Refused != nil {
		kept = append(kept, d.Refused.Digest)
	}
	for i, digest := range kept {
		kept[i] = filepath.Base(machine.PulledFolder(s.stateDir, digest))
	}

	entries, err := nodefile.ReadDir(s.dir)
	for _, e := range entries {
		if d.Digest != "" && e.IsDir() && !slices.Contains(kept, e.Name()) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, e.Name())))
		}
	}

	return err
}
