package lang

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
)

const evidentHelp = "Recordings contain the site's text, and plans show it. Write credential(\"NAME\") in its place, " +
	"in a file with a mode of at most 0640, and provide the credential with LoadCredential= or " +
	"LoadCredentialEncrypted=. Change the secret if others could read the site."

const settingHelp = "It may be a secret, and every user of a node can read its flags. Remove it. For headers, write " +
	"a file into the folder of the kubelet's drop-ins, with staticPodURLHeader and credential(\"NAME\") in its content."

// refuseSecrets reports the evident secrets in the site's text, and hides them in the sources of diagnostics. A secret
// that was already reported is not reported again.
func (l *loader) refuseSecrets(files []tape.SiteFile, bodies []*hclsyntax.Body) {
	for _, body := range bodies {
		l.refuseSettings(body)
	}
	for _, f := range files {
		for _, e := range secret.FindEvident(f.Text) {
			text := f.Text[e.Start:e.End]
			help := evidentHelp
			if e.What == secret.FlagValue || e.What == secret.FieldValue {
				help = settingHelp
			}
			l.refuse(findRange(f, e.Start, e.End), []string{text}, "The site's text has "+e.What, help)
		}
	}
}

// refuse hides secrets, and reports them. An earlier site may have them.
func (l *loader) refuse(at hcl.Range, secrets []string, summary, help string) {
	isKnown := slices.ContainsFunc(l.Diags, func(d *hcl.Diagnostic) bool {
		isSame := origin.CodeOf(d) == fault.Sensitive && d.Subject != nil && d.Subject.Filename == at.Filename
		return isSame && d.Subject.Start.Byte < at.End.Byte && at.Start.Byte < d.Subject.End.Byte
	})
	l.site.Secrets = append(l.site.Secrets, secrets...)
	l.hide(at)
	if isKnown || l.opts.IsPast {
		return
	}

	const marked = 4
	if at.End.Byte > at.Start.Byte+marked { // a length is a part of a secret
		at.End = at.Start
		at.End.Byte += marked
		at.End.Column += marked
	}
	l.Error(fault.Sensitive, at, summary, "%s", help)
}

// findRange returns the place of a part of a file.
func findRange(f tape.SiteFile, start, end int) hcl.Range {
	position := func(at int) hcl.Pos {
		line := strings.LastIndexByte(f.Text[:at], '\n') + 1
		return hcl.Pos{
			Line:   1 + strings.Count(f.Text[:at], "\n"),
			Column: 1 + utf8.RuneCountInString(f.Text[line:at]),
			Byte:   at,
		}
	}

	return hcl.Range{Filename: f.Name, Start: position(start), End: position(end)}
}

// refuseSettings refuses a literal as the value of a setting of the kubelet that may be a secret: of a flag, or of a
// field. All users of a node can read its flags and its configuration.
func (l *loader) refuseSettings(body *hclsyntax.Body) {
	check := func(name string, x hclsyntax.Expression) {
		if !secret.IsSetting(name) {
			return
		}
		v, diags := x.Value(nil)
		texts := literalTexts(v)
		if !diags.HasErrors() && len(texts) > 0 {
			l.refuse(x.Range(), texts, "The site's text has a value of "+name, settingHelp)
		}
	}

	_ = hclsyntax.VisitAll(body, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.Attribute:
			check(n.Name, n.Expr)
		case *hclsyntax.ObjectConsExpr:
			for _, item := range n.Items {
				if name, ok := value.LiteralText(item.KeyExpr); ok {
					check(strings.TrimLeft(name, "-"), item.ValueExpr)
				}
			}
		}

		return nil
	})
}

// literalTexts returns the texts in a value that may be secrets, at any depth: not an empty one, nor the default of the
// password.
func literalTexts(v cty.Value) (out []string) {
	if v == cty.NilVal {
		return nil
	}
	_ = cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) {
		if value.IsText(v) && v.AsString() != "" && v.AsString() != "root" {
			out = append(out, v.AsString())
		}

		return true, nil
	})

	return out
}
