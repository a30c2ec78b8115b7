package compare

import (
	"encoding/json"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/lab/explain"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
)

// causes finds the inputs that an item depends on. A plan is a function of the site and the answers, so an input that
// did not change is not a cause; but the content of a credential is not kept, so nothing shows whether it changed.
type causes struct {
	before, after Generation
	inputs        []InputChange
}

// find returns the names of the changed inputs in the chains of an item, in the plans of both generations.
func (c causes) find(item string) []string {
	names := []string{}
	before := newChain(c.before.Run, item)
	after := newChain(c.after.Run, item)
	before.addCauses(&names, after, c.after.Recording)
	after.addCauses(&names, before, c.before.Recording)
	if before.hasFormula() || after.hasFormula() {
		c.addSize(&names)
	}

	return slices.DeleteFunc(names, func(name string) bool {
		return !c.isChanged(name)
	})
}

// addSize adds the hardware if its CPUs or its memory differ, from which a formula computes reservations.
func (c causes) addSize(names *[]string) {
	was, is := c.before.Run, c.after.Run
	if was == nil || is == nil || was.Facts == nil || is.Facts == nil {
		return
	}
	isEqual := reflect.DeepEqual(was.Facts.CPU.Cores, is.Facts.CPU.Cores) &&
		reflect.DeepEqual(was.Facts.CPU.Logical, is.Facts.CPU.Logical) &&
		reflect.DeepEqual(was.Facts.Memory, is.Facts.Memory)
	if !isEqual {
		addName(names, tape.HardwareInput)
	}
}

// explain sets the causes of a change. A file that is rendered from items has those of its items that differ, which are
// among the changes before it. With a secret the credentials in its chains may be a cause, and prelet itself where it
// is another one and nothing else is known.
func (c causes) explain(change *CausedChange, earlier []CausedChange) {
	change.Because = nil
	item := explain.Item{Kind: change.Kind, Name: change.Name}.String()
	for _, i := range earlier {
		isPart := isPartOf(c.before.Run, change.Name, i.Kind) || isPartOf(c.after.Run, change.Name, i.Kind)
		if change.Action == "update" && isPart {
			addName(&change.Because, i.Because...)
		}
	}
	if change.Because == nil {
		change.Because = c.find(item)
	}

	if change.Hidden == Secret {
		newChain(c.before.Run, item).addCredentials(&change.Perhaps)
		newChain(c.after.Run, item).addCredentials(&change.Perhaps)
	}
	if len(change.Because) == 0 && change.Drift == "" && c.isChanged(preletInput) {
		addName(&change.Perhaps, preletInput)
	}
}

func (c causes) isChanged(name string) bool {
	return slices.ContainsFunc(c.inputs, func(i InputChange) bool {
		return i.Name == name
	})
}

// isPartOf reports whether a file of a plan is rendered from items of a kind.
func isPartOf(p *evaluate.Plan, file, kind string) bool {
	return p != nil && slices.ContainsFunc(p.Node.Files, func(f desired.File) bool {
		return f.Path == file && strings.Contains(kindsOf(p, f), kind)
	})
}

func addName(names *[]string, more ...string) {
	for _, name := range more {
		if !slices.Contains(*names, name) {
			*names = append(*names, name)
		}
	}
}

// chain is the chain of an item in one plan. It is empty without a plan.
type chain struct {
	plan  *evaluate.Plan
	links []explain.Link // the place of the item is the first
}

// hasFormula reports whether a value was computed from the size of the machine.
func (c chain) hasFormula() bool {
	return slices.ContainsFunc(c.links, func(s explain.Link) bool {
		return s.Kind == origin.Policy && s.Range.Filename == ""
	})
}

func newChain(p *evaluate.Plan, item string) chain {
	i, ok := explain.Parse(item)
	if p == nil || p.Eval == nil || !ok {
		return chain{}
	}

	x, _ := explain.Explain(p, i)
	first := explain.Link{Ref: item, Range: x.Range}
	links := append([]explain.Link{first}, x.Chain...)

	return chain{p, links}
}

// addCauses adds the inputs of a chain: its answers, and the site files of the links that other does not have.
// recording is that of other.
func (c chain) addCauses(names *[]string, other chain, recording *tape.Recording) {
	if recording == nil {
		return
	}

	texts := siteTexts(recording.Header.Site)
	for _, s := range c.links {
		if s.Answer != nil {
			q := tape.Question{Kind: s.Answer.Kind, Args: string(s.Answer.Args)}
			addName(names, tape.InputName(q))
		}
		if s.Range.Filename != "" && c.isNew(s, other, texts[s.Range.Filename]) {
			addName(names, "site file "+s.Range.Filename)
		}
	}
}

func (c chain) addCredentials(names *[]string) {
	for _, s := range c.links {
		if s.Answer == nil {
			continue
		}
		q := tape.Question{Kind: s.Answer.Kind, Args: string(s.Answer.Args)}
		var request struct{ Name string }
		_ = json.Unmarshal(s.Answer.Args, &request)
		v := c.plan.Site.Variables[request.Name]
		isSensitive := v != nil && v.Sensitive
		if q.Kind == tape.KindVariable && isSensitive {
			q = tape.Credential.Question(tape.CredentialReq{Name: "prelet.var." + request.Name})
		}
		if q.Kind == tape.KindCredential {
			addName(names, tape.InputName(q)+", whose content is not kept")
		}
	}
}

// isNew reports whether the text of a link is not in the other chain, or, where that has no such link, not in the other
// text of the file. Spaces and comments do not count.
func (c chain) isNew(s explain.Link, other chain, text string) bool {
	i := slices.IndexFunc(other.links, func(o explain.Link) bool {
		isSame := o.Text == s.Text && o.Ref == s.Ref && o.Range.Filename != ""
		return isSame && (o.Answer == nil) == (s.Answer == nil)
	})
	if i >= 0 {
		return c.textOf(s.Range) != other.textOf(other.links[i].Range)
	}

	return !strings.Contains(stripSpaces(s.Range.Filename, text), c.textOf(s.Range))
}

// textOf returns the text of a place in the site without spaces and comments.
func (c chain) textOf(r hcl.Range) string {
	source := c.plan.Site.Sources[r.Filename]
	if r.End.Byte > len(source) || r.Start.Byte > r.End.Byte {
		return ""
	}

	return stripSpaces(r.Filename, string(source[r.Start.Byte:r.End.Byte]))
}

// stripSpaces returns the tokens of HCL without the comments, one per line. A text of another language is returned as
// it is.
func stripSpaces(filename, text string) string {
	if path.Ext(filename) != ".hcl" {
		return text
	}

	var b strings.Builder
	tokens, _ := hclsyntax.LexConfig([]byte(text), filename, hcl.InitialPos)
	for _, t := range tokens {
		isText := t.Type != hclsyntax.TokenComment && t.Type != hclsyntax.TokenNewline
		if isText && len(t.Bytes) > 0 { // the end of the text has none
			b.Write(t.Bytes)
			b.WriteByte('\n')
		}
	}

	return b.String()
}
