package hardware

import (
	"archive/tar"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// archiveTree is a machine in an archive of testdata, unpacked into a folder that Close removes.
type archiveTree struct {
	rootTree
	folder string
}

func (t archiveTree) Close() error { return errors.Join(t.rootTree.Close(), os.RemoveAll(t.folder)) }

// readArchive opens a machine in an archive: a .tar.gz of ghw-snapshot or a .tar.bz2 of hwloc-gather-topology.
func readArchive(name string) (Opened, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()

	unpacked := io.Reader(bzip2.NewReader(f))
	if !strings.HasSuffix(name, ".bz2") {
		if unpacked, err = gzip.NewReader(f); err != nil {
			return nil, err
		}
	}
	folder, err := os.MkdirTemp("", "archive-")
	if err != nil {
		return nil, err
	}
	if err := unpack(tar.NewReader(unpacked), folder); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}

	root := folder
	if one, _ := filepath.Glob(folder + "/*"); len(one) == 1 { // the folder that hwloc puts around a machine
		root = one[0]
	}
	opened, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}

	return archiveTree{rootTree{opened}, folder}, nil
}

// unpack writes files and links of an archive into a folder. Links are made last: no file is written through one.
func unpack(archive *tar.Reader, folder string) error {
	links := map[string]string{}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}

		target := filepath.Join(folder, header.Name)
		switch header.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(target, 0o700)
		case tar.TypeSymlink:
			links[target] = header.Linkname
		case tar.TypeReg:
			var data []byte
			if data, err = io.ReadAll(archive); err == nil {
				err = errors.Join(os.MkdirAll(filepath.Dir(target), 0o700), os.WriteFile(target, data, 0o600))
			}
		}
		if err != nil {
			return err
		}
	}

	for target, to := range links {
		if err := errors.Join(os.MkdirAll(filepath.Dir(target), 0o700), os.Symlink(to, target)); err != nil {
			return err
		}
	}

	return nil
}
