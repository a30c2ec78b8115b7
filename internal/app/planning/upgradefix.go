package planning

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/app/sites"
	"github.com/prelet/prelet/internal/app/userfile"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/insight/fleet"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/kubelet/rules"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/stages"
)

// fixer rewrites the stage write of a site.
type fixer struct {
	site     *lang.Site
	version  string          // of prelet
	from, to int             // minor versions: of the oldest kubelet in place, and of the newest one
	loose    map[string]bool // files that stay as they are, because `prelet fmt` would change them too
}

// fixSite returns a site without the settings that a report of newer kubelets names, as far as that is safe. Flags that
// its last version no longer has and that kubelets in place do not need are cut, and so are feature gates. Flags with a
// field of the configuration are moved to the patch. Only literals are rewritten, and no field or gate of keep, which
// kubelets in place would then have otherwise. loose are the files that are left out for their form.
func fixSite(
	site *lang.Site, u *fleet.Upgrade, version string, keep map[string]bool,
) (fixed *lang.Site, loose map[string]bool) {
	f := fixer{site: site, version: version, loose: map[string]bool{}}
	f.from, _ = known.Minor(u.Oldest())
	f.to, _ = known.Minor(u.To)
	for _, row := range u.Effects {
		before := f.site
		kind, name, _ := strings.Cut(row.Item, "/")
		gate, isGate := strings.CutPrefix(name, "featureGates.")
		isFixed := false
		if kind == "flag" {
			name, _, _ = strings.Cut(name, "/")
			isFixed = f.fixFlag(name, keep)
		} else if isGate && !keep[gate] {
			later, stays := known.GateAt(gate, f.to)
			isFixed = (!stays || later.Locked) && f.cut("kubelet_config", "patch", name, false)
		}
		if !isFixed {
			f.site = before
		}
	}

	return f.site, f.loose
}

// isNeedless reports whether a kubelet that takes a flag does not need it: from 1.24 on --container-runtime has one
// value, and --pod-infra-container-image only keeps an image from being removed, as the runtime does with its own.
// Source: the messages of deprecation in cmd/kubelet/app/options
func isNeedless(flag string, minor int) bool {
	return minor >= 24 && (flag == "container-runtime" || flag == "pod-infra-container-image")
}

// fixFlag removes a flag, and writes it as a field where it has one in all versions. It returns false where that is not
// safe, as do the methods that follow.
func (f *fixer) fixFlag(name string, keep map[string]bool) bool {
	const block, attribute = "kubelet_flags", "flags"
	flag, isKnown := known.FlagAt(name, f.from)
	_, isInOld := known.FieldAt(flag.Field, f.from)
	_, isInNew := known.FieldAt(flag.Field, f.to)
	_, stays := known.FlagAt(name, f.to)
	field, _, _ := strings.Cut(flag.Field, ".")
	switch {
	case !isKnown || keep[field]:
		return false
	case isInOld && isInNew:
		return f.copyToPatch(name, flag.Field) && f.cut(block, attribute, name, true)
	}

	return !stays && isNeedless(name, f.from) && f.cut(block, attribute, name, false)
}

// findBlock returns a block of the stage write; nil if it has none.
func (f *fixer) findBlock(typ string) *hclsyntax.Block {
	for _, writer := range f.site.OfType(stages.Write) { // one at most
		for _, block := range writer.Body.Blocks {
			if block.Type == typ {
				return block
			}
		}
	}

	return nil
}

func isConditional(b *hclsyntax.Block) bool {
	return b.Body.Attributes["when"] != nil || b.Body.Attributes["for_each"] != nil
}

// findSetting returns the item of an attribute of a block, such as maxPods or featureGates.X, if all around it is
// literal and unconditional; else nil.
func (f *fixer) findSetting(typ, attribute, name string) *hclsyntax.ObjectConsItem {
	block := f.findBlock(typ)
	if block == nil || isConditional(block) || block.Body.Attributes[attribute] == nil {
		return nil
	}

	return findLiteral(block.Body.Attributes[attribute].Expr, name)
}

func findLiteral(x hclsyntax.Expression, name string) *hclsyntax.ObjectConsItem {
	object, isObject := x.(*hclsyntax.ObjectConsExpr)
	if !isObject {
		return nil
	}
	for _, item := range object.Items {
		key, _ := value.LiteralText(item.KeyExpr)
		if key == name || kubelet.FlagName(key) == name {
			return &item
		}
		if inner, isInside := strings.CutPrefix(name, key+"."); isInside {
			return findLiteral(item.ValueExpr, inner)
		}
	}

	return nil
}

// convertFlag returns the value of a literal flag as its field has it, in the language. It returns "" if the two may
// differ: a zero of a file selects a default, an object of a patch is merged with that of the base, and of another
// field it is the default.
func convertFlag(name, field string, item hclsyntax.ObjectConsItem, minor int) string {
	literal, diags := item.ValueExpr.Value(nil)
	text, isText := value.KeyText(literal)
	if diags.HasErrors() || !isText {
		return ""
	}
	config := rules.Effective(rules.Subject{
		Config:  kubelet.NewConfig(),
		Flags:   []rules.Flag{{Name: name, Value: text}},
		Version: known.Release(minor),
	})
	set, _ := kubelet.LookUp(config, "/"+strings.ReplaceAll(field, ".", "/"))
	_, isObject := set.(map[string]any)
	isZero := slices.Contains([]string{"<nil>", "", "0", "0s"}, fmt.Sprint(set))
	converted, err := value.FromGo(set)
	isDefaultOfOther := field == "nodeStatusUpdateFrequency"
	if isZero || isDefaultOfOther || isObject && name != "feature-gates" || err != nil {
		return ""
	}

	return string(hclwrite.TokensForValue(converted).Bytes())
}

// copyToPatch adds a flag to the patch as a field, with the comment after it. A new block is written after that of the
// flags.
func (f *fixer) copyToPatch(name, field string) bool {
	item := f.findSetting("kubelet_flags", "flags", name)
	if item == nil {
		return false
	}
	text := convertFlag(name, field, *item, f.from)
	flags, config := f.findBlock("kubelet_flags"), f.findBlock("kubelet_config")
	path := strings.Split(field, ".")
	line := nest(path, text) + f.look(*item).comment
	isElsewhere := func(at hcl.Range) bool { return at.Filename != item.KeyExpr.Range().Filename }
	switch {
	case text == "":
		return false
	case isElsewhere(flags.TypeRange):
		return false // an override has the flag, and other sites may not
	case config == nil:
		at := flags.CloseBraceRange
		comment, _, _ := bytes.Cut(f.site.Sources[at.Filename][at.End.Byte:], []byte("\n"))
		at.End.Byte += len(comment)
		at.Start = at.End
		return f.replace(at, "\nkubelet_config {\npatch = {\n"+line+"\n}\n}")
	case isConditional(config) || isElsewhere(config.TypeRange):
		return false // it may not be of all sites that have these flags
	case config.Body.Attributes["patch"] == nil:
		return f.insert(config.OpenBraceRange, config.CloseBraceRange, "patch = {\n"+line+"\n}")
	}
	x := config.Body.Attributes["patch"].Expr
	if isElsewhere(x.Range()) {
		return false
	}
	for i := range path { // in the innermost object that there is
		object, isObject := x.(*hclsyntax.ObjectConsExpr)
		if !isObject {
			return false
		}
		inner := findLiteral(object, path[i])
		if inner == nil {
			end := object.SrcRange
			end.Start.Byte = end.End.Byte - 1
			return f.insert(object.OpenRange, end, nest(path[i:], text)+f.look(*item).comment)
		}
		x = inner.ValueExpr
	}

	return false // it has the field
}

// nest returns a field with the objects around it: a = { b = 1 }.
func nest(path []string, text string) string {
	for _, name := range slices.Backward(path[1:]) {
		text = "{ " + name + " = " + text + " }"
	}

	return path[0] + " = " + text
}

// insert adds lines at the end of what is between two braces.
func (f *fixer) insert(open, end hcl.Range, text string) bool {
	inside := hcl.Range{Filename: open.Filename, Start: open.End, End: end.Start}
	old := strings.TrimSpace(string(inside.SliceBytes(f.site.Sources[open.Filename])))

	return f.replace(inside, "\n"+strings.TrimSpace(old+"\n"+text)+"\n")
}

// look is where an item of an object literal is, and what is around it.
type look struct {
	hcl.Range
	text, before, after string // of the item, and of its lines
	above               string // the line before
	comment             string // after it, with a space before
}

func (f *fixer) look(item hclsyntax.ObjectConsItem) (l look) {
	l.Range = hcl.RangeBetween(item.KeyExpr.Range(), item.ValueExpr.Range())
	src := string(f.site.Sources[l.Filename])
	line := strings.LastIndexByte(src[:l.Start.Byte], '\n') + 1
	l.text = src[l.Start.Byte:l.End.Byte]
	l.before = src[line:l.Start.Byte]
	l.after, _, _ = strings.Cut(src[l.End.Byte:], "\n")
	above := strings.TrimRight(src[:line], "\n")
	l.above = strings.TrimSpace(above[strings.LastIndexByte(above, '\n')+1:])
	if rest := strings.TrimLeft(l.after, ", "); isComment(rest) {
		l.comment = " " + rest
	}

	return l
}

func isComment(line string) bool {
	return strings.HasPrefix(line, "#") || strings.HasPrefix(line, "//")
}

func hasComment(text string) bool {
	tokens, _ := hclsyntax.LexConfig([]byte(text), "", hcl.InitialPos)

	return slices.ContainsFunc(tokens, func(t hclsyntax.Token) bool { return t.Type == hclsyntax.TokenComment })
}

// cut removes an item of an object literal, with its line if nothing else is on it. The line of an item that has a
// comment becomes one itself, so that the comment does not seem to be about the next item; if the item is moved, with
// the comment after it, only if there is one above.
func (f *fixer) cut(typ, attribute, name string, isMoved bool) bool {
	item := f.findSetting(typ, attribute, name)
	if item == nil {
		return false
	}
	l := f.look(*item)
	if hasComment(l.before) || hasComment(l.text) || strings.Contains(l.after, "/*") {
		return false // it may be about this item, or the next one
	}
	at := l.Range
	rest := strings.TrimSpace(l.after)
	isLine := strings.TrimSpace(l.before) == "" && (strings.Trim(rest, ",") == "" || l.comment != "")
	isCommented := isComment(l.above) || strings.HasSuffix(l.above, "*/") || l.comment != "" && !isMoved
	switch {
	case isLine && isCommented:
		at.End.Byte += len(l.after)
		return f.replace(at, "# "+strings.ReplaceAll(l.text, "\n", "\n# ")+l.after)
	case isLine:
		at.Start.Byte -= len(l.before)
		at.End.Byte += len(l.after) + 1
	case strings.HasPrefix(rest, ","):
		at.End.Byte++
	case strings.HasPrefix(rest, "}"):
		at.Start.Byte -= len(l.before) - len(strings.TrimRight(l.before, ", "))
	default:
		return false
	}

	return f.replace(at, "")
}

// replace replaces a part of a file, and formats the file.
func (f *fixer) replace(at hcl.Range, text string) bool {
	files := slices.Clone(f.site.Files)
	for i, file := range files {
		if file.Name != at.Filename {
			continue
		}
		if strings.Contains(file.Text, "\r") || string(lang.Format([]byte(file.Text))) != file.Text {
			f.loose[file.Name] = true
			return false
		}
		fixed := file.Text[:at.Start.Byte] + text + file.Text[at.End.Byte:]
		files[i].Text = string(lang.Format([]byte(fixed)))
	}
	site, diags := lang.Parse(files, app.SiteOptions(f.version))
	f.site = site

	return !diags.HasErrors()
}

// compareSites returns the files that differ between a site and its rewritten form.
func compareSites(before, after *lang.Site) (out []sites.FormattedFile) {
	for i, f := range before.Files {
		if text := after.Files[i].Text; text != f.Text {
			out = append(out, sites.FormattedFile{Path: f.Name, Source: []byte(f.Text), Text: []byte(text)})
		}
	}

	return out
}

// writeFixed replaces the files of a site, or none if one of them has changed since it was read.
func writeFixed(e *app.Env, files []sites.FormattedFile) error {
	for _, f := range files {
		src, why, err := userfile.ReadSite(f.Path, lang.MaxBytes)
		switch {
		case err != nil:
			return fault.FileUnusable.Errorf("%s: %s", f.Path, err)
		case why != "" || !bytes.Equal(src, f.Source):
			return fault.FileRefused.Errorf("%s %s: no file is written", f.Path,
				cmp.Or(why, "has changed meanwhile"))
		}
	}

	for i, f := range files {
		if err := atomicfile.Edit(f.Path, f.Text); err != nil {
			return fault.CannotWrite.Errorf("%s: %s; %d of %d files are written", f.Path, err, i, len(files))
		}
		list := filepath.Join(filepath.Dir(f.Path), lang.ListFile)
		if _, err := os.Lstat(list); err == nil {
			e.Say(list + " has the hash of the file before: sign the site again")
		}
	}

	return nil
}
