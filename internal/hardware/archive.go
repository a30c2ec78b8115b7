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
	"os"
	"path"
	"strings"
)

// Bounds of an archive. A snapshot of ghw has some thousands of entries and 2 MiB; the largest of a real machine that was
// seen has 20,000.
const (
	maxArchiveBytes   = 64 << 20
	maxArchiveEntries = 100_000
	maxArchiveDepth   = 64
)

// archiveTree is an unpacked archive, which Close removes.
type archiveTree struct {
	rootTree
	folder string
}

func (t archiveTree) Close() error {
	return errors.Join(t.rootTree.Close(), os.RemoveAll(t.folder))
}

// openArchive unpacks a gzipped tar, or one that bzip2 has compressed. A name that is absolute or climbs is refused. A link
// that leads out of the archive, as /etc/mtab of a real machine may, is kept and never followed: what it stands for is not
// in the archive.
func openArchive(r io.Reader) (tree Opened, err error) {
	buffered := bufio.NewReader(r)

	var unpacked io.Reader
	if magic, _ := buffered.Peek(len("BZh")); string(magic) == "BZh" {
		unpacked = bzip2.NewReader(buffered)
	} else if unpacked, err = gzip.NewReader(buffered); err != nil {
		return nil, err
	}

	return openTar(unpacked)
}

func openTar(r io.Reader) (tree Opened, err error) {
	folder, err := scratchFolder()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}()

	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}

	if err := unpack(r, root); err != nil {
		return nil, errors.Join(err, root.Close())
	}

	// Somebody may have packed the root as one folder.
	if entries, err := fs.ReadDir(root.FS(), "."); err == nil && len(entries) == 1 && isMachine(root, entries[0].Name()) {
		below, err := root.OpenRoot(entries[0].Name())
		if err != nil {
			return nil, errors.Join(err, root.Close())
		}
		return archiveTree{rootTree{below}, folder}, root.Close()
	}

	return archiveTree{rootTree{root}, folder}, nil
}

func isMachine(root *os.Root, folder string) bool {
	_, procErr := root.Lstat(folder + "/proc")
	_, sysErr := root.Lstat(folder + "/sys")
	return procErr == nil || sysErr == nil
}

func unpack(r io.Reader, root *os.Root) error {
	// What is not in a file counts too: headers, and what is passed over.
	archive := tar.NewReader(io.LimitReader(r, 2*maxArchiveBytes))

	var total int64

	for count := 0; ; count++ {
		header, err := archive.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}

		if total += header.Size; total > maxArchiveBytes || count >= maxArchiveEntries {
			return fmt.Errorf("it is larger than %d MiB or %d entries, the most that is read", maxArchiveBytes>>20, maxArchiveEntries)
		}

		name, err := archiveName(header.Name)
		if err == nil && name != "." {
			err = unpackEntry(archive, header, root, name)
		}
		if err != nil {
			return fmt.Errorf("entry %q: %w", header.Name, err)
		}
	}
}

// unpackEntry unpacks one entry. Of several with one name the last counts. Devices and pipes are left out, and hard links.
func unpackEntry(archive io.Reader, header *tar.Header, root *os.Root, name string) error {
	const folderMode, fileMode = 0o700, 0o600

	switch header.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, folderMode)
	case tar.TypeReg, tar.TypeSymlink:
	default:
		return nil
	}

	if err := root.MkdirAll(path.Dir(name), folderMode); err != nil {
		return err
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if header.Typeflag == tar.TypeSymlink {
		return root.Symlink(header.Linkname, name)
	}

	data, err := io.ReadAll(archive)
	if err != nil {
		return err
	}

	return root.WriteFile(name, data, fileMode)
}

func archiveName(name string) (string, error) {
	clean := path.Clean(name)
	if path.IsAbs(name) || clean == ".." || strings.HasPrefix(clean, "../") || strings.ContainsRune(name, 0) ||
		strings.Count(clean, "/") >= maxArchiveDepth {
		return "", errors.New("the name does not stay inside the archive")
	}
	return clean, nil
}
