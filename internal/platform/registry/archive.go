package registry

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// noTime is the time of each file, so that a digest depends on names and contents only.
var noTime = time.Unix(0, 0).UTC()

const maxName = 255 // bytes, as of file systems

// pack returns the layer of files: the same bytes for the same files, in any order.
func pack(files []File) ([]byte, error) {
	sorted := slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	if len(files) == 0 || len(files) > MaxFiles {
		return nil, refuse("a site has 1 to %d files, and these are %d", MaxFiles, len(files))
	}

	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i, f := range sorted {
		if err := checkName(f.Name); err != nil {
			return nil, err
		}
		if i > 0 && sorted[i-1].Name == f.Name {
			return nil, refuse("%q is there twice", f.Name)
		}
		head := &tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Size: int64(len(f.Text)), Mode: 0o644, ModTime: noTime}
		if err := w.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Text); err != nil {
			return nil, err
		}
		if out.Len() > MaxLayer {
			break
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if out.Len() > MaxLayer {
		return nil, refuse("the files have more than %d bytes", MaxLayer)
	}

	return out.Bytes(), nil
}

// unpack returns the files of a layer, which has at most MaxLayer bytes.
func unpack(layer []byte) ([]File, error) {
	var out []File
	seen := map[string]bool{}
	left := int64(len(layer)) // a sparse file would have more than is in the layer

	r := tar.NewReader(bytes.NewReader(layer))
	for {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, refuse("the layer is not a tar archive: %s", err)
		}

		left -= head.Size
		switch err := checkName(head.Name); {
		case err != nil:
			return nil, err
		case head.Typeflag != tar.TypeReg:
			return nil, refuse("%q is not a regular file: its type in the archive is %q", head.Name, head.Typeflag)
		case seen[head.Name]:
			return nil, refuse("%q is there twice", head.Name)
		case len(out) == MaxFiles:
			return nil, refuse("it has more than %d files", MaxFiles)
		case left < 0:
			return nil, refuse("%q has %d bytes, more than its layer", head.Name, head.Size)
		}

		text, err := io.ReadAll(r)
		if err != nil {
			return nil, refuse("the layer ends within %q", head.Name)
		}
		seen[head.Name] = true
		out = append(out, File{head.Name, text})
	}
	if len(out) == 0 {
		return nil, refuse("it has no files")
	}

	return slices.SortedFunc(slices.Values(out), func(a, b File) int { return strings.Compare(a.Name, b.Name) }), nil
}

// checkName refuses all but the plain name of a file: callers join it to a folder.
func checkName(name string) error {
	isOdd := func(r rune) bool { return r == '/' || r == '\\' || !unicode.IsGraphic(r) }
	if name == "" || len(name) > maxName || !utf8.ValidString(name) || strings.HasPrefix(name, ".") ||
		strings.ContainsFunc(name, isOdd) {
		return refuse("%.80q is not the plain name of a file", name)
	}

	return nil
}
