package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// writeImage writes an image for several architectures as an OCI layout, the folder of an oci-archive. Each root is
// ARCH=FILE, a tar archive of all files of that architecture. All times are $SOURCE_DATE_EPOCH, in seconds.
func writeImage(folder, version string, roots []string) error {
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}

	var index v1.ImageIndex = empty.Index
	for _, root := range roots {
		arch, file, found := strings.Cut(root, "=")
		if !found {
			return fmt.Errorf("got %q, want ARCH=FILE", root)
		}
		image, err := makeImage(file, arch, version, time.Unix(epoch, 0).UTC())
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		platform := v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: platform})
	}

	path, err := layout.Write(filepath.Clean(folder), empty.Index)
	if err != nil {
		return err
	}

	tag := strings.ReplaceAll(version, "+", "-") // a tag has no "+"
	names := map[string]string{
		"org.opencontainers.image.ref.name": tag,
		"io.containerd.image.name":          "docker.io/library/prelet:" + tag,
	}

	return path.AppendIndex(mutate.IndexMediaType(index, types.OCIImageIndex), layout.WithAnnotations(names))
}

// makeImage makes an image of one layer, whose program is prelet.
func makeImage(file, arch, version string, created time.Time) (v1.Image, error) {
	layer, err := tarball.LayerFromFile(file, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), layer)
	if err != nil {
		return nil, err
	}

	layers, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}

	return mutate.ConfigFile(image, &v1.ConfigFile{
		OS:           "linux",
		Architecture: arch,
		Created:      v1.Time{Time: created},
		RootFS:       layers.RootFS,
		Config: v1.Config{
			Entrypoint: []string{"/usr/bin/prelet"},
			Env:        []string{"PATH=/usr/bin"},
			WorkingDir: "/workspace",
			Labels: map[string]string{
				"org.opencontainers.image.title":    "prelet",
				"org.opencontainers.image.version":  version,
				"org.opencontainers.image.source":   "https://github.com/prelet/prelet",
				"org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
	})
}
