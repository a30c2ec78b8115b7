package lang

import (
	"io/fs"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"golang.org/x/tools/txtar"

	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/stages"
	"github.com/prelet/prelet/stages/builtin"
)

// fake declares a stage type as a site sees it; no code of a phase runs in this package.
type fake struct{ spec stages.Spec }

func (f fake) Spec() stages.Spec                { return f.spec }
func (f fake) Outputs(stages.Declared) cty.Type { return cty.EmptyObject }

func options() LoadOptions { return LoadOptions{Stages: builtin.Stages(), Version: "0.3.1"} }

// siteFiles are the files of an archive, as a recording would hold them.
func siteFiles(a *txtar.Archive) (out []tape.SiteFile) {
	for _, f := range a.Files {
		out = append(out, tape.SiteFile{Name: f.Name, Text: string(f.Data)})
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

type info struct {
	name string
	node node
}

func (i info) Name() string { return path.Base(i.name) }
func (i info) Size() int64 {
	if i.node.size > 0 {
		return i.node.size
	}
	return int64(len(i.node.text))
}
func (i info) Mode() fs.FileMode  { return i.node.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.node.mode.IsDir() }
func (i info) Sys() any           { return nil }

func (t tree) at(name string) (node, error) {
	n, ok := t[name]
	if !ok {
		return node{}, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
	}
	return n, n.err
}

func (t tree) Lstat(name string) (fs.FileInfo, error) {
	n, err := t.at(name)
	return info{name, n}, err
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
		if path.Dir(n) == name {
			out = append(out, fs.FileInfoToDirEntry(info{n, t[n]}))
		}
	}
	return out, nil
}

func (t tree) ReadFile(name string, _ int64) ([]byte, error) {
	n, err := t.at(name)
	return []byte(n.text), err
}
