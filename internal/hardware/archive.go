package hardware

import (
	"archive/tar"
	"bufio"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Bounds of an archive. A snapshot of ghw has some thousands of entries and 2 MiB; the largest of a real machine that was
// seen has 20,000.
const (
	maxArchiveBytes   = 64 << 20
	maxArchiveEntries = 100_000
	maxArchiveDepth   = 64
	maxLinks          = 40 // in one path, as Linux
)

// memoryTree is a recorded tree in memory: an unpacked archive. It is not changed after it was read.
type memoryTree struct{ root *entry }

// entry is a folder (children is not nil), a link (target is not empty), or a file.
type entry struct {
	children map[string]*entry
	target   string
	data     []byte
}

func folder() *entry { return &entry{children: map[string]*entry{}} }

// readArchive reads a gzipped tar, or one that bzip2 has compressed. A name that is absolute or climbs is refused. A link that leads out of the archive, as
// /etc/mtab of a real machine may, is kept and never followed: what it stands for is not in the archive.
func readArchive(r io.Reader) (*memoryTree, error) {
	buffered := bufio.NewReader(r)
	if magic, _ := buffered.Peek(len("BZh")); string(magic) == "BZh" {
		return readTar(bzip2.NewReader(buffered))
	}
	unzipped, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, err
	}
	return readTar(unzipped)
}

func readTar(r io.Reader) (*memoryTree, error) {
	// What is not in a file counts too: headers, and what is passed over.
	archive := tar.NewReader(io.LimitReader(r, 2*maxArchiveBytes))
	t := &memoryTree{root: folder()}
	var total int64
	for count := 0; ; count++ {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if total += header.Size; total > maxArchiveBytes || count >= maxArchiveEntries {
			return nil, fmt.Errorf("it is larger than %d MiB or %d entries, the most that is read", maxArchiveBytes>>20, maxArchiveEntries)
		}
		name, err := archiveName(header.Name)
		if err != nil {
			return nil, err
		}
		var e *entry
		switch header.Typeflag {
		case tar.TypeDir:
			e = folder()
		case tar.TypeReg:
			data, err := io.ReadAll(archive)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			e = &entry{data: data}
		case tar.TypeSymlink:
			if header.Linkname == "" {
				return nil, fmt.Errorf("%s: a link without a target", name)
			}
			e = &entry{target: header.Linkname}
		default:
			continue // devices and pipes tell nothing; what reads a hard link will find nothing
		}
		if err := t.add(name, e); err != nil {
			return nil, err
		}
	}
	return t.below(), nil
}

// TreeOf makes a tree in memory of the texts of files and the targets of symbolic links, by path. Folders come by
// themselves.
func TreeOf(files, links map[string]string) (Tree, error) {
	t := &memoryTree{root: folder()}
	add := func(name string, e *entry) error {
		clean, err := archiveName(name)
		if err != nil {
			return err
		}
		return t.add(clean, e)
	}
	for name, text := range files {
		if err := add(name, &entry{data: []byte(text)}); err != nil {
			return nil, err
		}
	}
	for name, target := range links {
		if err := add(name, &entry{target: target}); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func archiveName(name string) (string, error) {
	clean := path.Clean(name)
	if path.IsAbs(name) || clean == ".." || strings.HasPrefix(clean, "../") || strings.ContainsRune(name, 0) ||
		strings.Count(clean, "/") >= maxArchiveDepth {
		return "", fmt.Errorf("the name %q does not stay inside the archive", name)
	}
	return clean, nil
}

// add puts an entry in place, with the folders above it. Nothing is ever put through a link.
func (t *memoryTree) add(name string, e *entry) error {
	at := t.root
	parts := strings.Split(name, "/")
	if name == "." {
		return nil
	}
	for _, part := range parts[:len(parts)-1] {
		next := at.children[part]
		if next == nil {
			next = folder()
			at.children[part] = next
		}
		if next.children == nil {
			return fmt.Errorf("%s: %q above it is not a folder", name, part)
		}
		at = next
	}
	last := parts[len(parts)-1]
	if old := at.children[last]; old != nil && old.children != nil && e.children != nil {
		return nil
	}
	at.children[last] = e
	return nil
}

// below is the tree itself, or its only folder, where that is the root that somebody packed whole.
func (t *memoryTree) below() *memoryTree {
	if len(t.root.children) == 1 {
		for _, only := range t.root.children {
			if only.children["proc"] != nil || only.children["sys"] != nil {
				return &memoryTree{root: only}
			}
		}
	}
	return t
}

// walk finds an entry. Links are followed on the way, and at the end if last is set.
func (t *memoryTree) walk(name string, last bool) (*entry, error) {
	stack := []*entry{t.root}
	todo := strings.Split(path.Clean(name), "/")
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if len(stack) == 1 {
				return nil, errEscapes
			}
			stack = stack[:len(stack)-1]
			continue
		}
		at := stack[len(stack)-1]
		if at.children == nil {
			return nil, fs.ErrNotExist
		}
		next := at.children[part]
		switch {
		case next == nil:
			return nil, fs.ErrNotExist
		case next.target != "" && (last || len(todo) > 0):
			if links++; links > maxLinks {
				return nil, errors.New("too many levels of symbolic links")
			}
			if path.IsAbs(next.target) {
				return nil, errEscapes
			}
			todo = append(strings.Split(next.target, "/"), todo...)
		default:
			stack = append(stack, next)
		}
	}
	return stack[len(stack)-1], nil
}

// ReadFile implements Tree.
func (t *memoryTree) ReadFile(name string, limit int) ([]byte, error) {
	e, err := t.walk(name, true)
	switch {
	case err != nil:
	case e.children != nil:
		err = errNotRegular
	default:
		return append([]byte(nil), e.data[:min(limit, len(e.data))]...), nil
	}
	return nil, &fs.PathError{Op: "read", Path: name, Err: err}
}

// ReadDir implements Tree.
func (t *memoryTree) ReadDir(name string) ([]string, error) {
	e, err := t.walk(name, true)
	switch {
	case err != nil:
	case e.children == nil:
		err = errors.New("not a directory")
	default:
		names := make([]string, 0, len(e.children))
		for child := range e.children {
			names = append(names, child)
		}
		return names, nil
	}
	return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
}

// ReadLink implements Tree.
func (t *memoryTree) ReadLink(name string) (string, error) {
	e, err := t.walk(name, false)
	switch {
	case err != nil:
	case e.target == "":
		err = errors.New("not a symbolic link")
	default:
		return e.target, nil
	}
	return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
}

// Close implements Opened.
func (t *memoryTree) Close() error { return nil }
