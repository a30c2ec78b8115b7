package lang

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/testing/table"
)

// layerModel is what a set of layers means, by rules that share nothing with find: layers are applied one after the
// other, each over the result of those before.
type layerModel struct {
	files  map[string]string // the layer of each file in effect, by name
	label  string            // of an argument that overrides replace
	zone   string            // of a variable of vars files
	hidden int               // files and masks that have no effect
	lost   int               // values of vars files that have no effect
}

// layerNames are the names of the files of random layers. The first declares what the others change.
var layerNames = []string{
	"00-base.hcl", "a.prelet.vars", "b.tftpl", "c.preletdata.json", "m-over.hcl", "n.preletvars.hcl", "z-over.hcl",
	"zz.prelet.vars",
}

// randomLayers returns layers as a map of names to texts, where the text of a mask is "".
func randomLayers(r *rand.Rand, count int) (out []map[string]string) {
	for n := range count {
		layer := map[string]string{}
		for _, name := range layerNames {
			isBase := name == layerNames[0]
			switch {
			case isBase && n == 0:
			case r.IntN(2) == 0:
				continue
			case !isBase && r.IntN(4) == 0:
				layer[name] = ""
				continue
			}
			value := fmt.Sprintf("%s-of-%d", strings.ReplaceAll(name, ".", "-"), n)
			switch {
			case isBase:
				layer[name] = "variable \"zone\" { default = \"none\" }\nstage \"label\" \"x\" { labels = { a = \"" +
					value + "\" } }\n"
			case IsVarsFile(name):
				layer[name] = fmt.Sprintf("zone = %q\n", value)
			case strings.HasSuffix(name, TemplateSuffix):
				layer[name] = value
			case isData(name):
				layer[name] = fmt.Sprintf("%q", value)
			default:
				layer[name] = "override {\n  stage \"label\" \"x\" { labels = { a = \"" + value + "\" } }\n}\n"
			}
		}
		out = append(out, layer)
	}

	return out
}

// model applies layers by its own rules.
func model(layers []map[string]string) layerModel {
	m := layerModel{files: map[string]string{}}
	for _, name := range layerNames {
		with := 0
		for n, layer := range layers {
			text, has := layer[name]
			switch {
			case !has:
				continue
			case text == "":
				delete(m.files, name)
			default:
				m.files[name] = fmt.Sprint(n)
			}
			with++
		}
		m.hidden += max(0, with-1)
	}

	values := 0
	for n := range layers {
		for _, name := range layerNames {
			if m.files[name] != fmt.Sprint(n) {
				continue
			}
			text := layers[n][name]
			_, value, _ := strings.Cut(text, "\"") // the first quoted text
			value, _, _ = strings.Cut(value, "\"")
			switch {
			case IsVarsFile(name):
				m.zone = value
				values++
			case strings.HasSuffix(name, "over.hcl"):
				m.label = text
			}
		}
	}
	m.lost = max(0, values-1)

	return m
}

// place puts layers into a file system, each into a folder.
func place(layers []map[string]string, folders []string) tree {
	out := tree{}
	for n, layer := range layers {
		out[folders[n]] = node{mode: fs.ModeDir | 0o755}
		for name, text := range layer {
			entry := node{mode: 0o644, text: text}
			if text == "" {
				entry = node{mode: fs.ModeSymlink | 0o777, text: "/dev/null"}
			}
			out[path.Join(folders[n], name)] = entry
		}
	}

	return out
}

// TestLayers checks random sets of layers against a model, given by --config and, up to three, below a root.
func TestLayers(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		layers := randomLayers(r, 1+r.IntN(5))
		want := model(layers)

		given := []string{"z/first", "y", "x", "w", "a/last"}[:len(layers)] // not in the order of their names
		checkLayers(t, seed, place(layers, given), LoadOptions{Paths: given}, given, want)
		if len(layers) <= 3 {
			folders := DefaultLayers("/root")[3-len(layers):]
			checkLayers(t, seed, place(layers, folders), LoadOptions{Root: "/root"}, folders, want)
		}
	}
}

// checkLayers checks a site in folders against a model.
func checkLayers(t *testing.T, seed uint64, files tree, o LoadOptions, folders []string, want layerModel) {
	t.Helper()

	o.Stages = options().Stages
	s, diags := Load(files, o)
	if diags.HasErrors() {
		t.Fatalf("seed %d, %q: got %s, want no errors", seed, folders, show(diags))
	}

	inEffect := map[string]string{}
	hidden := 0
	for n, l := range s.Layers {
		for _, f := range l.Files {
			switch f.State {
			case InEffect:
				inEffect[path.Base(f.Path)] = fmt.Sprint(n)
			case Hidden, Masked:
				hidden++
				if by := files[f.By]; (by.text == "/dev/null") != (f.State == Masked) {
					t.Errorf("seed %d: %s is %s by %s, which contains %q", seed, f.Path, f.State, f.By, by.text)
				}
			}
		}
	}
	if d := cmp.Diff(want.files, inEffect); d != "" {
		t.Errorf("seed %d, %q: files in effect by layer (-want +got):\n%s", seed, folders, d)
	}
	for name, of := range want.files {
		if strings.HasSuffix(name, TemplateSuffix) {
			got := s.Templates[name]
			v, _ := got.Value(nil)
			if !strings.HasSuffix(v.AsString(), "-of-"+of) {
				t.Errorf("seed %d: template %s: got %q, want that of layer %s", seed, name, v.AsString(), of)
			}
		}
	}

	for name, v := range s.Data {
		if of := want.files[name]; !strings.HasSuffix(v.AsString(), "-of-"+of) {
			t.Errorf("seed %d: data file %s: got %q, want that of layer %s", seed, name, v.AsString(), of)
		}
	}

	zone := ""
	if x := s.Values["zone"]; x != nil {
		v, _ := x.Value(nil)
		zone = v.AsString()
	}
	if zone != want.zone {
		t.Errorf("seed %d, %q: var.zone: got %q, want %q", seed, folders, zone, want.zone)
	}
	at := s.Stage("label.x").Body.Attributes["labels"].SrcRange
	if got := files[at.Filename].text; want.label != "" && got != want.label {
		t.Errorf("seed %d, %q: the label is that of:\n%s\nwant that of:\n%s", seed, folders, got, want.label)
	}

	notes := map[string]int{}
	for _, d := range diags {
		notes[origin.Severity(d)+" "+string(origin.CodeOf(d))]++
	}
	if got := notes["note layer-replaced"]; hidden != want.hidden || got != want.hidden+want.lost {
		t.Errorf("seed %d, %q: got %d files without effect and %d notes, want %d and %d more for values:\n%s",
			seed, folders, hidden, got, want.hidden, want.lost, show(diags))
	}
}

// TestLayerNotes checks that each file and value without effect is noted with both places.
func TestLayerNotes(t *testing.T) {
	files := place([]map[string]string{
		{"a.hcl": "variable \"zone\" {}\n", "b.hcl": "bad {", "zz.prelet.vars": "zone = \"image\"\n"},
		{"a.hcl": "variable \"zone\" {}\n", "b.hcl": "", "a.prelet.vars": "\nzone = \"etc\"\n"},
	}, []string{"/usr/lib/prelet/site", "/etc/prelet"})

	_, diags := Load(files, LoadOptions{Stages: options().Stages})

	want := `layer-replaced /usr/lib/prelet/site/a.hcl:1:1 A file is hidden: /etc/prelet/a.hcl, in a later layer, ` +
		`has the same name, so this one has no effect.
layer-replaced /usr/lib/prelet/site/b.hcl:1:1 A file is masked: /etc/prelet/b.hcl, in a later layer, is a link to ` +
		`/dev/null, so this one has no effect.
layer-replaced /usr/lib/prelet/site/zz.prelet.vars:1:1 A value of var.zone is replaced: The one at ` +
		`/etc/prelet/a.prelet.vars:2:1 wins: a later layer before an earlier one, and in a layer the later name.
`
	if d := cmp.Diff(want, show(diags)); d != "" {
		t.Errorf("notes (-want +got):\n%s", d)
	}
}

// TestNotRead checks that a file that may be meant for a site and has another name is a warning, wherever a site may
// be and also if nothing else is there, and that data which the site or its tests name is not.
func TestNotRead(t *testing.T) {
	const etc, run = "/etc/prelet/", "/run/prelet/site/"
	wrong := table.Lines(`
/etc/prelet/10-base.conf
/etc/prelet/50-site.tf
/etc/prelet/B.HCL
/etc/prelet/a.hcl.bak
/etc/prelet/b.hlc
/etc/prelet/prod.vars
/etc/prelet/site.json
/etc/prelet/site.prelet.var
/etc/prelet/site.tfvars
/etc/prelet/site.yaml
/etc/prelet/site.yml
/run/prelet/site/x.tftpl.old
`)
	right := table.Lines(`
/etc/prelet/.a.hcl.swp
/etc/prelet/a.hcl~
/etc/prelet/README.md
/etc/prelet/Makefile
/etc/prelet/ca.crt
/etc/prelet/detectors.lock.json
/etc/prelet/site.sha256
/etc/prelet/site.sha256.sig
/etc/prelet/kubelet.yaml
/etc/prelet/machine.json
/etc/prelet/gpus.json
`)
	files := folder("/etc/prelet", "/run/prelet/site", "/etc/prelet/tests")
	for _, name := range slices.Concat(wrong, right) {
		files.with(name, "")
	}
	list := func() (out []string) {
		_, diags := Load(files, LoadOptions{Stages: options().Stages})
		for _, d := range diags {
			if name, ok := strings.CutSuffix(d.Summary, " is not read"); ok && origin.Severity(d) == "warning" {
				out = append(out, name)
			}
		}
		slices.Sort(out)
		return out
	}

	without := slices.Sorted(slices.Values(slices.Concat(wrong, right[len(right)-3:])))
	if d := cmp.Diff(without, list()); d != "" {
		t.Errorf("without a site, warnings (-want +got):\n%s", d)
	}
	maps.Copy(files, tree{
		etc + "a.hcl":                      {mode: 0o644, text: "locals { a = file(\"/etc/prelet/kubelet.yaml\") }\n"},
		etc + "a.prelettest.hcl":           {mode: 0o644, text: `run "a" { hardware = "machine.json" }`},
		etc + "tests/b.prelettest.hcl":     {mode: 0o644, text: `run "a" { hardware = "../gpus.json" }`},
		etc + "tests/not-of-a-folder.yaml": {mode: 0o644, text: ""},
	})
	if d := cmp.Diff(wrong, list()); d != "" {
		t.Errorf("with a site, warnings (-want +got):\n%s", d)
	}
}
