package lang

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
)

const (
	imageFolder  = "/usr/lib/prelet/site"
	pulledFolder = "/var/lib/prelet/sites/sha256-00"
	runFolder    = "/run/prelet/site"
	etcFolder    = "/etc/prelet"
)

// fakeSignature signs a text in tests of this package, where no key is needed.
func fakeSignature(text []byte) []byte { return []byte("signed " + hash(string(text))) }

func verifyFake(text, signature []byte) error {
	if string(signature) != string(fakeSignature(text)) {
		return errors.New("the signature is not valid for this text")
	}

	return nil
}

// put puts a file into a tree; "" puts a mask.
func (t tree) put(name, text string) {
	t[path.Dir(name)] = node{mode: fs.ModeDir | 0o755}
	t[name] = node{mode: 0o644, text: text}
	if text == "" {
		t[name] = node{mode: fs.ModeSymlink | 0o777, text: "/dev/null"}
	}
}

func (t tree) putSigned(folder string, text []byte) {
	t.put(path.Join(folder, ListFile), string(text))
	t.put(path.Join(folder, SignatureFile), string(fakeSignature(text)))
}

// sign signs the layer of a folder.
func (t tree) sign(tb testing.TB, folder string, list SignedList) {
	tb.Helper()

	for _, name := range slices.Sorted(maps.Keys(t)) {
		switch n := t[name]; {
		case path.Dir(name) != folder || !IsSiteFile(name):
		case n.mode&fs.ModeSymlink != 0:
			list.Add(nil, path.Base(name))
		default:
			list.Add([]tape.SiteFile{{Name: name, Text: n.text}})
		}
	}
	text, err := list.Format()
	if err != nil {
		tb.Fatal(err)
	}
	t.putSigned(folder, text)
}

func signedOptions() LoadOptions {
	o := options()
	o.Verify = verifyFake

	return o
}

// loadSigned returns the refusals of a load, of the signature only.
func loadSigned(t tree, o LoadOptions) (*Site, hcl.Diagnostics) {
	s, diags := Load(t, o)

	return s, slices.DeleteFunc(diags, func(d *hcl.Diagnostic) bool { return d.Severity != hcl.DiagError })
}

// TestSignedLayers has one change of a site whose layers are each signed, and what is refused.
func TestSignedLayers(t *testing.T) {
	good := func(t *testing.T) tree {
		files := tree{}
		files.put(imageFolder+"/a.hcl", "locals { a = 1 }\n")
		files.put(imageFolder+"/b.hcl", "locals { b = 1 }\n")
		files.put(imageFolder+"/m.hcl", "locals { m = 1 }\n")
		files.put(pulledFolder+"/b.hcl", "locals { b = 2 }\n")
		files.put(pulledFolder+"/p.hcl", "locals { p = 1 }\n")
		files.put(runFolder+"/r.hcl", "locals { r = 1 }\n")
		files.put(etcFolder+"/e.hcl", "locals { e = 1 }\n")
		files.put(etcFolder+"/m.hcl", "")
		files.put(etcFolder+"/p.hcl", "locals { p = 2 }\n")
		files.sign(t, pulledFolder, SignedList{Name: "gpu", Ring: "canary", Counter: 7, NotBelow: 5})
		files.sign(t, runFolder, SignedList{Name: "run", Counter: 1})
		files.sign(t, etcFolder, SignedList{Name: "rack", Counter: 3})

		return files
	}
	whole := func(files tree, folder string, names ...string) {
		list := &SignedList{Counter: 9}
		for _, name := range names {
			list.Add([]tape.SiteFile{{Name: name, Text: files[name].text}})
		}
		text, _ := list.Format()
		files.putSigned(folder, text)
	}
	inEffect := []string{
		imageFolder + "/a.hcl", pulledFolder + "/b.hcl", runFolder + "/r.hcl", etcFolder + "/e.hcl", etcFolder + "/p.hcl",
	}
	const everything = "gpu, counter 7 run, counter 1 rack, counter 3"

	for name, test := range map[string]struct {
		change func(tree)
		want   string // the lists that were accepted; or, after !, a part of the error
	}{
		"as signed": {func(tree) {}, everything},
		"image: changed, added, removed": {func(f tree) {
			f.put(imageFolder+"/a.hcl", "locals {}\n")
			f.put(imageFolder+"/z.hcl", "locals {}\n")
			delete(f, imageFolder+"/m.hcl")
		}, everything},
		"image: only it": {func(f tree) {
			for name := range f {
				if !strings.HasPrefix(name, imageFolder) {
					delete(f, name)
				}
			}
			f[pulledFolder] = node{mode: fs.ModeDir | 0o755}
		}, ""},
		"image: only it, and empty": {func(f tree) {
			clear(f)
			f[pulledFolder] = node{mode: fs.ModeDir | 0o755}
		}, "!No *.hcl"},

		"pulled: changed": {func(f tree) { f.put(pulledFolder+"/b.hcl", "locals {}\n") },
			"!The layer " + pulledFolder + " is not the signed one (gpu, counter 7): " + pulledFolder + "/b.hcl was changed. " +
				"Restore these files, or sign the layer again: prelet site sign"},
		"pulled: changed where a later layer hides it": {func(f tree) { f.put(pulledFolder+"/p.hcl", "locals {}\n") },
			"!" + pulledFolder + "/p.hcl was changed"},
		"pulled: added":   {func(f tree) { f.put(pulledFolder+"/z.tftpl", "x") }, "!" + pulledFolder + "/z.tftpl is not listed"},
		"pulled: removed": {func(f tree) { delete(f, pulledFolder+"/b.hcl") }, "!b.hcl is listed, and is missing. "},
		"pulled: masks":   {func(f tree) { f.put(pulledFolder+"/a.hcl", "") }, "!/a.hcl masks a file, and is not listed as a mask"},
		"pulled: without files": {func(f tree) {
			delete(f, pulledFolder+"/b.hcl")
			delete(f, pulledFolder+"/p.hcl")
		}, "!b.hcl is listed, and is missing; p.hcl is listed, and is missing"},
		"pulled: without a list": {func(f tree) { delete(f, pulledFolder+"/"+ListFile) },
			"!The layer " + pulledFolder + " has files of a site (b.hcl; p.hcl), and no site.sha256."},
		"pulled: missing": {func(f tree) {
			for name := range f {
				if strings.HasPrefix(name, pulledFolder) {
					delete(f, name)
				}
			}
		}, "!Cannot read " + pulledFolder},
		"pulled: the list of another layer": {func(f tree) {
			f[pulledFolder+"/"+ListFile] = f[runFolder+"/"+ListFile]
			f[pulledFolder+"/"+SignatureFile] = f[runFolder+"/"+SignatureFile]
		}, "!(run, counter 1): " + pulledFolder + "/b.hcl is not listed"},

		"run: without a signature": {func(f tree) { delete(f, runFolder+"/"+SignatureFile) },
			"!site.sha256.sig is missing next to it; sign the layer: prelet site sign"},
		"run: another signature": {func(f tree) { f[runFolder+"/"+SignatureFile] = f[etcFolder+"/"+SignatureFile] },
			"!the signature is not valid for this text"},
		"run: a list of all layers": {func(f tree) { whole(f, runFolder, inEffect...) },
			"!so it is of all layers together, and not of " + runFolder + " alone. Sign that layer: prelet site sign"},
		"run: removed with its list": {func(f tree) {
			for name := range f {
				if strings.HasPrefix(name, runFolder) {
					delete(f, name)
				}
			}
		}, "gpu, counter 7 rack, counter 3"},

		"etc: a mask removed": {func(f tree) { delete(f, etcFolder+"/m.hcl") }, "!m.hcl is listed as a mask, and is not one"},
		"etc: an empty file in place of a mask": {func(f tree) {
			f[etcFolder+"/m.hcl"] = node{mode: 0o644}
		}, "!" + etcFolder + "/m.hcl is not listed; m.hcl is listed as a mask"},
		"etc: a mask in place of a file": {func(f tree) { f.put(etcFolder+"/e.hcl", "") },
			"!" + etcFolder + "/e.hcl masks a file, and is not listed as a mask; e.hcl is listed, and is missing"},
		"etc: a test changed": {func(f tree) { f.put(etcFolder+"/x.prelettest.hcl", "x") }, everything},
		"etc: a list of all layers": {func(f tree) { whole(f, etcFolder, inEffect...) },
			"all layers, counter 9"},
		"etc: a list of all layers, the image changed": {func(f tree) {
			whole(f, etcFolder, inEffect...)
			f.put(imageFolder+"/a.hcl", "locals {}\n")
		}, "!The site is not the signed one: " + imageFolder + "/a.hcl was changed"},
		"image: an old list of its own": {func(f tree) { whole(f, imageFolder, imageFolder+"/a.hcl") }, everything},
	} {
		t.Run(name, func(t *testing.T) {
			files := good(t)
			test.change(files)
			o := signedOptions()
			o.Pulled = pulledFolder
			checkLists(t, files, o, test.want)
		})
	}
}

// checkLists checks which lists are accepted, or what the error contains.
func checkLists(t *testing.T, files tree, o LoadOptions, want string) {
	t.Helper()

	s, errs := loadSigned(files, o)
	if part, isRefused := strings.CutPrefix(want, "!"); isRefused {
		if len(errs) != 1 || !strings.Contains(show(errs), part) {
			t.Errorf("Load: got errors\n%s\nwant one with %q", show(errs), part)
		}

		return
	}

	var got []string
	for _, l := range s.SignedLists() {
		got = append(got, l.String())
	}
	if len(errs) > 0 || strings.Join(got, " ") != want {
		t.Errorf("Load: got the lists %q, errors\n%s\nwant %q and none", got, show(errs), want)
	}
}

// TestSignedConfig checks layers of --config: folders, files in one folder, the image's folder.
func TestSignedConfig(t *testing.T) {
	files := tree{}
	files.put(imageFolder+"/a.hcl", "locals { a = 1 }\n")
	files.put("one/b.hcl", "locals { b = 1 }\n")
	files.put("one/c.hcl", "locals { c = 1 }\n")
	files.put("two/c.hcl", "locals { c = 2 }\n")
	files.put("none/d.hcl", "locals { d = 1 }\n")
	files.sign(t, "one", SignedList{Name: "one", Counter: 1})
	files.sign(t, "two", SignedList{Name: "two", Counter: 1})

	for paths, want := range map[string]string{
		"one two":                     "one, counter 1 two, counter 1",
		"one one":                     "one, counter 1",
		"two one/c.hcl one/b.hcl":     "two, counter 1 one, counter 1",
		"two one/c.hcl":               "!b.hcl is listed, and is missing",
		imageFolder + " two":          "two, counter 1",
		"none two":                    "!The layer none has files of a site (d.hcl), and no site.sha256",
		"none":                        "!The layer none has files of a site",
		imageFolder + "/a.hcl":        "",
		"none/d.hcl " + imageFolder:   "!The layer none has",
		imageFolder + "/../site/ two": "two, counter 1",
	} {
		o := signedOptions()
		o.Paths = strings.Fields(paths)
		t.Run(paths, func(t *testing.T) { checkLists(t, files, o, want) })
	}
}

// TestSignedRandomLayers checks that random layers with lists of their own are accepted, and that no edit of a file in
// one of them is, nor a file more or less.
func TestSignedRandomLayers(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 2))
		folders := []string{"image", "one", "two", "three"}[:2+r.IntN(3)]
		files := place(randomLayers(r, len(folders)), folders)
		for n, folder := range folders {
			files.sign(t, folder, SignedList{Name: fmt.Sprintf("layer-%d", n), Counter: 1 + r.Uint64N(9)})
		}
		o := signedOptions()
		o.Paths = folders
		if _, errs := loadSigned(files, o); len(errs) > 0 {
			t.Fatalf("seed %d: got %s, want no errors", seed, show(errs))
		}

		edited := maps.Clone(files)
		what := editLayer(r, edited, folders[r.IntN(len(folders))])
		_, errs := loadSigned(edited, o)
		if len(errs) != 1 || origin.CodeOf(errs[0]) != fault.SiteSignature {
			t.Errorf("seed %d, %s: got %s, want one refusal of the signature", seed, what, show(errs))
		}
	}
}

// editLayer makes one random edit in a folder, and describes it.
func editLayer(r *rand.Rand, files tree, folder string) string {
	var names []string
	for name := range files {
		if path.Dir(name) == folder {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	name := names[r.IntN(len(names))]
	n := files[name]

	if n.mode&fs.ModeSymlink != 0 {
		files[name] = node{mode: 0o644, text: "locals {}\n"}
		return "a file in place of the mask " + name
	}
	switch r.IntN(5) {
	case 0:
		files.put(path.Join(folder, "more.hcl"), "locals {}\n")
		return "a file more in " + folder
	case 1:
		if path.Base(name) != ListFile {
			delete(files, name)
			return "without " + name
		}
	case 2:
		if IsSiteFile(name) {
			files.put(name, "")
			return "a mask in place of " + name
		}
	case 3:
		files.put(path.Join(folder, "m-more.hcl"), "")
		return "a mask more in " + folder
	}

	text := []byte(n.text)
	text[r.IntN(len(text))] ^= 1 << r.IntN(7)
	files[name] = node{mode: n.mode, text: string(text)}

	return "a bit of " + name
}

// FuzzList: a list that is accepted is the same after it was written and read again.
func FuzzList(f *testing.F) {
	f.Add("# counter: 3\n" + listLine("a.hcl", "a"))
	f.Add("# name: a\n# ring: b\n# repository: a.b:5/c\n# counter: 3\n# not-below: 2\n# expires: 2027-01-31T12:00:00+01:00\n" +
		"# mask: m.hcl\n# mask: b.hcl\n" + listLine("b.hcl", "a"))
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseList([]byte(text))
		if err != nil {
			return
		}
		first, err := list.Format()
		if err != nil {
			if !strings.Contains(text, "\\") {
				t.Fatalf("Format after ParseList(%q): got %v, want nil", text, err)
			}
			return
		}
		again, err := ParseList(first)
		if err != nil {
			t.Fatalf("ParseList(%q): got %v, want nil", first, err)
		}
		second, err := again.Format()
		if d := cmp.Diff(string(first), string(second)); d != "" || err != nil {
			t.Fatalf("Format: got %v, and (-first +second):\n%s", err, d)
		}
	})
}
