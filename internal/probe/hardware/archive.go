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
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Bounds of an archive. A snapshot of ghw has some thousands of entries and 2 MiB; the largest of a real machine that
// was seen has 20,000.
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

// openArchive unpacks a gzipped tar, or one that bzip2 has compressed. A name that is absolute or climbs is refused. A
// link that leads out of the archive, as /etc/mtab of a real machine may, is kept and never followed: what it stands
// for is not in the archive.
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

	if err := unpack(r, folder); err != nil {
		return nil, err
	}

	root, err := os.OpenRoot(machineFolder(folder))
	if err != nil {
		return nil, err
	}

	return archiveTree{rootTree{root}, folder}, nil
}

// machineFolder is the only folder in a folder, if somebody packed the root as one, or else the folder itself.
func machineFolder(folder string) string {
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 1 || !entries[0].IsDir() {
		return folder
	}

	below := path.Join(folder, entries[0].Name())

	for _, name := range []string{"proc", "sys"} {
		if _, err := os.Lstat(path.Join(below, name)); err == nil {
			return below
		}
	}

	return folder
}

// unpack writes the entries of an archive into an empty folder. Links come last, so that no file is put through one. Of
// several entries with one name the last counts, as for tar; only a folder that has entries cannot be replaced. Devices,
// pipes and hard links are left out.
func unpack(r io.Reader, folder string) error {
	// What is not in a file counts too: headers, and what is passed over.
	archive := tar.NewReader(io.LimitReader(r, 2*maxArchiveBytes))

	var total int64

	links := map[string]string{}

	for count := 0; ; count++ {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}

		// A header may give any size, also for an entry without content. That of a sparse file is what it unpacks to.
		if header.Size < 0 || header.Size > maxArchiveBytes-total || count >= maxArchiveEntries {
			return fmt.Errorf("it is larger than %d MiB or %d entries, the most that is read",
				maxArchiveBytes>>20, maxArchiveEntries)
		}
		total += header.Size

		name, err := archiveName(header.Name)
		if err != nil {
			return err
		}

		if name == "." {
			continue
		}

		if header.Typeflag == tar.TypeSymlink {
			err = removeEntry(path.Join(folder, name))
			links[name] = header.Linkname
		} else {
			err = unpackEntry(archive, header.Typeflag, path.Join(folder, name))
			delete(links, name)
		}

		if err != nil {
			return entryFailed(name, err)
		}
	}

	return makeLinks(folder, links)
}

// unpackEntry makes a folder, or a file with what r has, in place of an earlier entry. Other types are left out.
func unpackEntry(r io.Reader, kind byte, target string) error {
	const folderMode, fileMode = 0o700, 0o600

	switch kind {
	case tar.TypeDir:
		if info, err := os.Lstat(target); err == nil && info.IsDir() {
			return nil
		}
		return errors.Join(removeEntry(target), os.MkdirAll(target, folderMode))
	case tar.TypeReg:
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return errors.Join(
			removeEntry(target), os.MkdirAll(path.Dir(target), folderMode), os.WriteFile(target, data, fileMode))
	}

	return nil
}

// removeEntry removes a file or an empty folder, if there is one.
func removeEntry(target string) error {
	if err := os.Remove(target); !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	return nil
}

// entryFailed says which entry of an archive cannot be unpacked, and why.
func entryFailed(name string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return copyFailed(err)
	case errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST):
		return fmt.Errorf("entry %q is also a folder with entries", name)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("entry %q is below one that is not a folder", name)
	}

	return fmt.Errorf("entry %q cannot be unpacked: %w", name, withoutName(err))
}

// makeLinks makes symbolic links by their names. os.Root keeps one from being made through another.
func makeLinks(folder string, links map[string]string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()

	for _, name := range slices.Sorted(maps.Keys(links)) {
		if err := errors.Join(root.MkdirAll(path.Dir(name), 0o700), root.Symlink(links[name], name)); err != nil {
			return entryFailed(name, err)
		}
	}

	return nil
}

// archiveName returns the name of an entry without . and .. in it. The archive itself is ".".
func archiveName(name string) (string, error) {
	clean := path.Clean(name)

	if path.IsAbs(name) || clean == ".." || strings.HasPrefix(clean, "../") || strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("entry %q is not inside the archive", name)
	}

	if strings.Count(clean, "/") >= maxArchiveDepth {
		return "", fmt.Errorf("entry %q is below %d folders or more, which is not read", name, maxArchiveDepth)
	}

	return clean, nil
}
