package app

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/explain"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/origin"
)

// Explanation is why an item of a plan is as it is. Its plan has no Eval where the site is not valid.
type Explanation struct {
	explain.Explanation
	Plan    *boot.Plan
	Missing error // why there is nothing to explain, with what is near; nil where there is
}

// Explain explains a word over the node of w: an item, or a bare word that fits only one. For the code of a message it returns
// the item only: fault.Code.Page has the rest.
func (e *Env) Explain(ctx context.Context, w Where, word string) (Explanation, error) {
	n, found, err := e.Open(w, nil)
	if err != nil {
		return Explanation{}, err
	}
	defer n.Close()

	p := n.PlanUnless(ctx, found, e.Progress)
	if err := Stopped(ctx); err != nil {
		return Explanation{}, err
	}

	item, typed := explain.Parse(word)
	if p.Eval == nil {
		if !typed {
			item.Name = word
		}
		return Explanation{Explanation: explain.Explanation{Item: item, Summary: "The site is not valid."}, Plan: p}, nil
	}
	if !typed {
		if item, err = only(p, word); err != nil {
			return Explanation{}, err
		}
		if item.Kind == explain.Code {
			return Explanation{Explanation: explain.Explanation{Item: item}, Plan: p}, nil
		}
	}
	return explainItem(p, item), nil
}

func explainItem(p *boot.Plan, item explain.Item) Explanation {
	x, known := explain.Explain(p, item)
	if known {
		return Explanation{Explanation: x, Plan: p}
	}

	code := origin.Code(p.Diagnostics)
	message := fmt.Sprintf("%s is not there, and nothing in the site could set it.", item)
	x.Summary = "Nothing in the site could set it."
	if code != "" {
		message = fmt.Sprintf("the run failed, so nothing is known of %s.", item)
	}
	if p.Diagnostics.HasErrors() {
		x.Summary = "The run failed, so nothing is known of it."
	}
	if near := explain.Near(p, item); len(near) > 0 {
		message += " There is:\n" + listed(near)
	}
	return Explanation{Explanation: x, Plan: p, Missing: failure(cmp.Or(code, fault.Usage), "%s", message)}
}

// only is what a bare word means, if that is one thing.
func only(p *boot.Plan, word string) (explain.Item, error) {
	l := explain.Match(p, word)
	switch {
	case len(l) == 1:
		return l[0], nil
	case len(l) > 1:
		return explain.Item{}, failure(fault.Usage, "%q fits several:\n%s", word, listed(l))
	}
	if near := explain.Near(p, explain.Item{Name: word}); len(near) > 0 {
		return explain.Item{}, failure(fault.Usage, "%q is nothing in this plan. Near to it:\n%s", word, listed(near))
	}
	return explain.Item{}, failure(fault.Usage, "%q is nothing in this plan. To ask why a label is not there, write label/%s", word, word)
}

func listed(l []explain.Item) string {
	var out []string
	for _, i := range l {
		out = append(out, "  "+i.String())
	}
	return strings.Join(out, "\n")
}
