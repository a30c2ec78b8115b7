package effective

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/stages"
)

// ListDropIns returns the drop-ins in a folder of the image, as they are without prelet. A folder that the kubelet
// could not list is one with a refusal. read reads one of them.
func ListDropIns(dir string, list tape.DropInsAns, read func(path string) (string, error)) (out []stages.DropIn) {
	if list.Unlisted != "" {
		out = append(out, stages.DropIn{Path: dir, Refusal: errors.New(list.Unlisted)})
	}

	for _, file := range list.Paths {
		if text, err := read(file); !isUnknown(err) {
			out = append(out, parseDropIn(file, text, err))
		}
	}

	return out
}

// ParseCreated returns a drop-in with create_only by its text on the disk, or by the error of its read; exists is false
// if the plan makes it.
func ParseCreated(path, text string, err error) (d stages.DropIn, exists bool) {
	switch {
	case fault.CodeOf(err) == fault.Absent:
		return stages.DropIn{}, false
	case isUnknown(err):
		return stages.DropIn{Path: path}, true
	}

	return parseDropIn(path, text, err), true
}

// isUnknown reports whether an error says nothing on whether the kubelet can read a file: only prelet may not, or a
// recording does not have it.
func isUnknown(err error) bool {
	code := fault.CodeOf(err)
	return err != nil && (code == fault.Denied || code == fault.Unread)
}

// parseDropIn returns a drop-in of the image by its text, or by the error of its read.
func parseDropIn(path, text string, err error) stages.DropIn {
	var c *kubelet.Config
	if err == nil {
		c, err = kubelet.ParseDropIn(text)
	}

	return makeDropIn(path, c, err)
}

// parsePlanned returns the drop-in that a planned file is.
func parsePlanned(f desired.File) stages.DropIn {
	if f.Kind != desired.Regular {
		return stages.DropIn{Path: f.Path}
	}
	c, err := ParsePlannedDropIn(f.Text.Template())

	return makeDropIn(f.Path, c, err)
}

func makeDropIn(path string, c *kubelet.Config, err error) stages.DropIn {
	if err != nil {
		return stages.DropIn{Path: path, Refusal: err}
	}

	return stages.DropIn{Path: path, Config: c.Object()}
}

// ParsePlannedDropIn returns a planned drop-in of the kubelet's configuration, without the fields that have a secret,
// and empty if it has one and cannot be read before the commit.
func ParsePlannedDropIn(text string) (*kubelet.Config, error) {
	c, err := kubelet.ParseDropIn(text)
	switch {
	case !secret.HasPlaceholder(text):
		return c, err
	case err != nil:
		return kubelet.NewConfig(), nil
	}

	object := c.Object()
	dropPlaceholders(object)

	return kubelet.ConfigOf(object), nil
}

// dropPlaceholders removes the fields of an object that have a placeholder in them, also in their names.
func dropPlaceholders(object map[string]any) {
	for name, v := range object {
		child, isObject := v.(map[string]any)
		switch {
		case isObject:
			dropPlaceholders(child)
		case secret.HasPlaceholder(fmt.Sprint(v)):
			delete(object, name)
		}
		if secret.HasPlaceholder(name) {
			delete(object, name)
		}
	}
}

// putDropIn puts a drop-in at its place in the order of the kubelet, instead of one with its path.
func putDropIn(dropIns []stages.DropIn, d stages.DropIn) []stages.DropIn {
	at, isThere := slices.BinarySearchFunc(dropIns, d.Path, func(other stages.DropIn, path string) int {
		return CompareDropIns(other.Path, path)
	})
	if isThere {
		dropIns = slices.Delete(dropIns, at, at+1)
	}

	return slices.Insert(dropIns, at, d)
}

// CompareDropIns orders the paths of drop-ins as the kubelet walks over their folder: 10/a.conf before 10.conf.
func CompareDropIns(a, b string) int {
	return strings.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
}

// dropDeleted returns a configuration without the fields that settings delete.
func dropDeleted(config map[string]any, settings []desired.Setting) map[string]any {
	c := kubelet.NewConfig()
	if c.Merge(config) != nil {
		return config
	}
	for _, s := range settings {
		if s.Delete {
			_ = c.Set(s.Path, nil) // an error means that the field does not exist
		}
	}

	return c.Object()
}

// findLast returns the last drop-in that has a field; nil for none.
func findLast(dropIns []stages.DropIn, pointer string) *stages.DropIn {
	for i := range slices.Backward(dropIns) {
		if v, ok := kubelet.LookUp(dropIns[i].Config, pointer); ok && v != nil {
			return &dropIns[i]
		}
	}

	return nil
}

func hasValue(d stages.DropIn, s desired.Setting) bool {
	v, _ := kubelet.LookUp(d.Config, s.Pointer())

	return !s.Delete && fmt.Sprint(v) == fmt.Sprint(s.Value)
}

// checkReplaced warns of settings of the site that a later drop-in of the image replaces, and notes settings of
// the image that the site's drop-in replaces: the kubelet does both silently.
func checkReplaced(n desired.Node, dropIns []stages.DropIn) hcl.Diagnostics {
	var found origin.Collector
	own := slices.IndexFunc(dropIns, func(d stages.DropIn) bool {
		return d.Path == n.DropIn
	})
	for _, s := range n.Settings {
		name := strings.Join(s.Path, ".")
		at := s.FindRange(hcl.Range{})
		if later := findLast(dropIns[own+1:], s.Pointer()); later != nil {
			if name != "registerWithTaints" && !hasValue(*later, s) { // checkTaintsStay checks taints
				found.Warn(
					fault.Conflict, at, name+" has no effect here",
					"%s of the image comes after it, and the kubelet silently uses %s from there. "+
						"Remove it from that file, or give prelet's own drop-in a name that sorts last.",
					later.Path, name,
				)
			}
			continue
		}
		earlier := findLast(dropIns[:max(own, 0)], s.Pointer())
		if earlier != nil && !hasValue(*earlier, s) {
			found.Report(origin.Replaced(
				"config"+s.Pointer(), at, name+" of the image is replaced",
				"%s has it too, and the kubelet uses the value of %s.", earlier.Path, n.DropIn,
			))
		}
	}

	return found.Diags
}

// checkTaintsStay refuses taints of the site that a later drop-in of the image removes. planned are those of the
// node before the drop-ins are merged.
func checkTaintsStay(n desired.Node, planned []desired.Taint, dropIns []stages.DropIn) hcl.Diagnostics {
	var found origin.Collector
	d := findLast(dropIns, "/registerWithTaints")
	if d == nil || d.Path == n.DropIn {
		return found.Diags
	}

	for _, t := range planned {
		isKept := slices.ContainsFunc(n.Taints, func(o desired.Taint) bool {
			return o.String() == t.String()
		})
		if isKept || len(t.Origins) == 0 || t.Origins[0].Kind == origin.Base {
			continue
		}
		found.Error(
			fault.Conflict, t.Origins[0].Range, "Taint "+t.String()+" has no effect here",
			"registerWithTaints of %s, a drop-in of the image, "+
				"comes after it and silently replaces the whole list. "+
				"Remove it from that file, or write taints = \"flag\" in kubelet_flags.", d.Path,
		)
	}

	return found.Diags
}
