package app

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/prelet/prelet/internal/world"
)

// isBundle reports whether a path names a bundle, as prelet bundle requires it.
func isBundle(path string) bool { return strings.HasSuffix(path, bundleSuffix) }

// maxExpanded limits what is expanded of a bundle, in bytes: it may come from anyone.
const maxExpanded = 4 * maxBundled

// readFromBundle returns a file of a bundle. The error is errNotBundled if the bundle lacks the file.
func readFromBundle(path, name string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("not a bundle: %w", err)
	}

	archive := tar.NewReader(io.LimitReader(zip, maxExpanded))
	for {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, errNotBundled
		case err != nil:
			return nil, fmt.Errorf("not a bundle: %w", err)
		case header.Name != bundleFolder+name:
			continue
		}

		return io.ReadAll(archive)
	}
}

// errNotBundled is the error of a file that a bundle does not have.
var errNotBundled = errors.New("the bundle does not contain it; README.txt in it has the reason")

// readBundledRecording returns the recording in a bundle.
func readBundledRecording(path string) (*world.Recording, error) {
	text, err := readFromBundle(path, recordingName)
	if errors.Is(err, errNotBundled) {
		err = fmt.Errorf("%s: %w", recordingName, err)
	}
	if err != nil {
		return nil, err
	}

	return world.Decode(bytes.NewReader(text))
}
