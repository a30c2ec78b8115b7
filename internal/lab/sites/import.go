package sites

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/sites/importer"
	"github.com/prelet/prelet/internal/lab/userfile"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// ImportOptions are a file of another program and the site to make of it.
type ImportOptions struct {
	File       string   // a JoinConfiguration of kubeadm, or an init-config
	Dir        string   // where the site is written: a new folder, or an empty one
	Hashes     []string // pins of the cluster's CA; none: those of the file
	Servers    []string // HOST:PORT; none: those of the file
	Patches    string   // folder of kubeadm's patches; "": that of the file
	Credential string   // name of the systemd credential with the bootstrap token
}

// maxPatches is how many files of a folder of patches are read.
const maxPatches = 100

// Imported is a site that was made of a file. Where the diagnostics have errors, nothing was written.
type Imported struct {
	importer.Imported
	Path string // of the written file
}

// Import makes a site of a file of kubeadm or init-k8s-node.py, and writes it. It overwrites nothing. Where
// the site cannot be written, the result has the diagnostics all the same.
func Import(e *machine.Env, o ImportOptions) (Imported, error) {
	if err := o.check(); err != nil {
		return Imported{}, err
	}

	src, err := userfile.ReadInput(o.File, lang.MaxBytes)
	if err != nil {
		return Imported{}, fault.Usage.Errorf("%s: %s", o.File, nodefile.Reason(err))
	}
	if len(o.Hashes) == 0 && importer.IsInitConfig(src) {
		return Imported{}, fault.Usage.Errorf("--ca-cert-hash is missing: the pin of the cluster's CA.\n%s",
			importer.CAHashHelp)
	}

	result := importer.Import(o.File, src, importer.Values{
		Hashes:      o.Hashes,
		Servers:     o.Servers,
		Credential:  o.Credential,
		Patches:     o.Patches,
		Version:     e.Version,
		ReadPatches: readPatches,
	})
	out := Imported{Imported: result}
	if result.Diagnostics.HasErrors() {
		return out, nil
	}

	path := filepath.Join(o.Dir, importer.FileName)
	if err := userfile.Create(path, result.Text); err != nil {
		return out, fault.CannotWrite.Errorf("%s", err)
	}
	out.Path = path
	return out, nil
}

// check refuses options that are missing or not valid, and a folder that is not empty.
func (o ImportOptions) check() error {
	for _, h := range o.Hashes {
		if err := importer.CheckHash(h); err != nil {
			return fault.Usage.Errorf("--ca-cert-hash: %s", err)
		}
	}
	if err := secret.CheckCredentialName(o.Credential); err != nil {
		return fault.Usage.Errorf("--token-credential: %s", err)
	}
	if o.Dir == "" {
		return fault.Usage.Errorf("--out is missing: the folder for the site, new or empty")
	}

	return checkNewFolder("--out", o.Dir)
}

// checkNewFolder refuses a folder that is not new and not empty.
func checkNewFolder(name, dir string) error {
	entries, err := nodefile.ReadDir(dir)
	switch {
	case err == nil && len(entries) > 0:
		return fault.Usage.Errorf(
			"%s %s: the folder is not empty, and nothing is overwritten; name a new one",
			name,
			dir,
		)
	case errors.Is(err, syscall.ENOTDIR):
		return fault.Usage.Errorf("%s %s: this is a file; name a folder that is new or empty", name, dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fault.CannotWrite.Errorf("%s %s: %s", name, dir, err)
	}
	return nil
}

// readPatches returns the files of a folder and of those below it, as kubeadm finds them.
func readPatches(dir string) ([]importer.PatchFile, error) {
	names, err := nodefile.Within(dir, func() ([]string, error) { return listPatches(dir) })
	if err != nil {
		return nil, err
	}

	files := make([]importer.PatchFile, 0, len(names))
	for _, name := range names {
		text, err := userfile.Read(name, lang.MaxBytes)
		if err != nil {
			return nil, err
		}
		files = append(files, importer.PatchFile{Name: name, Text: text})
	}

	return files, nil
}

// listPatches returns the names of the files, in the order of their folders.
func listPatches(dir string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
			return err
		case len(names) == maxPatches:
			return fmt.Errorf("%s has more than %d files", dir, maxPatches)
		}
		names = append(names, path)

		return nil
	})

	return names, err
}
