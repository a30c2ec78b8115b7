// Package repository reads .prelet.hcl, the file of a repository of sites with defaults for flags: layers, machines,
// objects, kubelets. No command that changes a node may use it. It is not part of a site, whose files do not begin with
// a dot.
package repository

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/kubelet/known"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/registry"
	"github.com/prelet/prelet/schema"
)

const Name = lang.RepositoryFile

// The arguments of the file.
var (
	layersAttr = schema.Attr[[]string]{
		Name: "layers", Type: cty.List(cty.String), Required: true, Const: true,
		Doc: "The folders and files of the site, as for `--config`, and references, `oci://…` or `oci-layout:…`: a " +
			"later one wins.",
	}
	machinesAttr = schema.Attr[[]string]{
		Name: "machines", Type: cty.List(cty.String), Const: true,
		Doc: "Globs of recordings, of folders with recordings, and of recorded machines: trees, and facts as " +
			"`prelet detect -o json` prints them.",
	}
	objectsAttr = schema.Attr[string]{
		Name: "objects", Const: true,
		Doc: "The folder with the objects of the cluster, as for `--objects`, for machines that are not recordings.",
	}
	kubeletsAttr = schema.Attr[[]string]{
		Name: "kubelets", Type: cty.List(cty.String), Const: true, Check: checkVersions,
		Doc: "The versions of kubelets that `validate` checks the site for. The first one is that of machines that " +
			"are not recordings.",
	}
)

// Block declares the arguments, for editors.
var Block = schema.Block{
	Type:   Name,
	Fields: []schema.Field{layersAttr, machinesAttr, objectsAttr, kubeletsAttr},
}

func checkVersions(all []string) error {
	for _, version := range all {
		if err := known.CheckVersion(version); err != nil {
			hint := ""
			if len(version) == len("1.3") { // as a number, 1.30 is 1.3
				hint = fmt.Sprintf("; a version is a text: write \"%s0\" with quotes", version)
			}
			return fmt.Errorf("%q: %w%s", version, err, hint)
		}
	}

	return nil
}

// File is the content of the file, with paths that can be opened. The zero value is that of no file.
type File struct {
	Path     string // "" for no file
	Layers   []string
	Objects  string
	Kubelets []string // versions
	Source   []byte

	MostMachines int // how many Machines returns; 0 for all

	machines schema.Value[[]string] // globs
}

// IsRecording reports whether a machine is a recording or a bundle.
func IsRecording(machine string) bool {
	return slices.ContainsFunc([]string{".prelet", ".prelet.gz", ".tar.gz"}, func(suffix string) bool {
		return strings.HasSuffix(machine, suffix)
	})
}

// IsOf reports whether there is a file, and it is in this folder.
func (f File) IsOf(folder string) bool {
	return f.Path != "" && filepath.Clean(folder) == filepath.Dir(f.Path)
}

// SiteOf returns the layers if a folder is one of them, contains one of their files, or is that of this file; else nil.
func (f File) SiteOf(folder string) []string {
	if f.Path == "" {
		return nil
	}
	isIn := func(path string) bool {
		x, err := filepath.Abs(path)
		y, errOf := filepath.Abs(folder)
		return err == nil && errOf == nil && (x == y || filepath.Dir(x) == y && filepath.Ext(x) == ".hcl")
	}
	if isIn(filepath.Dir(f.Path)) || slices.ContainsFunc(f.Layers, isIn) {
		return f.Layers
	}

	return nil
}

// Find returns the file of the repository that a folder is in: of the folder or of the nearest one above it. In the
// folders of a node's site, and below them, it is not searched.
func Find(files lang.Files, folder string) (File, hcl.Diagnostics) {
	for {
		abs, err := filepath.Abs(folder)
		if err != nil || slices.Contains(lang.DefaultLayers("/"), abs) {
			return File{}, nil
		}
		name := filepath.Join(folder, Name)
		if _, err := files.Lstat(name); err == nil {
			return read(files, name)
		}
		if abs == "/" {
			return File{}, nil
		}
		folder = filepath.Join(folder, "..")
	}
}

func read(files lang.Files, name string) (File, hcl.Diagnostics) {
	at := hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}
	err := files.CheckTrusted(name)
	var text []byte
	if err == nil {
		text, err = files.ReadFile(name, lang.MaxBytes)
	}
	if err != nil {
		return File{Path: name}, hcl.Diagnostics{origin.Error(fault.FileRefused, at, "Cannot read "+name,
			"%s. It names the layers and machines for commands in its folder.", err)}
	}

	return Parse(name, text)
}

// Parse returns the content of the file. Its paths are relative to its folder.
func Parse(name string, text []byte) (File, hcl.Diagnostics) {
	out := File{Path: name, Source: text}
	parsed, diags := lang.ParseFile(name, text)
	if diags.HasErrors() {
		return out, diags
	}
	body := parsed.Body.(*hclsyntax.Body)
	if diags := append(Block.Check(body, nil), lang.CheckConstants(Block, body)...); diags.HasErrors() {
		return out, diags
	}
	if diags := checkTexts(body, text); diags.HasErrors() {
		return out, diags
	}
	b, diags := Block.Decode(body, nil, eval.New(context.Background(), &lang.Site{}, nil).Scope(""))
	if diags.HasErrors() {
		return out, diags
	}

	d := decoder{folder: filepath.Dir(name)}
	out.Layers = d.expand(layersAttr.Of(b), "", func(path string) []string { return []string{path} })
	out.machines = machinesAttr.Of(b)
	out.Kubelets = kubeletsAttr.Of(b).V
	if v := objectsAttr.Of(b); v.Set() {
		out.Objects = d.join(v.V)
		if st, err := nodefile.Stat(out.Objects); err != nil || !st.IsDir() {
			d.Error(fault.Usage, v.Range, "No such folder", "%s is relative to the folder of this file.", v.V)
		}
	}

	return out, d.Diags
}

// checkTexts refuses values that are not texts, which Decode would make texts: true would be a folder, and 1.30 would
// be 1.3.
func checkTexts(body *hclsyntax.Body, source []byte) (diags hcl.Diagnostics) {
	for _, name := range slices.Sorted(maps.Keys(body.Attributes)) {
		a := body.Attributes[name]
		items := []hclsyntax.Expression{a.Expr}
		if list, isList := a.Expr.(*hclsyntax.TupleConsExpr); isList {
			items = list.Exprs
		}
		for _, item := range items {
			if v, _ := item.Value(nil); !v.IsNull() && v.Type() != cty.String {
				diags = append(diags, origin.Error(fault.WrongType, item.Range(), "Wrong type for "+name,
					"A folder, a file and a version are texts: write %q.", item.Range().SliceBytes(source)))
			}
		}
	}

	return diags
}

// Machines returns the machines of the file, each a recording, or a recorded machine. It searches for them.
func (f File) Machines() ([]string, hcl.Diagnostics) {
	d := decoder{folder: filepath.Dir(f.Path)}
	found := d.expand(f.machines,
		" A machine is a recording (*.prelet, *.prelet.gz), a folder with recordings, a folder "+
			"with sys and proc, or the output of prelet detect -o json (*.json).", listMachines)

	if f.MostMachines > 0 {
		found = found[:min(len(found), f.MostMachines)]
	}

	return found, d.Diags
}

// Glob returns the paths that a glob of the file means, or of a test in a folder. It searches no folder that the
// repository is in: these have the files of others, and may be large.
func Glob(folder, pattern string) ([]string, error) {
	top := findTop(folder)

	return nodefile.Root("").Glob(folder, pattern, func(searched string) error {
		if searched != top && strings.HasPrefix(top, strings.TrimSuffix(searched, "/")+"/") {
			return fmt.Errorf("it would search %s, which the repository %s is in", searched, top)
		}
		return nil
	})
}

// findTop returns the folder of the repository, which has .git, that a folder is in, or that folder. It has no links.
func findTop(folder string) string {
	look, err := nodefile.Find(folder, nodefile.FollowAll)
	if err != nil {
		return folder
	}
	defer look.Close()

	for top := look.Path(); top != "/"; top = filepath.Dir(top) {
		if _, err := nodefile.Stat(filepath.Join(top, ".git")); err == nil {
			return top
		}
	}

	return look.Path()
}

// decoder finds the paths of the file.
type decoder struct {
	folder string
	origin.Collector
}

func (d *decoder) join(path string) string {
	if filepath.IsAbs(path) {
		return path
	}

	return filepath.Join(d.folder, path)
}

// joinReference returns a reference of a site; one of a layout has its folder in front. A mistake in the reference is
// reported by the pull.
func (d *decoder) joinReference(text string) string {
	ref, err := registry.Parse(text)
	if err != nil || ref.Layout == "" {
		return text
	}
	ref.Layout = d.join(ref.Layout)

	return ref.String()
}

// expand returns the paths that match the globs of an argument, each once. A glob without a match is an error: a
// misspelt one would check nothing.
func (d *decoder) expand(v schema.Value[[]string], hint string, list func(path string) []string) (out []string) {
	for i, pattern := range v.V {
		if registry.IsReference(pattern) {
			out = append(out, d.joinReference(pattern))
			continue
		}
		matches, err := Glob(d.folder, pattern)
		var found []string
		for _, path := range matches {
			found = append(found, list(path)...)
		}
		if err != nil || len(found) == 0 {
			at := v.Range
			items, _ := hcl.ExprList(v.Expr)
			if i < len(items) {
				at = items[i].Range()
			}
			d.Error(fault.Usage, at, fmt.Sprintf("Nothing is found at %q", pattern),
				"The path is relative to the folder of this file.%s", d.explain(pattern, err, hint))
		}
		for _, path := range found {
			if !slices.Contains(out, path) {
				out = append(out, path)
			}
		}
	}

	return out
}

// explain returns why a glob matches nothing, and what to write.
func (d *decoder) explain(pattern string, err error, hint string) string {
	if err != nil {
		return fmt.Sprintf(" It is not searched: %v. Write the names of folders in place of signs, as in "+
			"machines/*.json.", err)
	}
	if facts, _ := Glob(d.folder, pattern+"/*.json"); len(facts) > 0 {
		return fmt.Sprintf(" This folder has files of facts: write %q.", strings.TrimSuffix(pattern, "/")+"/*.json")
	}

	return hint
}

// listMachines returns a machine, or the recordings in a folder.
func listMachines(path string) (out []string) {
	st, err := nodefile.Stat(path)
	_, notTree := nodefile.Stat(filepath.Join(path, "sys"))
	switch {
	case err != nil:
		return nil
	case st.IsDir() && notTree == nil, !st.IsDir() && (IsRecording(path) || filepath.Ext(path) == ".json"):
		return []string{path}
	case !st.IsDir():
		return nil
	}

	entries, _ := nodefile.ReadDir(path)
	for _, entry := range entries {
		if isBundle := strings.HasSuffix(entry.Name(), ".tar.gz"); IsRecording(entry.Name()) && !isBundle {
			out = append(out, filepath.Join(path, entry.Name()))
		}
	}

	return out
}
