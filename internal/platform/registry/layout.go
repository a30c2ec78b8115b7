package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

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
		return none, refuse("%s has %d manifests for %q, want one", ocispec.ImageIndexFile, len(found), name)
	}
	for _, d := range found {
		none = d
	}

	return none, nil
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
