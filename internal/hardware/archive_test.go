package hardware

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// packed makes an archive of headers; the text of a file stands in Uname, for want of a better place.
func packed(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	archive := tar.NewWriter(zip)
	for _, h := range entries {
		text := h.Uname
		h.Uname, h.Mode, h.Size = "", 0o644, int64(len(text))
		if err := archive.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArchive(t *testing.T) {
	m, err := readArchive(bytes.NewReader(packed(t,
		tar.Header{Typeflag: tar.TypeDir, Name: "./proc/"},
		tar.Header{Typeflag: tar.TypeReg, Name: "proc/meminfo", Uname: "MemTotal: 1 kB"},
		tar.Header{Typeflag: tar.TypeReg, Name: "sys/a/b/file", Uname: "text"},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "sys/link", Linkname: "a/../a/b"},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "sys/loop", Linkname: "loop"},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "sys/out", Linkname: "../../etc/passwd"},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "sys/absolute", Linkname: "/etc/passwd"},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "sys/nowhere", Linkname: "a/c"},
		tar.Header{Typeflag: tar.TypeFifo, Name: "sys/pipe"},
	)))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"sys/link/file": "text", "proc/meminfo": "MemTotal: 1 kB", "./sys/./a/b/../b/file": "text"} {
		if data, err := m.ReadFile(name, 100); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	if data, err := m.ReadFile("sys/a/b/file", 2); err != nil || string(data) != "te" {
		t.Errorf("a limit of 2 gives %q, %v", data, err)
	}
	for name, want := range map[string]error{"sys/out": errEscapes, "sys/absolute": errEscapes, "sys/nowhere": fs.ErrNotExist, "sys/pipe": fs.ErrNotExist,
		"sys/a": errNotRegular, "../x": errEscapes, "proc/meminfo/x": fs.ErrNotExist} {
		if _, err := m.ReadFile(name, 100); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if _, err := m.ReadFile("sys/loop", 100); err == nil || !strings.Contains(err.Error(), "symbolic links") {
		t.Errorf("loop: %v", err)
	}
	if target, err := m.ReadLink("sys/link"); err != nil || target != "a/../a/b" {
		t.Errorf("link: %q, %v", target, err)
	}
	if _, err := m.ReadLink("proc/meminfo"); err == nil {
		t.Error("a file is taken for a link")
	}
	if _, err := m.ReadDir("proc/meminfo"); err == nil {
		t.Error("a file is taken for a folder")
	}
}

func TestArchiveRefuses(t *testing.T) {
	many := make([]tar.Header, maxArchiveEntries+1)
	for i := range many {
		many[i] = tar.Header{Typeflag: tar.TypeDir, Name: "d"}
	}
	large := make([]byte, maxArchiveBytes+1)
	for name, data := range map[string][]byte{
		"a name that climbs":    packed(t, tar.Header{Typeflag: tar.TypeReg, Name: "sys/../../x"}),
		"an absolute name":      packed(t, tar.Header{Typeflag: tar.TypeReg, Name: "/etc/x"}),
		"a depth without sense": packed(t, tar.Header{Typeflag: tar.TypeReg, Name: strings.Repeat("a/", 100) + "b"}),
		"a file above a file":   packed(t, tar.Header{Typeflag: tar.TypeReg, Name: "a"}, tar.Header{Typeflag: tar.TypeReg, Name: "a/b"}),
		"a way through a link":  packed(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "/etc"}, tar.Header{Typeflag: tar.TypeReg, Name: "a/b"}),
		"too many entries":      packed(t, many...),
		"too many bytes":        packed(t, tar.Header{Typeflag: tar.TypeReg, Name: "a", Uname: string(large)}),
		"no gzip":               []byte("nothing"),
		"cut off":               packed(t, tar.Header{Typeflag: tar.TypeReg, Name: "a", Uname: strings.Repeat("x", 9000)})[:60],
	} {
		if _, err := readArchive(bytes.NewReader(data)); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestReadTreeSaysWhatItTakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "facts.json")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadTree(file); err == nil || !strings.Contains(err.Error(), "neither a folder nor a .tar.gz") {
		t.Errorf("a JSON file: %v", err)
	}
}

func FuzzReadArchive(f *testing.F) {
	f.Add(packed(f, tar.Header{Typeflag: tar.TypeReg, Name: "proc/meminfo", Uname: "MemTotal: 1 kB"},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "sys/x", Linkname: "../../proc"}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := readArchive(bytes.NewReader(data))
		if err != nil {
			return
		}
		checkInside(t, m)
	})
}

// FuzzReadTar leaves gzip's checksum out, which no random change survives.
func FuzzReadTar(f *testing.F) {
	var plain bytes.Buffer
	zip, err := gzip.NewReader(bytes.NewReader(packed(f, tar.Header{Typeflag: tar.TypeReg, Name: "proc/meminfo", Uname: "MemTotal: 1 kB"},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "sys/x", Linkname: "../../proc"}, tar.Header{Typeflag: tar.TypeDir, Name: "etc"})))
	if err != nil {
		f.Fatal(err)
	}
	if _, err := plain.ReadFrom(zip); err != nil {
		f.Fatal(err)
	}
	f.Add(plain.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := readTar(bytes.NewReader(data))
		if err != nil {
			return
		}
		checkInside(t, m)
		facts, err := Detect(context.Background(), Options{Tree: m})
		if err == nil && (facts.PCI == nil || facts.Unknown == nil) {
			t.Error("a collection is nil")
		}
	})
}

// checkInside walks all that was read: no name may climb, and no walk may end outside or never.
func checkInside(t *testing.T, m *memoryTree) {
	var walk func(name string, e *entry, depth int)
	walk = func(name string, e *entry, depth int) {
		if depth > maxArchiveDepth+1 {
			t.Fatalf("%s is deeper than %d", name, maxArchiveDepth)
		}
		if e.target != "" {
			_, _ = m.ReadFile(name, 1)
		}
		for child, below := range e.children {
			if child == "" || child == "." || child == ".." || strings.Contains(child, "/") {
				t.Fatalf("%q in %s", child, name)
			}
			walk(name+"/"+child, below, depth+1)
		}
	}
	walk(".", m.root, 0)
}
