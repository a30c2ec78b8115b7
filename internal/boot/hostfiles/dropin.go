package hostfiles

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/stages"
)

// ParseDropIn returns a drop-in of the image by its text, or by the error of its read.
func ParseDropIn(path, text string, err error) stages.DropIn {
	if err != nil {
		return stages.DropIn{Path: path, Refusal: err}
	}
	c, err := kubelet.ParseDropIn(text)

	return makeDropIn(path, c, err)
}

// ParsePlanned returns the drop-in that a planned file is.
func ParsePlanned(f node.File) stages.DropIn {
	if f.Kind != node.Regular {
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
	case !value.HasPlaceholder(text):
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
		case value.HasPlaceholder(fmt.Sprint(v)):
			delete(object, name)
		}
		if value.HasPlaceholder(name) {
			delete(object, name)
		}
	}
}

// PutDropIn puts a drop-in at its place in the order of the kubelet, instead of one with its path.
func PutDropIn(dropIns []stages.DropIn, d stages.DropIn) []stages.DropIn {
	at, isThere := slices.BinarySearchFunc(dropIns, d.Path, func(other stages.DropIn, path string) int {
		return CompareDropIns(other.Path, path)
	})
	if isThere {
		dropIns = slices.Delete(dropIns, at, at+1)
	}

	return slices.Insert(dropIns, at, d)
}

// CompareDropIns orders the paths of drop-ins as the kubelet walks over their folder: what is in 10/ before 10.conf.
func CompareDropIns(a, b string) int {
	return strings.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
}

// DropDeleted returns a configuration without the fields that settings delete.
func DropDeleted(config map[string]any, settings []node.Setting) map[string]any {
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

// FindLast returns the last drop-in that has a field; nil for none.
func FindLast(dropIns []stages.DropIn, pointer string) *stages.DropIn {
	for i := range slices.Backward(dropIns) {
		if v, ok := kubelet.LookUp(dropIns[i].Config, pointer); ok && v != nil {
			return &dropIns[i]
		}
	}

	return nil
}

func HasValue(d stages.DropIn, s node.Setting) bool {
	v, _ := kubelet.LookUp(d.Config, s.Pointer())

	return !s.Delete && fmt.Sprint(v) == fmt.Sprint(s.Value)
}
