package planning

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/explain"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/schema"
)

// ExplainOptions are an item and the node or the recordings that it is explained over.
type ExplainOptions struct {
	lab.Request
	Word string // an item, such as label/KEY or code/NAME, or a bare word that fits only one

	// MissingIsResult makes an item that a recording of a folder does not have a result and not a failure: programs get
	// one document for each recording.
	MissingIsResult bool
}

// Explanation is why an item of a plan is as it is. Its plan has no Eval where the site is not valid. For the code of a
// message there is the item and its page only.
type Explanation struct {
	explain.Explanation
	Source  string // the recording, where the command is over a folder of them; else ""
	Plan    *evaluate.Plan
	Page    fault.Page // of a code
	Missing error      // why the plan does not have the item, with similar items; nil where it has it
	Err     error      // why this recording was not explained: unreadable, or Missing; else nil
}

// Explain explains a word over the node of o or, where o.From is a folder, over each recording in it. show gets each
// explanation as soon as it is made; an error of show ends the command. begin gets each recording of a folder before it
// is read. A failure over one node is the error, a failure over one recording of a folder is in its Explanation. The
// code is that of the command: "" where everything was explained.
func Explain(
	ctx context.Context, e *machine.Env, o ExplainOptions, begin func(source string), show func(Explanation) error,
) (fault.Code, error) {
	item, typed := explain.Parse(o.Word)
	if typed && item.Kind == explain.Code {
		x, err := explainCode(item)
		if err != nil {
			return "", err
		}
		return "", show(x)
	}

	return eachMachine(ctx, e, o.Request, begin, func(one lab.Request, source string) (fault.Code, error) {
		x, err := explainNode(ctx, e, one, o.Word)
		if err != nil && source == "" {
			return "", err
		}
		x.Source = source
		x.Err = err
		if x.Missing != nil && (source == "" || !o.MissingIsResult) {
			x.Err = x.Missing
		}

		return x.code(), show(x)
	})
}

// code is that of the error or of the plan; "" where neither failed.
func (x Explanation) code() fault.Code {
	switch {
	case x.Err != nil:
		return fault.CodeOf(x.Err)
	case x.Plan == nil:
		return ""
	}
	return origin.Code(x.Plan.Diagnostics)
}

// explainNode explains a word over one node.
func explainNode(ctx context.Context, e *machine.Env, w lab.Request, word string) (Explanation, error) {
	n, err := lab.Open(e, w, nil)
	if err != nil {
		return Explanation{}, err
	}
	defer n.Close()

	word, err = findVariable(n.Site, word)
	if err != nil {
		return Explanation{}, err
	}
	n.Options.Explains = true
	p := n.PlanUnless(ctx)
	if err := machine.CheckStopped(ctx); err != nil {
		return Explanation{}, err
	}

	item, typed := explain.Parse(word)
	if p.Eval == nil {
		if !typed {
			item.Name = word
		}
		x := explain.Explanation{Item: item, Summary: "The site is not valid."}
		return Explanation{Explanation: x, Plan: p}, nil
	}

	if !typed {
		if item, err = findItem(p, word); err != nil {
			return Explanation{}, err
		}
		if item.Kind == explain.Code {
			return explainCode(item)
		}
	}
	return explainItem(p, item), nil
}

// messageWidth is how many columns a message fills whose lines are broken here.
const messageWidth = 80

// explainCode returns the page of a message's code.
func explainCode(item explain.Item) (Explanation, error) {
	page, ok := fault.Code(item.Name).Page()
	if ok {
		return Explanation{Explanation: explain.Explanation{Item: item}, Page: page}, nil
	}

	var known []string
	for _, c := range fault.Codes() {
		known = append(known, string(c))
	}
	message := fmt.Sprintf("unknown code %q. %s", item.Name, schema.Suggest(item.Name, known))
	return Explanation{}, fault.Usage.Errorf(
		"%s",
		strings.TrimSpace(printer.Reflow(message, messageWidth)),
	)
}

// explainItem explains an item of a plan, or returns why there is nothing to explain.
func explainItem(p *evaluate.Plan, item explain.Item) Explanation {
	x, known := explain.Explain(p, item)
	if known {
		return Explanation{Explanation: x, Plan: p}
	}

	code := origin.Code(p.Diagnostics)
	message := fmt.Sprintf("%s is not in the plan, and nothing in the site could set it.", item)
	x.Summary = "Nothing in the site could set it."
	if item.IsName() {
		message = fmt.Sprintf("the site has no %s.", item)
		code = ""
	}
	if code != "" {
		message = fmt.Sprintf("the run failed, so nothing is known of %s.", item)
	}
	if p.Diagnostics.HasErrors() {
		x.Summary = "The run failed, so nothing is known of it."
	}
	if near := explain.Near(p, item); len(near) > 0 {
		message += " There is, for example:\n" + listItems(near)
	}
	return Explanation{
		Explanation: x,
		Plan:        p,
		Missing:     cmp.Or(code, fault.Usage).Errorf("%s", message),
	}
}

// findVariable returns the item of a variable that is written as in a site, var.NAME, and any other word as it is. It
// refuses an undeclared variable before a plan is made, which may wait for the cluster.
func findVariable(site *lang.Site, word string) (item string, err error) {
	name, isVariable := strings.CutPrefix(word, "var.")
	if !isVariable || strings.Contains(word, "/") || site == nil { // with a slash it is the key of a label or taint
		return word, nil
	}
	name, member, _ := strings.Cut(name, ".")
	switch isDeclared := site.Variables[name] != nil; {
	case isDeclared && member == "":
		return "var/" + name, nil
	case isDeclared:
		return "", fault.Usage.Errorf(
			"%s is a value of the site, and not an item of the plan: prelet eval %s prints it", word, word)
	}

	known := slices.Sorted(maps.Keys(site.Variables))
	near := texts.Nearest(name, known)
	switch {
	case near != "":
		return "", fault.Usage.Errorf("var.%s is not declared in this site; did you mean var.%s?", name, near)
	case len(known) > 0:
		return "", fault.Usage.Errorf(
			"var.%s is not declared in this site, which declares %s", name, strings.Join(known, ", "))
	}

	return "", fault.Usage.Errorf("var.%s is not declared: this site has no variable", name)
}

// findItem returns the item that a bare word means, if there is only one.
func findItem(p *evaluate.Plan, word string) (explain.Item, error) {
	if kind, isKind := strings.CutSuffix(word, "/"); isKind {
		if all := explain.Near(p, explain.Item{Kind: kind}); len(all) > 0 {
			return explain.Item{}, fault.Usage.Errorf(
				"%s needs a name. There is, for example:\n%s", word, listItems(all))
		}
	}

	items := explain.Match(p, word)
	switch {
	case len(items) == 1:
		return items[0], nil
	case len(items) > 1:
		return explain.Item{}, fault.Usage.Errorf("%q fits several:\n%s", word, listItems(items))
	}

	if root, _, isPath := strings.Cut(word, "."); isPath && slices.Contains([]string{"local", "stage"}, root) {
		return explain.Item{}, fault.Usage.Errorf(
			"%s is a value of the site, and not an item of the plan: prelet eval %s prints it", word, word)
	}

	if near := explain.Near(p, explain.Item{Name: word}); len(near) > 0 {
		return explain.Item{}, fault.Usage.Errorf(
			"%q is not in this plan. There is, for example:\n%s", word, listItems(near))
	}
	if kind, name, _ := strings.Cut(word, "/"); name != "" {
		kinds := []string{explain.Label, explain.Taint, explain.Flag, explain.File}
		if singular := strings.TrimSuffix(kind, "s"); slices.Contains(kinds, singular) {
			return explain.Item{}, fault.Usage.Errorf(
				"%q is not in this plan; did you mean %s/%s?", word, singular, name)
		}
	}
	next := "To explain why a label is missing, write label/" + word
	if len(content.IsLabelKey(word)) > 0 || !strings.Contains(word, "/") && strings.Contains(word, ".") {
		next = "prelet plan lists the items"
	}

	return explain.Item{}, fault.Usage.Errorf("%q is not in this plan. %s", word, next)
}

func listItems(items []explain.Item) string {
	var out []string
	for _, i := range items {
		out = append(out, "  "+i.String())
	}
	return strings.Join(out, "\n")
}
