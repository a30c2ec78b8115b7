package faults

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/script"
)

// TestRows plays the scripts of testdata/rows.txtar: each is a row of the matrix of disk faults, with the real binary
// on a file system of its own.
func TestRows(t *testing.T) {
	for _, s := range script.Load(t, "testdata/rows.txtar") {
		row(t, s.Name, func(t *testing.T) { newRowNode(t).Play(s.Lines) })
	}
}

func TestExamples(t *testing.T) {
	script.Examples(t, "faults", func(t *testing.T, lines []script.Line) { newRowNode(t).Play(lines) })
}

// rowNode plays scripts on a box, whose disk is made by the first command: mount / KIND.
type rowNode struct {
	*box
	*script.Player
	last ended // of prelet
}

func newRowNode(t *testing.T) *rowNode {
	r := &rowNode{}
	d := script.Disk{T: t, Path: func(name string) string {
		if !filepath.IsAbs(name) { // such as site.hcl
			return filepath.Join(r.dir, name)
		}

		return r.path(name)
	}}
	r.Player = script.New(t, script.Node{
		Name: "faults",
		Commands: script.Merge(d.Commands(), map[string]script.Command{
			"run":     func(a []string) error { return r.do(r.runs(a[0])) },
			"prelet":  r.prelet,
			"refused": r.refused,
			"site":    r.addFile,
			"limit":   r.limit,
			"mount": func(a []string) error {
				if r.box != nil {
					return d.Commands()["mount"](a)
				}

				if a[0] != "/" {
					return errors.New("got no disk yet, want one first: mount / KIND")
				}

				return r.makeDisk(a[1], strings.Join(a[2:], " "))
			},
		}),
		Facts: script.Merge(d.Facts(), map[string]script.Fact{
			"out":     {Get: func([]string) (string, error) { return r.last.output, nil }},
			"exit":    {Get: func([]string) (string, error) { return strconv.Itoa(r.last.exit), nil }},
			"version": {Get: func([]string) (string, error) { return r.version(), nil }},
		}),
	})

	return r
}

func (r *rowNode) makeDisk(kind, options string) error {
	switch t := r.T.(*testing.T); kind {
	case "tmpfs":
		r.box = onTmpfs(t, options, "")
	case "ext4":
		r.box, _ = onDisk(t, "")
	default:
		return script.Unknown("kind of disk", kind)
	}

	return nil
}

// do carries out a command of prelet.
func (r *rowNode) do(line []string) error {
	r.last = r.box.do(line)
	if r.last.exit != 0 {
		return fmt.Errorf("exit %d: %s", r.last.exit, r.last.output)
	}

	return nil
}

// prelet N COMMAND: it ends with N.
func (r *rowNode) prelet(a []string) error {
	_ = r.do(r.line(a[1], a[2:]...))
	if want := r.Number(a[0], 10); r.last.exit != want {
		return fmt.Errorf("got exit %d, want %d: %s", r.last.exit, want, r.last.output)
	}

	return nil
}

// refused TEXT COMMAND: the command ends with 40 and this text, and has changed nothing.
func (r *rowNode) refused(a []string) error {
	start := r.look()
	_ = r.Try(a[1:])
	if r.last.exit != 40 || !script.Mentions(r.last.output, a[0]) {
		return fmt.Errorf("got exit %d, want 40 and %q: %s", r.last.exit, a[0], r.last.output)
	}
	r.unchanged(start)

	return nil
}

// addFile file PATH CONTENT [N]: the site has one more file, whose content is the text N times.
func (r *rowNode) addFile(a []string) error {
	if a[0] != "file" {
		return script.Unknown("verb", a[0])
	}
	content := a[2]
	if len(a) > 3 {
		content = strings.Repeat(content, r.Number(a[3], 10))
	}
	r.site(fmt.Sprintf("file \"more\" {\n path = %q\n content = \"%s\"\n}\n", a[1], content))

	return nil
}

// limit size BYTES|none: of a file that prelet writes.
func (r *rowNode) limit(a []string) error {
	if a[0] != "size" {
		return script.Unknown("limit", a[0])
	}
	if r.before = nil; a[1] != "none" {
		r.before = []string{"prlimit", "--fsize=" + a[1]}
	}

	return nil
}
