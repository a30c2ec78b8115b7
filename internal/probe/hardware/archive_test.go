package hardware

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// packed makes an archive of headers; the text of a file is in Uname, for lack of a better place.
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
	m, err := openArchive(bytes.NewReader(packed(t,
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
	defer m.Close()
	for name, want := range map[string]string{"sys/link/file": "text", "proc/meminfo": "MemTotal: 1 kB", "./sys/./a/b/../b/file": "text"} {
		if data, err := m.ReadFile(name, 100); err != nil || string(data) != want {
			t.Errorf("%s: got %q, %v; want its content", name, data, err)
		}
	}
	if data, err := m.ReadFile("sys/a/b/file", 2); err != nil || string(data) != "te" {
		t.Errorf("a limit of 2: got %q, %v; want two bytes", data, err)
	}
	for name, want := range map[string]error{"sys/out": errEscapes, "sys/absolute": errEscapes, "sys/nowhere": fs.ErrNotExist, "sys/pipe": fs.ErrNotExist,
		"sys/a": errNotRegular, "../x": errEscapes, "proc/meminfo/x": syscall.ENOTDIR} {
		if _, err := m.ReadFile(name, 100); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if _, err := m.ReadFile("sys/loop", 100); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("loop: got %v, want an error", err)
	}
	if target, err := m.ReadLink("sys/link"); err != nil || target != "a/../a/b" {
		t.Errorf("link: got %q, %v; want its target", target, err)
	}
	if _, err := m.ReadLink("proc/meminfo"); err == nil {
		t.Error("a file is taken for a link")
	}
	if _, err := m.ReadDir("proc/meminfo"); err == nil {
		t.Error("a file is taken for a folder")
	}
}

func TestArchiveRefuses(t *testing.T) {
	header := func(h tar.Header) []byte {
		var b bytes.Buffer
		if err := tar.NewWriter(&b).WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	folder := header(tar.Header{Typeflag: tar.TypeDir, Name: "d"})
	large := header(tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: maxArchiveBytes + 1})
	oneByte := header(tar.Header{Typeflag: tar.TypeDir, Name: "d", Size: 1})
	linkOf := func(size int64) []byte {
		return header(
			tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "x", Size: size, Format: tar.FormatGNU},
		)
	}
	for name, data := range map[string][]byte{
		"entries":                         bytes.Repeat(folder, maxArchiveEntries+1),
		"bytes":                           large,
		"bytes, more than a number holds": slices.Concat(oneByte, linkOf(math.MaxInt64)),
		"bytes, after a negative number":  slices.Concat(linkOf(-maxArchiveBytes), large),
	} {
		if _, err := openTar(bytes.NewReader(data)); err == nil ||
			!strings.Contains(err.Error(), "which is the limit") {
			t.Errorf("too many %s: got %v, want an error", name, err)
		}
	}
	file := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }
	link := func(name, target string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
	}
	long := strings.Repeat("n", 300)
	deep := strings.Repeat("a/", 100) + "b"
	cutOff := packed(t, tar.Header{Typeflag: tar.TypeReg, Name: "a", Uname: strings.Repeat("x", 9000)})[:60]
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"a name that climbs":          {packed(t, file("sys/../../x")), `entry "sys/../../x" is not inside the archive`},
		"an absolute name":            {packed(t, file("/etc/x")), `entry "/etc/x" is not inside the archive`},
		"many folders":                {packed(t, file(deep)), `entry "` + deep + `" is below 64 folders or more, which is not supported`},
		"a file above a file":         {packed(t, file("a"), file("a/b")), `entry "a/b" is below an entry that is not a folder`},
		"a file above a link":         {packed(t, file("a"), link("a/b", "x")), `entry "a/b" is below an entry that is not a folder`},
		"a file over a folder":        {packed(t, file("a/b"), file("a")), `entry "a" is also a folder with entries`},
		"a link over a folder":        {packed(t, file("a/b"), link("a", "c")), `entry "a" is also a folder with entries`},
		"a file below a link":         {packed(t, link("a", "/etc"), file("a/b")), `entry "a" is also a folder with entries`},
		"a link below a link outside": {packed(t, link("a", os.TempDir()), link("a/prelet-b", "x")), `entry "a/prelet-b" cannot be unpacked: a symbolic link leads out of the recorded tree`},
		"a long name":                 {packed(t, file(long)), `entry "` + long + `" cannot be unpacked: file name too long`},
		"a long name of a link":       {packed(t, link(long, "x")), `entry "` + long + `" cannot be unpacked: file name too long`},
		"not gzip":                    {[]byte("nothing is compressed here"), "gzip: invalid header"},
		"cut off":                     {cutOff, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			archive := filepath.Join(t.TempDir(), "machine.tar.gz")
			if err := os.WriteFile(archive, tt.data, 0o644); err != nil {
				t.Fatal(err)
			}
			want := "read recorded hardware " + archive + ": " + tt.want
			if _, err := ReadTree(archive); err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

// Of entries with one name the last counts, as for tar.
func TestArchiveWithOneNameTwice(t *testing.T) {
	entries := map[string]tar.Header{
		"file":   {Typeflag: tar.TypeReg, Name: "sys/a", Uname: "text"},
		"link":   {Typeflag: tar.TypeSymlink, Name: "sys/a", Linkname: "other"},
		"folder": {Typeflag: tar.TypeDir, Name: "sys/a/"},
	}
	whatIs := func(m Tree) string {
		if _, err := m.ReadLink("sys/a"); err == nil {
			return "link"
		}
		if data, err := m.ReadFile("sys/a", 100); err == nil && string(data) == "text" {
			return "file"
		}
		if _, err := m.ReadDir("sys/a"); err == nil {
			return "folder"
		}
		return "nothing"
	}
	for first := range entries {
		for last := range entries {
			m, err := openArchive(bytes.NewReader(packed(t, tar.Header{Typeflag: tar.TypeDir, Name: "./"},
				tar.Header{Typeflag: tar.TypeReg, Name: "proc/x"}, entries[first], entries[last])))
			if err != nil {
				t.Errorf("a %s and then a %s: got %v, want a %s", first, last, err, last)
				continue
			}
			if got := whatIs(m); got != last {
				t.Errorf("a %s and then a %s: got a %s, want a %s", first, last, got, last)
			}
			m.Close()
		}
	}
	// An archive cannot replace the folder that it is unpacked into.
	m, err := openArchive(bytes.NewReader(packed(t, tar.Header{Typeflag: tar.TypeReg, Name: "."}, entries["file"])))
	if err != nil {
		t.Fatalf("a file with the name .: got %v, want it left out", err)
	}
	defer m.Close()
	if got := whatIs(m); got != "file" {
		t.Errorf("after a file with the name .: got a %s, want a file", got)
	}
}

// Where the place has no room the message says which place it is and what to do, whatever was being written.
func TestArchiveWithoutRoom(t *testing.T) {
	t.Setenv("TMPDIR", "/scratch")
	const want = "the recorded hardware cannot be copied to /scratch (no space left on device; set TMPDIR to a " +
		"folder with room)"
	for _, err := range []error{
		&fs.PathError{Op: "write", Path: "/scratch/1/a", Err: syscall.ENOSPC},
		&os.LinkError{Op: "symlink", New: "/scratch/1/a", Err: syscall.ENOSPC},
	} {
		if got := entryError("a", err).Error(); got != want {
			t.Errorf("%T: got %q, want %q", err, got, want)
		}
	}
}

func TestReadTreeSaysWhatItTakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "facts.yaml")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadTree(file); err == nil || !strings.Contains(err.Error(), "neither a folder nor a .json") {
		t.Errorf("a YAML file: got %v, want an error that lists what it takes", err)
	}
}

func FuzzReadArchive(f *testing.F) {
	f.Add(packed(f, tar.Header{Typeflag: tar.TypeReg, Name: "proc/meminfo", Uname: "MemTotal: 1 kB"},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "sys/x", Linkname: "../../proc"}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := openArchive(bytes.NewReader(data))
		if err != nil {
			return
		}
		defer m.Close()
		checkInside(t, m)
	})
}

// FuzzArchiveNames makes well-formed archives of hostile names, for a tar's checksums survive no random change.
func FuzzArchiveNames(f *testing.F) {
	f.Add("proc/meminfo", "", byte(tar.TypeReg), "sys/x", "../../proc", byte(tar.TypeSymlink))
	f.Add("a", "b", byte(tar.TypeSymlink), "a/b", "", byte(tar.TypeReg))
	f.Add("\xff/a", "", byte(tar.TypeReg), "sys", "\xff", byte(tar.TypeSymlink))
	f.Add("./x/../..", "", byte(tar.TypeDir), "x//y", "/", byte(tar.TypeSymlink))
	f.Fuzz(func(t *testing.T, name1, link1 string, type1 byte, name2, link2 string, type2 byte) {
		var b bytes.Buffer
		archive := tar.NewWriter(&b)
		for _, h := range []tar.Header{
			{Name: "proc/meminfo", Typeflag: tar.TypeReg},
			{Name: name1, Linkname: link1, Typeflag: type1},
			{Name: name2, Linkname: link2, Typeflag: type2},
		} {
			if archive.WriteHeader(&h) != nil {
				return
			}
		}
		if archive.Close() != nil {
			return
		}
		m, err := openTar(&b)
		if err != nil {
			return
		}
		defer m.Close()
		checkInside(t, m)
		if _, err := Detect(context.Background(), Options{Tree: m}); err == nil {
			t.Error("a machine without memory has facts")
		}
	})
}

// checkInside reads all that was unpacked: nothing may be too deep, and every read ends.
func checkInside(t *testing.T, m Opened) {
	err := fs.WalkDir(m.(archiveTree).root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir // io/fs takes no name that is not UTF-8
		}
		if depth := strings.Count(name, "/"); depth > maxArchiveDepth {
			t.Fatalf("%s is deeper than %d", name, maxArchiveDepth)
		}
		_, _ = m.ReadFile(name, 1)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestReadTreeDoesNotWait refuses pipes and devices in place of a recorded machine: reading them would wait, or never end.
func TestReadTreeDoesNotWait(t *testing.T) {
	for _, name := range []string{"pipe", "pipe.tar.gz"} {
		pipe := filepath.Join(t.TempDir(), name)
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadTree(pipe); err == nil || !strings.Contains(err.Error(), "neither a folder nor a .json") {
			t.Errorf("%s: got %v, want an error that lists what it takes", name, err)
		}
	}
}
