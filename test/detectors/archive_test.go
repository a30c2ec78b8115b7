package detectors

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"strings"
)

// packaged is one file of a package.
type packaged struct {
	Mode   int64
	Owner  string
	SHA256 string
	text   []byte // of a deb's only: the payload of an rpm is not unpacked, its header has the sums
}

// archive is what a package holds and says.
type archive struct {
	control map[string]string // a deb's fields and scripts; an rpm's fields, under the deb's names
	files   map[string]packaged
}

// readDeb reads a deb with dpkg-deb.
func readDeb(file string) (archive, error) {
	a := archive{map[string]string{}, map[string]packaged{}}
	err := eachFile("--ctrl-tarfile", file, func(name string, _ *tar.Header, text []byte) {
		a.control[strings.TrimPrefix(name, "/")] = string(text)
	})
	for line := range strings.Lines(a.control["control"]) {
		if k, v, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(line, " ") {
			a.control[k] = strings.TrimSpace(v)
		}
	}

	return a, errors.Join(err, eachFile("--fsys-tarfile", file, func(name string, h *tar.Header, text []byte) {
		sum := sha256.Sum256(text)
		a.files[name] = packaged{h.Mode & 0o7777, h.Uname, hex.EncodeToString(sum[:]), text}
	}))
}

// eachFile calls f with each file of a part of a deb.
func eachFile(part, file string, f func(string, *tar.Header, []byte)) error {
	out, err := exec.Command("dpkg-deb", part, file).Output()
	if err != nil {
		return fmt.Errorf("dpkg-deb %s %s: %w", part, file, err)
	}
	for t := tar.NewReader(bytes.NewReader(out)); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		text, err := io.ReadAll(t)
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeReg {
			f(path.Join("/", h.Name), h, text)
		}
	}
}

// readRPM reads the header of an rpm with rpm.
func readRPM(file string) (archive, error) {
	a := archive{map[string]string{}, map[string]packaged{}}
	const format = `%{NAME} %{ARCH} [%{RECOMMENDS}]\n[%{FILEMODES} %{FILEUSERNAME} %{FILEDIGESTS} %{FILENAMES}\n]`
	out, err := exec.Command("rpm", "-qp", "--queryformat", format, file).Output()
	if err != nil {
		return a, fmt.Errorf("rpm -qp %s: %w", file, err)
	}
	fields, files, _ := strings.Cut(string(out), "\n")
	var name, arch, recommends string
	_, err = fmt.Sscan(fields, &name, &arch, &recommends)
	a.control["Package"], a.control["Architecture"], a.control["Recommends"] = name, arch, recommends
	for line := range strings.Lines(files) {
		var f packaged
		var at string
		_, one := fmt.Sscan(line, &f.Mode, &f.Owner, &f.SHA256, &at)
		err = errors.Join(err, one)
		f.Mode &= 0o7777
		a.files[at] = f
	}

	return a, err
}
