package lang

import (
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"golang.org/x/tools/txtar"

	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// fake declares a stage type as a site sees it; no code of a phase runs in this package.
type fake struct{ spec stages.Spec }

func (f fake) Spec() stages.Spec                { return f.spec }
func (f fake) Outputs(stages.Declared) cty.Type { return cty.EmptyObject }

func text(name string) schema.Field { return schema.Attr[string]{Name: name, Doc: "A text."} }
func anything(name string) schema.Field {
	return schema.Attr[cty.Value]{Name: name, Doc: "Any value."}
}

func fakes() []stages.Stage {
	name := []string{"name"}
	return []stages.Stage{
		fake{
			stages.Spec{
				Block:     schema.Block{Type: "fetch-ca"},
				Phase:     schema.Gather,
				Singleton: true,
				Timeout:   time.Minute,
			},
		},
		fake{
			stages.Spec{
				Block: schema.Block{
					Type:   "fetch-config",
					Fields: []schema.Field{text("config_map"), text("file"), anything("optional")},
				},
				Phase:   schema.Gather,
				ForEach: true,
				Timeout: time.Minute,
			},
		},
		fake{
			stages.Spec{
				Block: schema.Block{
					Type: "detect-hw",
					Blocks: []schema.Block{
						{Type: "wait", Max: 1, Fields: []schema.Field{anything("links"), text("timeout")}},
					},
				},
				Phase:     schema.Gather,
				Singleton: true,
				Timeout:   time.Minute,
			},
		},
		fake{stages.Spec{Block: schema.Block{
			Type: "reserve",
			Fields: []schema.Field{
				schema.Attr[string]{Name: "policy", Doc: "The formula.", Required: true},
				anything("max_pods"),
				anything("floor"),
				anything("cap"),
			},
			Blocks: []schema.Block{
				{Type: "static", Max: 1, Fields: []schema.Field{text("cpu"), text("memory")}},
				{Type: "remainder", Max: 1, Fields: []schema.Field{text("cpus"), text("memory")}},
				{Type: "topology", Max: 1, Fields: []schema.Field{anything("cores"), text("spread")}},
			},
		}, Phase: schema.Decide, Singleton: true}},
		fake{
			stages.Spec{
				Block: schema.Block{
					Type:   "label",
					Fields: []schema.Field{anything("labels"), anything("from_detectors")},
				},
				Phase:   schema.Decide,
				ForEach: true,
			},
		},
		fake{
			stages.Spec{
				Block:   schema.Block{Type: "taint", Fields: []schema.Field{anything("taints")}},
				Phase:   schema.Decide,
				ForEach: true,
			},
		},
		fake{stages.Spec{Block: schema.Block{Type: "write", Blocks: []schema.Block{
			{
				Type:    "kubelet_config",
				Max:     1,
				ForEach: true,
				Fields:  []schema.Field{anything("base"), anything("patch")},
			},
			{
				Type:    "kubelet_flags",
				Max:     1,
				ForEach: true,
				Fields:  []schema.Field{anything("base"), text("path"), text("variable")},
			},
			{
				Type:    "file",
				Labels:  name,
				ForEach: true,
				Fields: []schema.Field{
					schema.Attr[string]{Name: "path", Doc: "Where.", Required: true},
					text("content"),
					text("mode"),
					anything("create_only"),
				},
			},
			{Type: "directory", Labels: name, ForEach: true, Fields: []schema.Field{text("path")}},
		}}, Phase: schema.Render, Singleton: true}},
		fake{
			stages.Spec{
				Block: schema.Block{Type: "restart", Fields: []schema.Field{text("unit")}, Blocks: []schema.Block{
					{Type: "verify", Max: 1, Fields: []schema.Field{text("settle"), text("timeout")}},
					{Type: "precondition", Fields: []schema.Field{anything("condition"), text("error_message")}},
				}},
				Phase:     schema.Render,
				Singleton: true,
				Timeout:   time.Minute,
			},
		},
	}
}

func options() Options { return Options{Stages: fakes(), Version: "0.3.1"} }

// siteFiles are the files of an archive, as a recording would hold them.
func siteFiles(a *txtar.Archive) (out []world.SiteFile) {
	for _, f := range a.Files {
		out = append(out, world.SiteFile{Name: f.Name, Text: string(f.Data)})
	}
	return out
}

func parseText(t testing.TB, archive string) (*Site, hcl.Diagnostics) {
	t.Helper()
	return Parse(siteFiles(txtar.Parse([]byte(archive))), options())
}

func mustParse(t testing.TB, archive string) *Site {
	t.Helper()
	s, diags := parseText(t, archive)
	if len(diags) > 0 {
		t.Fatal(show(diags))
	}
	return s
}

// show writes diagnostics one a line: CODE PLACE SUMMARY: DETAIL.
func show(ds hcl.Diagnostics) string {
	var b strings.Builder
	for _, d := range ds {
		at := "-"
		if d.Subject != nil {
			at = origin.Place(*d.Subject).String()
		}
		b.WriteString(string(origin.CodeOf(d)) + " " + at + " " + d.Summary + ": " + d.Detail + "\n")
	}
	return b.String()
}

// tree is a Files made of a map, with faults: mode bits, links, and names that cannot be read.
type tree map[string]node

type node struct {
	mode fs.FileMode
	text string // a file's, or where a link points
	err  error  // of every look at it
	size int64  // what Lstat says, if not the text's length
}

func (n node) info(name string) fs.FileInfo { return info{name, n} }

type info struct {
	name string
	node node
}

func (i info) Name() string { return i.name[strings.LastIndex(i.name, "/")+1:] }
func (i info) Size() int64 {
	if i.node.size > 0 {
		return i.node.size
	}
	return int64(len(i.node.text))
}
func (i info) Mode() fs.FileMode          { return i.node.mode }
func (i info) ModTime() time.Time         { return time.Time{} }
func (i info) IsDir() bool                { return i.node.mode.IsDir() }
func (i info) Sys() any                   { return nil }
func (i info) Type() fs.FileMode          { return i.node.mode.Type() }
func (i info) Info() (fs.FileInfo, error) { return i, nil }

func (t tree) at(name string) (node, error) {
	n, ok := t[name]
	if !ok {
		return node{}, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
	}
	return n, n.err
}

func (t tree) Lstat(name string) (fs.FileInfo, error) {
	n, err := t.at(name)
	if err != nil {
		return nil, err
	}
	return n.info(name), nil
}

func (t tree) Readlink(name string) (string, error) {
	n, err := t.at(name)
	return n.text, err
}

// CheckTrusted knows names that everybody may write.
func (t tree) CheckTrusted(name string) error {
	if n := t[name]; n.mode&fs.ModeSymlink == 0 && n.mode.Perm()&0o002 != 0 {
		return &nodefile.Loose{Path: name, Why: "can be written by everybody", Fix: "chmod o-w " + name}
	}
	return nil
}

// ReadDir lists in the order of Go's maps, which is none.
func (t tree) ReadDir(name string) (out []fs.DirEntry, err error) {
	for n := range t {
		if dir, _, ok := cutLast(n); ok && dir == name {
			out = append(out, info{n, t[n]})
		}
	}
	return out, nil
}

func (t tree) ReadFile(name string, _ int64) ([]byte, error) {
	n, err := t.at(name)
	return []byte(n.text), err
}

func cutLast(name string) (dir, base string, ok bool) {
	i := strings.LastIndex(name, "/")
	if i < 0 {
		return "", name, false
	}
	return name[:i], name[i+1:], true
}
