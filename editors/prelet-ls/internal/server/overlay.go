package server

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/prelet/prelet/internal/plan/lang"
)

// overlay is the files of this machine, with the texts of open documents instead of the saved ones.
type overlay struct {
	lang.Files
	texts map[string]string // by absolute path
}

func newOverlay(texts map[string]string) overlay {
	return overlay{Files: lang.OS(), texts: maps.Clone(texts)}
}

// Lstat describes a file. A file that exists only in the editor is a regular file; any other is as on the disk, so that
// a link is refused as it will be after saving.
func (o overlay) Lstat(name string) (fs.FileInfo, error) {
	st, err := o.Files.Lstat(name)
	text, isOpen := o.texts[name]
	if isOpen && (err != nil || st.Mode().IsRegular()) {
		return describeUnsaved(name, text), nil
	}

	return st, err
}

// ReadDir lists a folder with the documents that are not saved yet.
func (o overlay) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := o.Files.ReadDir(name)
	for _, file := range slices.Sorted(maps.Keys(o.texts)) {
		isFile := func(e fs.DirEntry) bool { return e.Name() == path.Base(file) }
		if path.Dir(file) == name && !slices.ContainsFunc(entries, isFile) {
			entries = append(entries, fs.FileInfoToDirEntry(describeUnsaved(file, o.texts[file])))
		}
	}

	return entries, err
}

// CheckTrusted accepts a document that is not saved yet.
func (o overlay) CheckTrusted(name string) error {
	if _, isOpen := o.texts[name]; isOpen {
		if _, err := o.Files.Lstat(name); err != nil {
			return nil
		}
	}

	return o.Files.CheckTrusted(name)
}

// ReadFile returns the text of an open document, or the file.
func (o overlay) ReadFile(name string, max int64) ([]byte, error) {
	text, isOpen := o.texts[name]
	switch {
	case !isOpen:
		return o.Files.ReadFile(name, max)
	case int64(len(text)) > max:
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, len(text), max)
	}

	return []byte(text), nil
}

// describeUnsaved describes an open document as a regular file.
func describeUnsaved(name, text string) fs.FileInfo {
	header := tar.Header{
		Name: path.Base(name),
		Size: int64(len(text)),
		Mode: 0o644,
	}

	return header.FileInfo()
}
