// Package bundle writes and reads the archive of `prelet bundle`, with the parts of a report of a bug. Reads are
// limited in size, because a bundle may come from anyone. Its caller collects the parts, without secrets.
package bundle

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"time"
)

// RecordingName is the file name of the recording in a bundle.
const RecordingName = "recording.prelet"

// The name of a bundle ends in suffix, and its files are in folder.
const (
	suffix = ".tar.gz"
	folder = "prelet-bundle/"
)

// Bundle are the files of a bundle, in order.
type Bundle struct {
	Missing []string // what could not be added, with the reason
	files   []file
}

type file struct{ name, text string }

// Add adds a file, or the reason why there is none.
func (b *Bundle) Add(name, text string, err error) {
	if err != nil {
		b.Missing = append(b.Missing, name+": "+err.Error())
		return
	}
	b.files = append(b.files, file{name, text})
}

// Hide replaces the text of each file by what hide returns for it.
func (b *Bundle) Hide(hide func(name, text string) string) {
	for i, f := range b.files {
		b.files[i].text = hide(f.name, f.text)
	}
}

// Encode writes a .tar.gz with one folder.
func (b *Bundle) Encode(w io.Writer) error {
	zip := gzip.NewWriter(w)
	archive := tar.NewWriter(zip)
	for _, f := range b.files {
		header := tar.Header{
			Name:    folder + f.name,
			Mode:    0o600,
			Size:    int64(len(f.text)),
			ModTime: time.Now().Truncate(time.Second),
		}
		if err := archive.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := io.WriteString(archive, f.text); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}

	return zip.Close()
}
