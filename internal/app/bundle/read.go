package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/prelet/prelet/internal/app/userfile"
	"github.com/prelet/prelet/internal/report"
	"github.com/prelet/prelet/internal/world"
)

// IsNamed reports whether a path names a bundle, as prelet bundle requires it.
func IsNamed(path string) bool { return strings.HasSuffix(path, suffix) }

// maxExpanded limits the expanded size of a bundle, in bytes: a bundle may come from anyone.
const maxExpanded = 8 * world.MaxRecording

// readFile returns a file of a bundle, if it has at most limit bytes.
func readFile(path, name string, limit int64) ([]byte, error) {
	f, err := userfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("not a bundle: %w", err)
	}

	expanded := &io.LimitedReader{R: zip, N: maxExpanded}
	archive := tar.NewReader(expanded)
	for {
		header, err := archive.Next()
		switch {
		case err != nil && expanded.N == 0:
			return nil, fmt.Errorf("it expands to more than %d bytes, and %s is behind that", int64(maxExpanded), name)
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%s: %w", name, errNotBundled)
		case err != nil:
			return nil, fmt.Errorf("not a bundle: %w", err)
		case header.Name != folder+name:
			continue
		}

		if header.Size > limit {
			return nil, fmt.Errorf("%s has %d bytes; at most %d are read", name, header.Size, limit)
		}

		return io.ReadAll(archive)
	}
}

// errNotBundled is the error of a file that a bundle does not have.
var errNotBundled = errors.New("the bundle does not contain it; missing.txt in it has the reason")

// ReadStatus returns the status in a bundle.
func ReadStatus(path string) (*report.Status, error) {
	text, err := readFile(path, report.StatusFile, report.StatusLimit)
	if err != nil {
		return nil, err
	}
	s, err := report.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; the plan is not affected", report.StatusFile, err)
	}

	return s, nil
}

// ReadRecording returns the recording in a bundle, or in a file of its own.
func ReadRecording(path string) (*world.Recording, error) {
	if !IsNamed(path) {
		f, err := userfile.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()

		return world.Decode(f)
	}

	text, err := readFile(path, RecordingName, world.MaxRecording)
	if err != nil {
		return nil, err
	}

	return world.Decode(bytes.NewReader(text))
}
