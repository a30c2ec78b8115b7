// Package bundle is the file that prelet bundle writes: an archive with the parts of a report of a bug. It bounds what
// it reads, because a bundle may come from anyone. Its caller collects the parts, without secrets.
package bundle

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"slices"
	"strings"
	"time"
)

// RecordingName is the recording in a bundle.
const RecordingName = "recording.prelet"

// The name of a bundle ends in suffix, and its files are in folder.
const (
	suffix = ".tar.gz"
	folder = "prelet-bundle/"
)

// Bundle are the files of a bundle, in order.
type Bundle struct {
	Modified time.Time
	Work     string   // the folder that the recording is written to, which readers do not have
	Missing  []string // what could not be added, with the reason
	files    []file
}

type file struct{ name, text string }

// Add adds a text that is not empty.
func (b *Bundle) Add(name, text string) {
	if text != "" {
		text = strings.ReplaceAll(text, b.Work, "")
		b.files = append(b.files, file{name, text})
	}
}

// Has reports whether a file is in it.
func (b *Bundle) Has(name string) bool {
	return slices.ContainsFunc(b.files, func(f file) bool {
		return f.name == name
	})
}

// Miss notes why a file could not be added.
func (b *Bundle) Miss(name string, err error) {
	b.Missing = append(b.Missing, name+": "+err.Error())
}

// Names returns the names of its files.
func (b *Bundle) Names() (names []string) {
	for _, f := range b.files {
		names = append(names, f.name)
	}
	return names
}

// Describe returns the text of README.txt.
func (b *Bundle) Describe() string {
	lines := []string{
		"A bundle of prelet for a report of a bug. It contains no secrets of this node, and no serial numbers, uuids",
		"or MAC addresses; it contains host names, IP addresses, the site and the cluster's ConfigMaps. Secrets of",
		"other programs have no mark: read the journal and the kubelet's flags before you send it.",
		"",
		"`prelet plan --from THIS.tar.gz` makes the same plan on another machine, unless a credential was hidden in",
		"what the plan is made from, and `prelet report --from THIS.tar.gz --html FILE` makes a page with the times",
		"of the last run. NAME.messages is what the command of NAME printed to standard error. (sensitive) replaces",
		"secrets.",
		"",
	}
	lines = append(lines, b.Names()...)
	if len(b.Missing) > 0 {
		lines = append(lines, "", "Not here:")
		lines = append(lines, b.Missing...)
	}

	return strings.Join(lines, "\n") + "\n"
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
			ModTime: b.Modified,
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
