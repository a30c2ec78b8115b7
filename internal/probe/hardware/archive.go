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

// Limits of an archive. A snapshot of ghw has some thousands of entries and 2 MiB; the largest known archive of a
// real machine has 20,000.
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
	return errors.Join(
		t.rootTree.Close(),
		os.RemoveAll(t.folder),
	)
}

// openArchive unpacks a tar that is compressed by gzip or bzip2. Entries outside of the archive are refused. A
// link that leads out of the archive, such as a machine's /etc/mtab, is kept and never followed.
func openArchive(r io.Reader) (tree Opened, err error) {
	buffered := bufio.NewReader(r)

	var unpacked io.Reader

	magic, _ := buffered.Peek(len("BZh"))
	if string(magic) == "BZh" {
		unpacked = bzip2.NewReader(buffered)
	} else if unpacked, err = gzip.NewReader(buffered); err != nil {
		return nil, err
	}

	return openTar(unpacked)
}

func openTar(r io.Reader) (tree Opened, err error) {
	folder, err := makeScratchFolder()
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

// machineFolder returns the only folder in a folder if it is the root of a machine, otherwise the folder itself.
func machineFolder(folder string) string {
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 1 || !entries[0].IsDir() {
		return folder
	}

	below := path.Join(folder, entries[0].Name())

	for _, name := range []string{"proc", "sys"} {
		file := path.Join(below, name)
		if _, err := os.Lstat(file); err == nil {
			return below
		}
	}

	return folder
}

// unpack writes the entries of an archive into an empty folder. Links are made last, so that no file is written
// through one. The last of several entries with one name is used, as by tar; only a folder with entries cannot be
// replaced. Devices, pipes and hard links are omitted.
func unpack(r io.Reader, folder string) error {
	// The limit includes headers and omitted entries.
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

		// A header may have any size, also that of an entry without content. The size of a sparse file is the
		// unpacked one.
		if header.Size < 0 || header.Size > maxArchiveBytes-total || count >= maxArchiveEntries {
			return fmt.Errorf("it is larger than %d MiB or %d entries, which is the limit",
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
			return entryError(name, err)
		}
	}

	return makeLinks(folder, links)
}

// unpackEntry makes a folder, or a file with the content of r, and replaces an earlier entry. Other types are
// omitted.
func unpackEntry(r io.Reader, kind byte, target string) error {
	const folderMode, fileMode = 0o700, 0o600

	switch kind {
	case tar.TypeDir:
		if info, err := os.Lstat(target); err == nil && info.IsDir() {
			return nil
		}

		return errors.Join(
			removeEntry(target),
			os.MkdirAll(target, folderMode),
		)
	case tar.TypeReg:
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}

		return errors.Join(
			removeEntry(target),
			os.MkdirAll(path.Dir(target), folderMode),
			os.WriteFile(target, data, fileMode),
		)
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

// entryError returns the error of unpacking an entry of an archive.
func entryError(name string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC),
		errors.Is(err, syscall.EDQUOT):
		return copyError(err)
	case errors.Is(err, syscall.ENOTEMPTY),
		errors.Is(err, syscall.EEXIST):
		return fmt.Errorf("entry %q is also a folder with entries", name)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("entry %q is below an entry that is not a folder", name)
	}

	return fmt.Errorf("entry %q cannot be unpacked: %w", name, withoutName(err))
}

// makeLinks makes symbolic links. os.Root refuses to make one through another.
func makeLinks(folder string, links map[string]string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()

	for _, name := range slices.Sorted(maps.Keys(links)) {
		err := errors.Join(
			root.MkdirAll(path.Dir(name), 0o700),
			root.Symlink(links[name], name),
		)
		if err != nil {
			return entryError(name, err)
		}
	}

	return nil
}

// archiveName returns the name of an entry without . and .. in it. The archive itself is ".".
func archiveName(name string) (string, error) {
	clean := path.Clean(name)

	isOutside := path.IsAbs(name) || clean == ".." || strings.HasPrefix(clean, "../")
	if isOutside || strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("entry %q is not inside the archive", name)
	}

	if strings.Count(clean, "/") >= maxArchiveDepth {
		return "", fmt.Errorf("entry %q is below %d folders or more, which is not supported", name, maxArchiveDepth)
	}

	return clean, nil
}
