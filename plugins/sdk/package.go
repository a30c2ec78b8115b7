package sdk

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/internal/cli"
)

// Package lists the contents of the deb and the rpm of a detector besides its description.
type Package struct {
	Maintainer string // NAME <ADDRESS>
	Homepage   string
	License    string // SPDX

	// Devices are the names in /proc/devices that prelet's units may open; char-* has all. The site grants the paths.
	Devices []string
}

// lock is the file that a package installs as /usr/lib/prelet/detectors.lock.d/NAME.json. `prelet detectors lock`
// writes the same for any detector.
type lock struct {
	FormatVersion int                  `json:"format_version"`
	Name          string               `json:"name"`
	SHA256        string               `json:"sha256"`
	Describe      contract.Description `json:"describe"`
}

// newLock returns the lock of a program with this detector's description.
func newLock(d contract.Description, program []byte) lock {
	sum := sha256.Sum256(program)

	return lock{FormatVersion: 1, Name: d.Name, SHA256: hex.EncodeToString(sum[:]), Describe: d}
}

// readProgram returns the path and the content of a program; "" is the running one.
func readProgram(file string) (path string, content []byte, err error) {
	if file == "" {
		if file, err = os.Executable(); err != nil {
			return "", nil, err
		}
	}
	if path, err = filepath.Abs(file); err != nil {
		return "", nil, err
	}
	content, err = os.ReadFile(path)

	return path, content, err
}

// architecture returns the architecture of an ELF program, as Debian names it.
func architecture(program []byte) (string, error) {
	if len(program) < 20 || !bytes.HasPrefix(program, []byte("\x7fELF")) {
		return "", errors.New("it is not an ELF program")
	}

	machine := binary.LittleEndian.Uint16(program[18:]) // e_machine
	name, isKnown := map[uint16]string{62: "amd64", 183: "arm64"}[machine]
	if !isKnown {
		return "", fmt.Errorf("its ELF machine is %d: prelet is for amd64 (62) and arm64 (183)", machine)
	}

	return name, nil
}

// writePackages writes the lock of a program, a deb and an rpm to a folder. nfpm makes them, and is not part of the
// detector: a boot hashes all of its bytes.
func writePackages(p Package, d contract.Description, file, dir string, stdout io.Writer) error {
	program, content, err := readProgram(file)
	if err != nil {
		return err
	}
	arch, err := architecture(content)
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	lockFile := filepath.Join(dir, d.Name+".json")
	var text bytes.Buffer
	if err := cli.PrintJSON(&text, newLock(d, content)); err != nil {
		return err
	}
	if err := os.WriteFile(lockFile, text.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Fprintln(stdout, lockFile)

	work, err := os.MkdirTemp("", "package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	config, err := json.Marshal(nfpmConfig(p, d, arch, program, lockFile, work)) // JSON is YAML
	if err != nil {
		return err
	}
	configFile := filepath.Join(work, "nfpm.yaml")
	err = errors.Join(
		os.WriteFile(configFile, config, 0o600),
		os.WriteFile(filepath.Join(work, dropIn), []byte(p.dropIn()), 0o600),
	)
	if err != nil {
		return err
	}

	for _, packager := range []string{"deb", "rpm"} {
		c := exec.Command("nfpm", "package", "--config", configFile, "--packager", packager, "--target", dir+"/")
		c.Stdout = stdout
		c.Stderr = stdout
		err := c.Run()
		if errors.Is(err, exec.ErrNotFound) {
			return errors.New("nfpm, which makes packages, is not in PATH: " +
				"go install github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0")
		}
		if err != nil {
			return fmt.Errorf("nfpm: %w", err)
		}
	}

	return nil
}

// dropIn is the name of the file that lets prelet's units open devices.
const dropIn = "devices.conf"

func (p Package) dropIn() string {
	text := "# prelet's units may open only these devices. In addition, the site must grant them to the detector.\n" +
		"[Service]\nPrivateDevices=no\n"
	for _, name := range p.Devices {
		text += "DeviceAllow=" + name + " rw\n"
	}

	return text
}

// nfpmConfig returns nfpm's configuration of a detector's packages.
func nfpmConfig(p Package, d contract.Description, arch, program, lockFile, work string) map[string]any {
	content := func(from, to string, mode int) map[string]any {
		return map[string]any{"src": from, "dst": "/usr/lib/" + to, "file_info": map[string]int{"mode": mode}}
	}
	contents := []any{
		content(program, "prelet/detectors/"+d.Name, 0o755),
		content(lockFile, "prelet/detectors.lock.d/"+d.Name+".json", 0o644),
	}
	if len(p.Devices) > 0 {
		for _, unit := range []string{"prelet", "prelet-apply", "prelet-check"} {
			to := "systemd/system/" + unit + ".service.d/50-detector-" + d.Name + ".conf"
			contents = append(contents, content(filepath.Join(work, dropIn), to, 0o644))
		}
	}

	return map[string]any{
		"name":        "prelet-detector-" + d.Name,
		"version":     d.Version,
		"arch":        arch,
		"section":     "admin",
		"priority":    "optional",
		"maintainer":  p.Maintainer,
		"vendor":      d.Vendor,
		"homepage":    p.Homepage,
		"license":     p.License,
		"description": "Detector " + d.Name + " for prelet\n" + d.Doc,
		"recommends":  []string{"prelet"},
		"contents":    contents,
	}
}
