package explain

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/value"
)

// path leads into a value: names of attributes, keys of maps, and indexes of lists in decimal.
type path []string

// String returns the path as a site writes it: .gpus[0].model, .data["a/b"].
func (p path) String() string {
	var b strings.Builder
	for _, key := range p {
		b.WriteString(value.FormatStep(key))
	}

	return b.String()
}

func isIndex(key string) bool {
	_, ok := indexOf(key)
	return ok
}

// indexOf returns the index that a key is; ok is false for other keys, also for a negative number.
func indexOf(key string) (n int, ok bool) {
	n, err := strconv.Atoi(key)

	return n, err == nil && n >= 0
}

func (p path) extend(keys ...string) path {
	return slices.Concat(p, keys)
}

// findIn returns the part of a value that the path leads to, with the marks on the way; ok is false if there is none.
func (p path) findIn(v cty.Value) (part cty.Value, ok bool) {
	for _, key := range p {
		var ds hcl.Diagnostics
		v, ds = hcl.Index(v, cty.StringVal(key), nil)
		if ds.HasErrors() {
			return v, false
		}
	}

	return v, true
}

// pathOf returns the path of a traversal; ok is false if it ends before the traversal does, at an unknown key.
func pathOf(tr hcl.Traversal) (p path, ok bool) {
	for _, step := range tr {
		key, ok := value.StepKey(step)
		if !ok {
			return p, false
		}
		p = append(p, key)
	}

	return p, true
}
