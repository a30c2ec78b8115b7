package compare

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/lang/explain"
	"github.com/prelet/prelet/internal/world"
)

// causes finds the inputs that an item depends on. A plan is a function of the site and the answers, so an input that
// did not change is never a cause.
type causes struct {
	before, after Generation
	inputs        []Input
}

// find returns the names of the changed inputs in the chains of an item, in the plans of both generations. If no chain
// has one, and only one input changed at all, it is that one.
func (c causes) find(item string) (names []string) {
	c.addChain(&names, item, c.before.Run, c.after.Recording)
	c.addChain(&names, item, c.after.Run, c.before.Recording)
	if names == nil && len(c.inputs) == 1 {
		return []string{c.inputs[0].Name}
	}

	return names
}

// addChain adds the changed inputs that the chain of an item in a plan names. other is the other generation's
// recording.
func (c causes) addChain(names *[]string, item string, p *boot.Plan, other *world.Recording) {
	i, ok := explain.Parse(item)
	if p == nil || p.Eval == nil || other == nil || !ok {
		return
	}

	x, _ := explain.Explain(p, i)
	add := func(name string) {
		if c.isChanged(name) && !slices.Contains(*names, name) {
			*names = append(*names, name)
		}
	}
	ranges := []hcl.Range{x.Range}
	for _, s := range x.Chain {
		ranges = append(ranges, s.Range)
		if s.Answer != nil {
			add(NameOf(world.Question{Kind: s.Answer.Kind, Args: string(s.Answer.Args)}))
		}
	}
	for _, r := range ranges {
		if r.Filename != "" && isNew(p.Site.Sources[r.Filename], r, siteTexts(other.Header.Site)[r.Filename]) {
			add("site file " + r.Filename)
		}
	}
}

func (c causes) isChanged(name string) bool {
	return slices.ContainsFunc(c.inputs, func(i Input) bool { return i.Name == name })
}

// isNew reports whether a line of a range is not in the other text of the file.
func isNew(source []byte, r hcl.Range, other string) bool {
	lines := strings.Split(string(source), "\n")
	known := strings.Split(other, "\n")
	for n := r.Start.Line; n <= r.End.Line && n <= len(lines); n++ {
		if !slices.Contains(known, lines[n-1]) {
			return true
		}
	}

	return false
}
