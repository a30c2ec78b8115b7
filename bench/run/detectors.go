package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/prelet/prelet/bench/measure"
)

// unprivilegedUser runs the detectors if this program runs as root: their own users come with packages.
const unprivilegedUser = 65534

// detectorNames are the copies of bench/vendor that are installed. The lock of "absent" names a device that no
// machine has.
var detectorNames = []string{"one", "two", "three", "four", "absent"}

// measureDetectors runs `prelet detect` in turns without a detector, with a detector that has no device, with one and
// with four, and returns the samples by name.
func measureDetectors(ctx context.Context, o options) (map[string][]measure.Sample, error) {
	// Not below o.dir, which an unprivileged user cannot reach.
	root, err := os.MkdirTemp("", "bench-detect-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(root)

	d := detectBench{root: root, prelet: filepath.Join(root, "bin/prelet")}
	if err := d.install(ctx, o); err != nil {
		return nil, err
	}

	sites := map[string][]string{
		noDetector:     nil,
		absentDetector: {"absent"},
		oneDetector:    {"one"},
		fourDetectors:  {"one", "two", "three", "four"},
	}
	for name, detectors := range sites {
		if err := d.writeSite(name, detectors); err != nil {
			return nil, err
		}
	}

	samples := map[string][]measure.Sample{}
	for i := range o.n + 1 {
		for _, name := range []string{noDetector, absentDetector, oneDetector, fourDetectors} {
			site := d.sitePath(name)
			s, output, err := d.run(ctx, "detect", "-o", "json", "--root", root, "--config", site)
			if err == nil {
				err = checkStates(output.Stdout, sites[name])
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}

			if i > 0 {
				samples[name] = append(samples[name], s)
			}
		}
	}

	return samples, nil
}

// checkStates returns an error unless the detector "absent" was skipped and the others reported.
func checkStates(output []byte, detectors []string) error {
	var document struct {
		Facts struct {
			Detectors map[string]struct{ State string }
		}
	}
	if err := json.Unmarshal(output, &document); err != nil {
		return err
	}

	for _, name := range detectors {
		want := "ok"
		if name == "absent" {
			want = "skipped"
		}

		if got := document.Facts.Detectors[name].State; got != want {
			return fmt.Errorf("detector %q: got state %q, want %q", name, got, want)
		}
	}

	return nil
}

type detectBench struct{ root, prelet string }

func (d detectBench) sitePath(name string) string {
	return filepath.Join(d.root, "sites", strings.ReplaceAll(name, " ", "-"))
}

func (d detectBench) writeSite(name string, detectors []string) error {
	var text strings.Builder
	for _, detector := range detectors {
		fmt.Fprintf(&text, "detector %q {}\n", detector)
	}
	text.WriteString("stage \"detect-hw\" \"node\" {}\n")

	dir := d.sitePath(name)

	return errors.Join(
		os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "site.hcl"), []byte(text.String()), 0o644),
	)
}

// install copies prelet, prelet-detect and the detectors below the root, locks the detectors, and gives all of it to
// the user that they run as.
func (d detectBench) install(ctx context.Context, o options) error {
	const programs, locks = "usr/lib/prelet/detectors", "usr/lib/prelet/detectors.lock.d"

	copies := map[string]string{
		"bin/prelet":        o.prelet,
		"bin/prelet-detect": filepath.Join(filepath.Dir(o.prelet), "prelet-detect"),
	}
	for _, name := range detectorNames {
		copies[filepath.Join(programs, name)] = filepath.Join(o.helpers, "vendor")
	}
	for to, from := range copies {
		if err := copyProgram(from, filepath.Join(d.root, to)); err != nil {
			return err
		}
	}

	if err := os.MkdirAll(filepath.Join(d.root, locks), 0o755); err != nil {
		return err
	}
	if err := d.chown(); err != nil {
		return err
	}

	lock := []string{"detectors", "lock", "--root", d.root}
	for _, name := range detectorNames {
		lock = append(lock, filepath.Join(d.root, programs, name))
	}
	if _, _, err := d.run(ctx, lock...); err != nil {
		return err
	}

	return matchNoDevice(filepath.Join(d.root, locks, "absent.json"))
}

// copyProgram copies without holding the file in memory, which would show in the RSS of every child.
func copyProgram(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()

	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}

	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()

	_, err = io.Copy(out, in)
	return err
}

// matchNoDevice changes a lock, so that its detector has nothing to detect on any machine.
func matchNoDevice(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}

	changed := bytes.Replace(text, []byte(`"always": true`), []byte(`"pci_ids": ["ffff:fffe"]`), 1)
	if bytes.Equal(text, changed) {
		return fmt.Errorf("%s does not contain \"always\": true", path)
	}

	return os.WriteFile(path, changed, 0o644)
}

func (d detectBench) chown() error {
	if err := os.Chmod(d.root, 0o755); err != nil || os.Geteuid() != 0 {
		return err
	}

	return filepath.WalkDir(d.root, func(path string, _ os.DirEntry, err error) error {
		//nolint:gosec // the folder belongs to this program
		return errors.Join(err, os.Lchown(path, unprivilegedUser, unprivilegedUser))
	})
}

func (d detectBench) run(ctx context.Context, args ...string) (measure.Sample, measure.Output, error) {
	environment := []string{"PATH=/usr/bin:/bin", "GOMAXPROCS=4"} // as the units set it

	var credential *syscall.Credential
	if os.Geteuid() == 0 {
		credential = &syscall.Credential{Uid: unprivilegedUser, Gid: unprivilegedUser}
	}

	return measure.Command{Args: append([]string{d.prelet}, args...), Env: environment, User: credential}.Run(ctx)
}
