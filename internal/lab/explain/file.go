package explain

import (
	"encoding/json"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
)

var actions = map[string]string{
	"create":  "does not exist: it would be written",
	"update":  "differs: it would be written",
	"delete":  "it would be removed",
	"restore": "it would be put back as it was before prelet",
	"keep":    "stays as it is",
	"none":    "as planned",
}

var purposes = map[string]string{
	"bootstrap-kubeconfig": "the kubelet's bootstrap kubeconfig",
	"kubeconfig":           "the kubelet's kubeconfig",
	"ca":                   "the cluster's CA",
	"kubelet-config":       "the kubelet's configuration",
	"kubelet-flags":        "the kubelet's flags",
	"file":                 "a file of the site",
	"directory":            "a folder of the site",
	"state":                "a state file of the kubelet",
	"identity":             "an identity that this node cannot have",
}

func (w *walker) explainFile(name string) (Explanation, bool) {
	for _, c := range w.plan.Changes {
		if c.File.Path == name {
			return w.explainChange(c), true
		}
	}

	return w.explainAbsentFile(name)
}

func (w *walker) explainChange(c evaluate.FileChange) Explanation {
	f := c.File
	what := purposes[f.Purpose]
	if what == "" {
		what = "a file"
	}
	if len(f.Text.Secrets()) > 0 {
		what += " " + sensitive
	}

	x := Explanation{Present: f.Kind != desired.Missing, Origins: f.Origins}
	if x.Present {
		x.Value = what
		x.Whole = what
	} else {
		x.Summary = "It is to be absent: " + c.Why + "."
	}
	x.TakesEffect, x.Units = w.plan.FileTakesEffect(c)

	w.add(
		0,
		Link{
			Text: "on disk",
			Note: join(actions[c.Action], c.Why, c.Drift),
			Ref:  "file/" + f.Path,
		},
	)
	switch f.Purpose {
	case "kubelet-config":
		w.addBase(origin.Origin{Ref: "kubelet_config"}, 0)
		w.addEntries(0, Config)
	case "kubelet-flags":
		w.addBase(origin.Origin{Ref: "kubelet_flags"}, 0)
		w.addEntries(0, Flag, Label)
	case "bootstrap-kubeconfig":
		if b := w.plan.Site.Cluster; b != nil && b.Attributes["token"] != nil {
			w.addOperands(b.Attributes["token"].Expr, eval.Scope{}, 0)
		}
		w.addTrust(Link{Text: "the cluster's CA", Ref: "trust"}, "/pem", 0)
	default:
		w.addBasis(entry{origins: f.Origins}, 0)
	}

	return x
}

// explainAbsentFile explains a file whose block is left out. A path that is not a literal was not evaluated then: each
// block is named whose path begins as the file's does.
func (w *walker) explainAbsentFile(name string) (x Explanation, known bool) {
	var possible []*hclsyntax.Block
	for _, i := range w.plan.Site.OfType("write") {
		for _, b := range i.Body.Blocks {
			file := b.Body.Attributes["path"]
			when := b.Body.Attributes["when"]
			if file == nil || when == nil {
				continue
			}
			if isTrue, _ := w.e.Condition(when.Expr, cty.NilVal); isTrue {
				continue
			}
			text, isLiteral := value.LiteralText(file.Expr)
			switch {
			case isLiteral && text == name:
				return Explanation{Summary: w.whyNoFile(b, ""), Range: file.SrcRange}, true
			case !isLiteral && strings.HasPrefix(name, literalPrefix(file.Expr)):
				possible = append(possible, b)
			}
		}
	}

	var why []string
	for _, b := range possible {
		path := b.Body.Attributes["path"]
		x.Range = path.SrcRange
		why = append(why, w.whyNoFile(b, ", whose path "+w.formatSource(path.Expr)+" was not evaluated,"))
	}
	x.Summary = strings.Join(why, " ")

	return x, why != nil
}

// whyNoFile adds the condition of a block that is left out, and returns that in a sentence.
func (w *walker) whyNoFile(b *hclsyntax.Block, which string) string {
	whose := b.Type + " \"" + strings.Join(b.Labels, " ") + "\""
	w.addWhen(b.Body.Attributes["when"].Expr, whose, 0)

	return whose + which + " is left out, because its condition is not true."
}

// findArgument returns an argument of a block in a stage; nil if it is absent.
func findArgument(i *lang.Instance, block, name string) *hclsyntax.Attribute {
	for _, b := range i.Body.Blocks {
		if a := b.Body.Attributes[name]; b.Type == block && a != nil {
			return a
		}
	}

	return nil
}

// addBase adds an item or a document of the base, and where the base was read: an argument, the only fetch-config
// stage, or the file before prelet.
func (w *walker) addBase(o origin.Origin, depth int) {
	block := "kubelet_config"
	if o.Ref == "kubelet_flags" || strings.HasPrefix(o.Ref, "/") {
		block = "kubelet_flags"
	}
	text := "the base"
	if o.Text != "" {
		text = o.Text + " of the base"
	}
	w.add(depth, Link{
		Kind: origin.Base,
		Text: text,
		Ref:  o.Ref,
	})

	for _, i := range w.plan.Site.OfType("write") {
		if a := findArgument(i, block, "base"); a != nil {
			w.addArgument("base", a.Expr, eval.Scope{}, "write."+block+".base", depth+1)
			return
		}
		for _, e := range w.plan.Edges {
			from := w.plan.Site.Stage(e.To)
			if e.From == i.Addr() && e.Attribute == block+".base" {
				p := path{e.Output, "kubelet"}
				s := Link{
					Text:  "stage." + e.To + p.String(),
					Range: from.Range,
					Ref:   "stage." + e.To,
				}
				w.addFetched(from, s, p, depth+1)
				return
			}
		}
		w.addOriginal(block, i, depth+1)
	}
}

// addOriginal adds the file of a block as it was before prelet.
func (w *walker) addOriginal(block string, i *lang.Instance, depth int) {
	for _, e := range w.entries {
		r, _ := tape.Original.Request(e.Question)
		isConfig := strings.HasSuffix(r.Path, ".yaml")
		if e.Kind != tape.KindOriginal || isConfig != (block == "kubelet_config") {
			continue
		}
		s := Link{
			Kind:  origin.Base,
			Text:  r.Path,
			Note:  "its content, as prelet found it",
			Range: i.Range,
			Ref:   r.Path,
		}
		var a tape.TargetAns
		pointer := "/text"
		if json.Unmarshal(e.Answer.Value, &a) == nil && !a.Exists {
			s.Note = "did not exist when prelet first looked"
			pointer = "/exists"
		}
		s.setAnswer(e, pointer)
		w.add(depth, s)
	}
}
