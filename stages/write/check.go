package write

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// problems tells what the kubelet would refuse, or swallow without a word: at the line that set the field.
func (r *renderer) problems(found []kubelet.Problem, n node.Node, b schema.Body) {
	pointers := slices.Sorted(maps.Keys(n.ConfigOrigins))
	for _, p := range found {
		at, from := b.Range, "the base"
		if o := n.ConfigOrigins[owner(pointers, p.Pointer)]; len(o) > 0 {
			at, from = o[0].Range, o[0].Ref
		}
		mk := origin.Warning
		if p.Severity == kubelet.SeverityError {
			mk = origin.Error
		}
		r.diags = append(r.diags, mk(origin.ConfigInvalid, at, "The kubelet and "+strings.ReplaceAll(strings.TrimPrefix(p.Pointer, "/"), "/", "."), "%s", stages.Sentence(p.Message+" (set by "+from+")", p.Hint)))
	}
}

// owner is the field, of those that stages set (sorted), that a problem at a pointer belongs to: that field, the one
// around it, or the first inside of it; "" if the base has it.
func owner(pointers []string, at string) string {
	for p := at; p != ""; p = p[:strings.LastIndexByte(p, '/')] {
		if _, ok := slices.BinarySearch(pointers, p); ok {
			return p
		}
	}
	if i, _ := slices.BinarySearch(pointers, at+"/"); i < len(pointers) && strings.HasPrefix(pointers[i], at+"/") {
		return pointers[i]
	}
	return ""
}

// fields checks what the site sets when its base is not at hand: each field for itself, since what it goes with may
// stand in the base.
func (r *renderer) fields(n node.Node, b schema.Body) {
	c := kubelet.NewConfig()
	for _, s := range n.Settings {
		if s.Delete {
			continue
		}
		if err := c.Set(s.Path, s.Value); err != nil {
			return // two settings that do not go together: the merge says so
		}
	}
	r.problems(kubelet.CheckFields(c), n, b)
}

// owners looks for paths that two blocks write, also where the content of one is not known before a machine is: the
// merge, which says the same, sees rendered files only.
func (r *renderer) owners() {
	have := map[string]hcl.Range{}
	claim := func(p schema.Value[string], b schema.Body, preset string) {
		path, at := p.V, p.Range
		if !p.Set() {
			path, at = preset, b.Range
		}
		if !p.Cty.IsKnown() || path == "" || b.Undecided {
			return
		}
		if first, ok := have[path]; ok {
			r.fail(origin.Conflict, at, "Two owners of "+path, "It is written here, and at %s:%d:%d. One owner for each path: remove one of them, or give it another path.", first.Filename, first.Start.Line, first.Start.Column)
			return
		}
		have[path] = at
	}
	if b, ok := r.cfg.One("bootstrap_kubeconfig"); ok {
		claim(bootPath.Of(b), b, "")
	}
	if b, ok := r.cfg.One("ca_certificate"); ok {
		claim(caPath.Of(b), b, "")
	}
	if b, ok := r.cfg.One("kubelet_config"); ok && configLayout.Of(b).Cty.IsKnown() {
		claim(configPath.Of(b), b, configTarget(b, r.in)) // its place is the same in all layouts
	}
	if b, ok := r.cfg.One("kubelet_flags"); ok {
		preset := ""
		if r.in.Facts != nil {
			preset = flagsFile(b, r.in)
		}
		claim(flagsPath.Of(b), b, preset)
	}
	for _, b := range r.cfg.Blocks["file"] {
		claim(filePath.Of(b), b, "")
	}
	for _, b := range r.cfg.Blocks["directory"] {
		claim(dirPath.Of(b), b, "")
	}
}
