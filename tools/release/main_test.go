package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func TestMistakes(t *testing.T) {
	for want, args := range map[string][]string{
		"wrong arguments":   {"sign"},
		"SOURCE_DATE_EPOCH": {"none", "1", "amd64=none"},
	} {
		t.Setenv("SOURCE_DATE_EPOCH", "")
		if err := run(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("release %s: got %v, want an error with %q", args, err, want)
		}
	}
}

// Each architecture has its image, with prelet as the program, and a second run gives the same bytes.
func TestImage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dir := t.TempDir()
	root := filepath.Join(dir, "root.tar")
	if err := os.WriteFile(root, make([]byte, 1024), 0o600); err != nil { // an empty archive
		t.Fatal(err)
	}

	for _, name := range []string{"a", "b"} {
		args := []string{filepath.Join(dir, name), "1.2.3+dev", "amd64=" + root, "arm64=" + root}
		if err := run(args); err != nil {
			t.Fatalf("release %s: got %v, want no error", args, err)
		}
	}
	if got, want := readTree(t, filepath.Join(dir, "b")), readTree(t, filepath.Join(dir, "a")); !maps.Equal(got, want) {
		t.Errorf("the second run: got %q, want the same bytes as %q", got, want)
	}

	for _, arch := range []string{"amd64", "arm64"} {
		config := readImageConfig(t, filepath.Join(dir, "a"), arch)
		if got := config.Config.Entrypoint; len(got) != 1 || got[0] != "/usr/bin/prelet" {
			t.Errorf("%s: got the entrypoint %q, want /usr/bin/prelet", arch, got)
		}
		if got := config.Created.Unix(); got != 1700000000 {
			t.Errorf("%s: got the time %d, want 1700000000", arch, got)
		}
	}
}

// readTree returns the content of each file below a folder.
func readTree(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, folder)] = string(content)

		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	return files
}

// readImageConfig returns the configuration of an architecture's image in a layout of one index.
func readImageConfig(t *testing.T, folder, arch string) *v1.ConfigFile {
	t.Helper()
	path, err := layout.FromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	top, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	indexes, err := partial.FindIndexes(top, match.MediaTypes(string(types.OCIImageIndex)))
	if err != nil || len(indexes) != 1 {
		t.Fatalf("got %d indexes and %v, want one index", len(indexes), err)
	}
	images, err := partial.FindImages(indexes[0], match.Platforms(v1.Platform{OS: "linux", Architecture: arch}))
	if err != nil || len(images) != 1 {
		t.Fatalf("%s: got %d images and %v, want one image", arch, len(images), err)
	}
	config, err := images[0].ConfigFile()
	if err != nil {
		t.Fatal(err)
	}

	return config
}
