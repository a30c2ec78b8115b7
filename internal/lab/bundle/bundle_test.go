package bundle

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write writes a bundle with one file.
func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "node.tar.gz")
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	b := Bundle{files: []file{{name, text}}}
	must(t, b.Encode(f))

	return path
}

func TestReadFile(t *testing.T) {
	path := write(t, "a", "text")
	if got, err := readFile(path, "a", 4); err != nil || string(got) != "text" {
		t.Errorf("a file: got %q, %v; want text", got, err)
	}
	if got, err := readFile(path, "a", 3); err == nil {
		t.Errorf("a file above the limit: got %q, want an error", got)
	}
	if _, err := readFile(path, "b", 4); !errors.Is(err, errNotBundled) {
		t.Errorf("another file: got error %v, want errNotBundled", err)
	}
}

// A recording behind more than is expanded is not looked for: a small file would keep a reader busy for long.
func TestBundleThatExpands(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.tar.gz")
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	zip := gzip.NewWriter(f)
	archive := tar.NewWriter(zip)
	must(t, archive.WriteHeader(&tar.Header{Name: folder + "large", Size: maxExpanded}))
	chunk := make([]byte, maxExpanded/64)
	for range 64 {
		if _, err := archive.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	must(t, errors.Join(archive.Close(), zip.Close()))

	const want = "it expands to more than 268435456 bytes"
	if _, err := ReadRecording(path); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a bundle of %d bytes and a header: got %v, want %q", int64(maxExpanded), err, want)
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
