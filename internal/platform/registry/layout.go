package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/oci"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// layout reads an OCI image layout. That of oras reads every manifest that the index has, in any depth and size.
type layout struct{ folder string }

// Resolve returns the manifest with a tag or a digest; for "" the only one.
func (l layout) Resolve(_ context.Context, name string) (none ocispec.Descriptor, err error) {
	var version ocispec.ImageLayout
	if err := l.decode(ocispec.ImageLayoutFile, &version); err != nil {
		return none, err
	}
	if version.Version != ocispec.ImageLayoutVersion {
		return none, refuse("%s has the version %q, and %s is known", ocispec.ImageLayoutFile, version.Version,
			ocispec.ImageLayoutVersion)
	}
	var index ocispec.Index
	if err := l.decode(ocispec.ImageIndexFile, &index); err != nil {
		return none, err
	}

	found := map[digest.Digest]ocispec.Descriptor{}
	for _, d := range index.Manifests {
		if name == "" || name == d.Annotations[ocispec.AnnotationRefName] || name == d.Digest.String() {
			found[d.Digest] = d
		}
	}
	if len(found) != 1 {
		return none, refuse("%s has %d manifests for %q, want one; its tags: %s",
			ocispec.ImageIndexFile, len(found), name, listTags(index.Manifests))
	}
	for _, d := range found {
		none = d
	}

	return none, nil
}

// listTags returns the tags of manifests for a message.
func listTags(all []ocispec.Descriptor) string {
	const most = 8
	var tags []string
	for _, d := range all {
		if tag := d.Annotations[ocispec.AnnotationRefName]; tag != "" && !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	slices.Sort(tags)
	if len(tags) > most {
		tags = append(tags[:most], "…")
	}

	return cmp.Or(strings.Join(tags, ", "), "none")
}

// decode reads a file of the layout itself.
func (l layout) decode(name string, into any) error {
	text, err := nodefile.ReadFile(filepath.Join(l.folder, name), MaxManifest)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return refuse("%s is not valid JSON: %s", name, err)
	}

	return nil
}

// Fetch returns the content of a descriptor, whose digest was checked.
func (l layout) Fetch(_ context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	name := filepath.Join(l.folder, ocispec.ImageBlobsDir, d.Digest.Algorithm().String(), d.Digest.Encoded())
	text, err := nodefile.ReadFile(name, max(d.Size, 1))

	return io.NopCloser(bytes.NewReader(text)), err
}

// push stores an archive with a tag. oras waits for files without an end: those that are not regular are refused, and
// it gets the time of one read for all of its own. A push that is given up ends with the process, and may be repeated.
func (l layout) push(ctx context.Context, tag string, archive []byte) (none ocispec.Descriptor, err error) {
	for _, name := range []string{ocispec.ImageLayoutFile, ocispec.ImageIndexFile} {
		info, err := nodefile.Stat(filepath.Join(l.folder, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return none, err
		case !info.Mode().IsRegular():
			return none, refuse("%s is a %s, and must be a file", name, nodefile.KindOf(info.Mode()))
		}
	}

	return nodefile.Within(l.folder, func() (none ocispec.Descriptor, err error) {
		to, err := oci.NewWithContext(ctx, l.folder)
		if err != nil {
			return none, err
		}

		return push(ctx, to, tag, archive)
	})
}
