package lab

import (
	"archive/tar"
	"context"
	"io/fs"
	"path"
	"slices"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/registry"
)

// pulledSites are the files of sites of registries, by the name of the folder that a site has in messages.
type pulledSites map[string][]registry.File

// UseReferences pulls the sites that Config names by a reference, and replaces each by a folder that only exists in
// memory. It prints which digest each of them has.
func (r *Request) UseReferences(ctx context.Context, e *machine.Env) error {
	if !slices.ContainsFunc(r.Config, registry.IsReference) {
		return nil
	}
	client, err := r.Registry.Client(e)
	if err != nil {
		return err
	}

	r.pulled = pulledSites{}
	r.Config = slices.Clone(r.Config)
	for i, text := range r.Config {
		if !registry.IsReference(text) {
			continue
		}
		ref, err := registry.Parse(text)
		if err != nil {
			return err
		}
		site, err := client.Pull(ctx, ref)
		if err != nil {
			return err
		}
		exact := ref.At(site.Digest)
		r.Config[i] = exact.Name() + "@" + site.Digest
		r.pulled[r.Config[i]] = site.Files
		r.References = append(r.References, exact.String())
		e.Say("using " + exact.String())
	}

	return nil
}

// IsPulled reports whether a path is the folder of a site that UseReferences has pulled.
func (r *Request) IsPulled(path string) bool { return r.pulled[path] != nil }

// withPulled is a file system with the folders of pulled sites.
type withPulled struct {
	lang.Files
	sites pulledSites
}

// find returns the header of a folder or a file of a pulled site, with its text.
func (w withPulled) find(name string) (*tar.Header, []byte, bool) {
	if w.sites[name] != nil {
		return &tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755}, nil, true
	}
	for _, f := range w.sites[path.Dir(name)] {
		if f.Name == path.Base(name) {
			return &tar.Header{Name: f.Name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(f.Text))}, f.Text, true
		}
	}

	return nil, nil, w.sites[path.Dir(name)] != nil
}

// Lstat is that of lang.Files.
func (w withPulled) Lstat(name string) (fs.FileInfo, error) {
	switch head, _, isOurs := w.find(name); {
	case head != nil:
		return head.FileInfo(), nil
	case isOurs:
		return nil, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
	}

	return w.Files.Lstat(name)
}

// ReadDir is that of lang.Files.
func (w withPulled) ReadDir(name string) (out []fs.DirEntry, err error) {
	files := w.sites[name]
	if files == nil {
		return w.Files.ReadDir(name)
	}
	for _, f := range files {
		st, err := w.Lstat(path.Join(name, f.Name))
		if err != nil {
			return nil, err
		}
		out = append(out, fs.FileInfoToDirEntry(st))
	}

	return out, nil
}

// CheckTrusted implements lang.Files. No other user can change files in memory.
func (w withPulled) CheckTrusted(name string) error {
	if _, _, isOurs := w.find(name); isOurs {
		return nil
	}

	return w.Files.CheckTrusted(name)
}

// ReadFile is that of lang.Files. A pulled site is smaller than a file may be.
func (w withPulled) ReadFile(name string, most int64) ([]byte, error) {
	switch head, text, isOurs := w.find(name); {
	case head != nil && int64(len(text)) <= most:
		return text, nil
	case isOurs:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}

	return w.Files.ReadFile(name, most)
}
