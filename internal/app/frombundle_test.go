package app

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/report"
)

// writeBundle writes a bundle with one file.
func writeBundle(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "node.tar.gz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := bundle{files: []bundleFile{{name, text}}}
	if err := b.encode(f); err != nil {
		t.Fatal(err)
	}

	return path
}

// A bundle may come from anyone: what is read of it is bounded, and an error names the bundle and the file.
func TestStatusOfForeignBundle(t *testing.T) {
	large := `{"format_version":1,"state":"ok","summary":"` + strings.Repeat("x", report.StatusLimit) + `"}`
	for name, c := range map[string]struct{ text, want string }{
		"damaged":   {"{", "status.json: unexpected end of JSON input"},
		"too large": {large, "status.json has 1048622 bytes; at most 1048576 are read"},
	} {
		path := writeBundle(t, report.StatusFile, c.text)
		got, err := (&Env{}).analyzeFrom(t.Context(), Where{From: path})
		if want := path + ": " + c.want; err != nil || !strings.HasPrefix(got.Problem, want) {
			t.Errorf("%s: got %q, %v; want %q and no error", name, got.Problem, err, want)
		}
	}
}

func TestReadFromBundle(t *testing.T) {
	path := writeBundle(t, "a", "text")
	if got, err := readFromBundle(path, "a", 4); err != nil || string(got) != "text" {
		t.Errorf("a file: got %q, %v; want text", got, err)
	}
	if got, err := readFromBundle(path, "a", 3); err == nil {
		t.Errorf("a file above the limit: got %q, want an error", got)
	}
	if _, err := readFromBundle(path, "b", 4); !errors.Is(err, errNotBundled) {
		t.Errorf("another file: got error %v, want errNotBundled", err)
	}
}

// A recording behind more than is expanded is not looked for: a small file would keep a reader busy for long.
func TestBundleThatExpands(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.tar.gz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip := gzip.NewWriter(f)
	archive := tar.NewWriter(zip)
	if err := archive.WriteHeader(&tar.Header{Name: bundleFolder + "large", Size: maxExpanded}); err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, maxExpanded/64)
	for range 64 {
		if _, err := archive.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}

	const want = "it expands to more than 268435456 bytes"
	if _, err := readBundledRecording(path); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a bundle of %d bytes and a header: got %v, want %q", int64(maxExpanded), err, want)
	}
}
