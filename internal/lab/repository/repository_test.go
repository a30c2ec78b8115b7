package repository

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/internal/testing/table"
)

// The nearest file counts, and one that another user may change is refused, as a site's file is.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string, mode os.FileMode) {
		path := filepath.Join(dir, name)
		osfile.Write(t, path, text, 0o600)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	put(Name, "layers = [\"image\"]\n", 0o644)
	put("image/a.hcl", "", 0o644)
	put("ring/"+Name, "layers = [\"../image\", \".\"]\n", 0o644)
	put("ring/deep/a.hcl", "", 0o644)
	put("loose/"+Name, "layers = [\"../image\"]\n", 0o666)

	for _, c := range table.YAML[[]struct {
		Folder, File, Layers string
		Refused              bool
	}](t, `
- {folder: ., file: .prelet.hcl, layers: image}
- {folder: image, file: .prelet.hcl, layers: image}
- {folder: ring, file: ring/.prelet.hcl, layers: image ring}
- {folder: ring/deep, file: ring/.prelet.hcl, layers: image ring}
- {folder: loose, file: loose/.prelet.hcl, refused: true}
`) {
		found, diags := Find(lang.OS(), filepath.Join(dir, c.Folder))
		layers := strings.ReplaceAll(strings.Join(found.Layers, " "), dir+"/", "")
		if found.Path != filepath.Join(dir, c.File) || layers != c.Layers || diags.HasErrors() != c.Refused {
			t.Errorf("Find in %s: got %s with layers %q, %v; want %s with %q, refused: %t",
				c.Folder, found.Path, layers, diags, c.File, c.Layers, c.Refused)
		}
	}
	if found, diags := Find(lang.AnyOwner(), filepath.Join(dir, "loose")); len(found.Layers) != 1 || diags.HasErrors() {
		t.Errorf("Find of a file with any owner: got %v, %v; want one layer", found.Layers, diags)
	}
}

// The folders of a node's site, and what is below them, are in no repository, whatever is in them or above them.
func TestFindOnNode(t *testing.T) {
	for _, folder := range lang.DefaultLayers("/") {
		for _, below := range []string{"", "tests/deep"} {
			files := upTo{lang.OS(), folder}
			if found, diags := Find(files, filepath.Join(folder, below)); found.Path != "" || diags.HasErrors() {
				t.Errorf("Find in %s: got %s, %v; want no file", filepath.Join(folder, below), found.Path, diags)
			}
		}
	}
}

// TestOnlyTexts checks that a value that is not a text is not taken as the name of a folder, or as a version.
func TestOnlyTexts(t *testing.T) {
	for written, want := range map[string]string{
		"objects = 3":                   "2,11-12: Wrong type for objects",
		"objects = true":                "2,11-15: Wrong type for objects",
		"objects = -1":                  "2,11-13: Wrong type for objects",
		"machines = [\"a.json\", true]": "2,23-27: Wrong type for machines",
		"kubelets = [1.30]":             "2,13-17: Wrong type for kubelets",
	} {
		_, diags := Parse(filepath.Join(t.TempDir(), Name), []byte("layers = []\n"+written+"\n"))
		if !strings.Contains(diags.Error(), want) {
			t.Errorf("%s: got %v, want %q", written, diags, want)
		}
	}
}

// upTo has the file in a folder and in those above it.
type upTo struct {
	lang.Files
	folder string
}

func (f upTo) Lstat(name string) (fs.FileInfo, error) {
	if strings.HasPrefix(f.folder+"/", filepath.Dir(name)) {
		return os.Stat("/")
	}

	return nil, fs.ErrNotExist
}

// A glob names each machine once: recordings, folders with them, trees, and facts.
func TestMachines(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"fleet/a.prelet", "fleet/b.prelet.gz", "fleet/notes.txt", "fleet/c.tar.gz", "tree/sys/x", "hw/vm.json", "hw/notes.txt",
		"one.tar.gz", "empty/x.txt", "image/a.hcl",
	} {
		osfile.Write(t, filepath.Join(dir, name), "", 0o644)
	}

	for _, c := range table.YAML[[]struct{ Machines, Want, Place string }](t, `
- {machines: '["fleet"]', want: fleet/a.prelet fleet/b.prelet.gz}
- {machines: '["fleet", "fleet/*.prelet", "tree"]', want: fleet/a.prelet fleet/b.prelet.gz tree}
- {machines: '["hw/*", "*.tar.gz"]', want: hw/vm.json one.tar.gz}
- {machines: '[]'}
- {machines: '["hw/*", "empty"]', want: hw/vm.json, place: 2:21}
- {machines: '["hw/*", "[a"]', want: hw/vm.json, place: 2:21}
- {machines: '"hw"', place: 2:12}
- {machines: '["${var.x}"]', place: 2:12}
`) {
		text := "layers = [\"image\"]\nmachines = " + c.Machines + "\n"
		found, diags := Parse(filepath.Join(dir, Name), []byte(text))
		machines, more := found.Machines()
		diags = append(diags, more...)
		got := strings.ReplaceAll(strings.Join(machines, " "), dir+"/", "")
		place := ""
		for _, d := range diags {
			place = fmt.Sprintf("%d:%d", d.Subject.Start.Line, d.Subject.Start.Column)
		}
		if got != c.Want || place != c.Place {
			t.Errorf("machines = %s: got %s, %v at %q; want %s, an error at %q", c.Machines, got, diags, place, c.Want, c.Place)
		}
	}
}

// No glob searches a folder that the repository is in; the repository is the folder with .git above the file, or that of
// the file. A folder elsewhere that the glob names is searched, because somebody has written its name: a copy without
// .git may have its machines next to its rings.
func TestGlob(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"org/repo/.git/x", "org/repo/ring/.prelet.hcl", "org/repo/fleet/a.json", "org/bare/x.json",
		"org/other/c.json"} {
		osfile.Write(t, filepath.Join(dir, name), "", 0o644)
	}
	if err := os.Symlink("/", filepath.Join(dir, "org/repo/ring/all")); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct{ folder, pattern, want string }{
		{"org/repo/ring", "../fleet/*.json", "org/repo/fleet/a.json"},
		{"org/repo/ring", "../*/*.json", "org/repo/fleet/a.json"},
		{"org/repo/ring", "../../*/*.json", "would search " + dir + "/org,"},
		{"org/repo/ring", "/*/*/*/*.json", "would search /,"},
		{"org/repo/ring", "all/*/*", "would search /,"},
		{"org/repo/ring", "*/*/*", "would search /,"},
		{"org/bare", "*.json", "org/bare/x.json"},
		{"org/bare", "../other/*.json", "org/other/c.json"},
		{"org/bare", "../*/*.json", "would search " + dir + "/org,"},
	} {
		found, err := Glob(filepath.Join(dir, c.folder), c.pattern)
		got := strings.ReplaceAll(strings.Join(found, " "), dir+"/", "")
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s in %s: got %q; want %q", c.pattern, c.folder, got, c.want)
		}
	}

	name := filepath.Join(dir, "org/bare", Name)
	found, diags := Parse(name, []byte("layers = [\".\"]\nmachines = [\"/*/*/*\"]\n"))
	if diags.HasErrors() {
		t.Errorf("machines that are not used: got %v; want no search and no error", diags)
	}
	if _, diags := found.Machines(); !strings.Contains(diags.Error(), "would search /, which the repository") {
		t.Errorf("machines = /*/*/*: got %v; want an error", diags)
	}
}
