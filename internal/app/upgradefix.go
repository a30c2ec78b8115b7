package app

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

	"github.com/prelet/prelet/internal/app/userfile"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/insight/fleet"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/kubelet/rules"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages"
)

// edit replaces a part of a file, from one byte to another.
type edit struct {
	file     string
	from, to int
	text     string
}

// fixer rewrites the stage write of a site.
type fixer struct {
	site     *lang.Site
	body     *hclsyntax.Body
	from, to int             // minor versions: of the oldest kubelet in place, and of the newest one
	keep     map[string]bool // fields and feature gates that stay as they are
}

// fixSite returns a site without the settings that a report of newer kubelets names, as far as that is safe. Flags that
// its last version no longer has and that kubelets in place do not need are cut, and so are feature gates. Flags with a
// field of the configuration are moved to the patch. Only literals are rewritten, and no field or gate of keep, which
// kubelets in place would then have otherwise. loose are the files that stay as they are because `prelet fmt` would
// change them: what an edit changes in them besides is not known.
func fixSite(
	site *lang.Site, u *fleet.Upgrade, version string, keep map[string]bool,
) (fixed *lang.Site, loose map[string]bool) {
	to, _ := known.Minor(u.To)
	from := to
	for text := range u.From {
		minor, _ := known.Minor(text)
		from = min(from, minor)
	}

	loose = map[string]bool{}
	for _, row := range u.Effects {
		for _, writer := range site.OfType(stages.Write) { // one at most
			f := fixer{site, writer.Body, from, to, keep}
			edits := f.fix(row.Item)
			for _, e := range edits {
				if !isCanonical(site.Sources[e.file]) {
					loose[e.file] = true
					edits = nil
				}
			}
			if fixed, diags := lang.Parse(applyEdits(site, edits), siteOptions(version)); !diags.HasErrors() {
				site = fixed
			}
		}
	}

	return site, loose
}

// isCanonical reports whether a file is as `prelet fmt` writes it, with line ends of Linux.
func isCanonical(src []byte) bool {
	return !bytes.ContainsRune(src, '\r') && bytes.Equal(lang.Format(src), src)
}

// fix returns how an item, flag/NAME or config/featureGates.NAME, is rewritten; nil if that is not safe.
func (f fixer) fix(item string) []edit {
	if flag, isFlag := strings.CutPrefix(item, "flag/"); isFlag {
		flag, _, _ = strings.Cut(flag, "/")
		return f.fixFlag(flag)
	}
	gate, isGate := strings.CutPrefix(item, "config/featureGates.")
	later, stays := known.GateAt(gate, f.to)
	_, set := f.findSetting("kubelet_config", "patch", "featureGates."+gate)
	if !isGate || f.keep[gate] || set == nil || stays && !later.Locked {
		return nil
	}
	cut, _ := f.cutItem(*set, false)

	return cut
}

// isNeedless reports whether a kubelet that takes a flag does not need it: from 1.24 on --container-runtime has one
// value, and --pod-infra-container-image only keeps an image from being removed, as the runtime does with its own.
// Source: the messages of deprecation in cmd/kubelet/app/options
func isNeedless(flag string, minor int) bool {
	return minor >= 24 && (flag == "container-runtime" || flag == "pod-infra-container-image")
}

// fixFlag returns how a flag is removed, and written as a field where it has one in all versions.
func (f fixer) fixFlag(name string) []edit {
	block, item := f.findSetting("kubelet_flags", "flags", name)
	flag, isKnown := known.FlagAt(name, f.from)
	if item == nil || !isKnown {
		return nil
	}
	_, isInOld := known.FieldAt(flag.Field, f.from)
	_, isInNew := known.FieldAt(flag.Field, f.to)
	_, stays := known.FlagAt(name, f.to)
	isMoved := isInOld && isInNew
	field, _, _ := strings.Cut(flag.Field, ".")
	cut, comment := f.cutItem(*item, isMoved)
	switch {
	case cut == nil || f.keep[field]:
		return nil
	case isMoved:
		moved := f.moveToPatch(block, flag.Field, convertFlag(name, flag.Field, *item, f.from), comment)
		if moved == nil {
			return nil
		}
		return append(moved, cut...)
	case stays || !isNeedless(name, f.from):
		return nil
	}

	return cut
}

// findSetting returns the item of an attribute of a block, such as maxPods or featureGates.X, if all around it is
// literal and unconditional.
func (f fixer) findSetting(typ, attribute, name string) (*hclsyntax.Block, *hclsyntax.ObjectConsItem) {
	block := f.findBlock(typ)
	if block == nil || isConditional(block) || block.Body.Attributes[attribute] == nil {
		return nil, nil
	}
	object, _ := block.Body.Attributes[attribute].Expr.(*hclsyntax.ObjectConsExpr)

	return block, findLiteral(object, name)
}

func findLiteral(object *hclsyntax.ObjectConsExpr, name string) *hclsyntax.ObjectConsItem {
	if object == nil {
		return nil
	}
	for _, item := range object.Items {
		key, _ := value.LiteralText(item.KeyExpr)
		if key == name || kubelet.FlagName(key) == name {
			return &item
		}
		inner, isObject := item.ValueExpr.(*hclsyntax.ObjectConsExpr)
		if rest, isInside := strings.CutPrefix(name, key+"."); isInside && isObject {
			return findLiteral(inner, rest)
		}
	}

	return nil
}

func (f fixer) findBlock(typ string) *hclsyntax.Block {
	i := slices.IndexFunc(f.body.Blocks, func(b *hclsyntax.Block) bool { return b.Type == typ })
	if i < 0 {
		return nil
	}

	return f.body.Blocks[i]
}

func isConditional(b *hclsyntax.Block) bool {
	return b.Body.Attributes["when"] != nil || b.Body.Attributes["for_each"] != nil
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
		Version: known.Version(minor),
	})
	set, _ := kubelet.LookUp(config, "/"+strings.ReplaceAll(field, ".", "/"))
	_, isObject := set.(map[string]any)
	isZero := slices.Contains([]string{"", "0", "0s"}, fmt.Sprint(set))
	converted, err := value.FromGo(set)
	isDefaultOfOther := field == "nodeStatusUpdateFrequency"
	if set == nil || isZero || isDefaultOfOther || isObject && name != "feature-gates" || err != nil {
		return ""
	}

	return string(hclwrite.TokensForValue(converted).Bytes())
}

// moveToPatch returns how a field is added to the patch; nil if that is not safe. flags is the block of its flags: a
// new block is written after it.
func (f fixer) moveToPatch(flags *hclsyntax.Block, field, text, comment string) []edit {
	path := strings.Split(field, ".")
	config := f.findBlock("kubelet_config")
	at := flags.CloseBraceRange
	switch {
	case text == "":
		return nil
	case config == nil:
		block := "\nkubelet_config {\npatch = {\n" + nest(path, text) + comment + "\n}\n}"
		return []edit{{at.Filename, at.End.Byte, at.End.Byte, block}}
	case isConditional(config) || config.TypeRange.Filename != at.Filename:
		return nil // it may not be of all sites that have these flags
	}
	patch := config.Body.Attributes["patch"]
	if patch == nil {
		written := "patch = {\n" + nest(path, text) + comment + "\n}"
		return f.insertLines(config.OpenBraceRange, config.CloseBraceRange.Start.Byte, written)
	}
	object, isLiteral := patch.Expr.(*hclsyntax.ObjectConsExpr)
	if !isLiteral {
		return nil
	}

	return f.addField(object, path, text, comment)
}

// addField returns how a field is added to an object literal; nil if it has the field.
func (f fixer) addField(object *hclsyntax.ObjectConsExpr, path []string, text, comment string) []edit {
	if item := findLiteral(object, path[0]); item != nil {
		inner, isObject := item.ValueExpr.(*hclsyntax.ObjectConsExpr)
		if len(path) == 1 || !isObject {
			return nil
		}
		return f.addField(inner, path[1:], text, comment)
	}

	return f.insertLines(object.OpenRange, object.SrcRange.End.Byte-1, nest(path, text)+comment)
}

// nest returns a field with the objects around it: a = { b = 1 }.
func nest(path []string, text string) string {
	for _, name := range slices.Backward(path[1:]) {
		text = "{ " + name + " = " + text + " }"
	}

	return path[0] + " = " + text
}

// insertLines returns how lines are added before the closing brace at a byte. What begins in the line of the opening
// brace gets a line of its own.
func (f fixer) insertLines(open hcl.Range, end int, text string) (out []edit) {
	from := open.End.Byte
	old := string(f.site.Sources[open.Filename][from:end])
	if first, _, _ := strings.Cut(old, "\n"); strings.TrimSpace(first) != "" {
		out = append(out, edit{open.Filename, from, from, "\n"})
	}

	return append(out, edit{open.Filename, from + len(strings.TrimRight(old, " \n")), end, "\n" + text + "\n"})
}

// cutItem returns how an item of an object literal is removed: with its line, if nothing else is on that line; nil if
// that is not safe. comment is the one after it. The line of an item that has a comment becomes one itself, so that the
// comment does not seem to be about the next item; if the item is moved, with the comment after it, only if there is
// one above.
func (f fixer) cutItem(item hclsyntax.ObjectConsItem, isMoved bool) (cut []edit, comment string) {
	at := hcl.RangeBetween(item.KeyExpr.Range(), item.ValueExpr.Range())
	src := string(f.site.Sources[at.Filename])
	start, end := at.Start.Byte, at.End.Byte
	line := strings.LastIndexByte(src[:start], '\n') + 1
	rest, _, _ := strings.Cut(src[end:], "\n")
	after, hasComma := strings.CutPrefix(rest, ",")
	after = strings.TrimSpace(after)
	isComment := func(s string) bool { return strings.HasPrefix(s, "#") || strings.HasPrefix(s, "//") }
	above := strings.TrimRight(src[:line], "\n")
	above = strings.TrimSpace(above[strings.LastIndexByte(above, '\n')+1:])
	before := strings.TrimRight(src[line:start], " ")
	switch {
	case before == "" && (after == "" || isComment(after)):
		if after != "" {
			comment = " " + after
		}
		if isComment(above) || strings.HasSuffix(above, "*/") || after != "" && !isMoved {
			text := strings.ReplaceAll(src[start:end]+rest, "\n", "\n# ")
			return []edit{{at.Filename, start, end + len(rest), "# " + text}}, comment
		}
		return []edit{{at.Filename, line, end + len(rest) + 1, ""}}, comment
	case hasComma:
		end++
	case !strings.HasPrefix(after, "}"):
		return nil, ""
	case strings.HasSuffix(before, ","): // it is the last one
		start = line + len(before) - 1
	}

	return []edit{{at.Filename, start, end, ""}}, ""
}

// applyEdits returns the files of a site with edits, in the canonical form.
func applyEdits(site *lang.Site, edits []edit) []world.SiteFile {
	files := slices.Clone(site.Files)
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(b.from, a.from) })
	for i, f := range files {
		text := f.Text
		for _, e := range edits {
			if e.file == f.Name {
				text = text[:e.from] + e.text + text[e.to:]
			}
		}
		if text != f.Text {
			files[i].Text = string(lang.Format([]byte(text)))
		}
	}

	return files
}

// compareSites returns the files that differ between a site and its rewritten form.
func compareSites(before, after *lang.Site) (out []FormattedFile) {
	for i, f := range before.Files {
		if text := after.Files[i].Text; text != f.Text {
			out = append(out, FormattedFile{Path: f.Name, Source: []byte(f.Text), Text: []byte(text)})
		}
	}

	return out
}

// writeFixed replaces the files of a site, or none if one of them has changed since it was read.
func (e *Env) writeFixed(files []FormattedFile) error {
	for _, f := range files {
		src, why, err := userfile.ReadSite(f.Path)
		switch {
		case err != nil:
			return failure(fault.FileUnusable, "%s: %s", f.Path, err)
		case why != "" || !bytes.Equal(src, f.Source):
			return failure(fault.FileRefused, "%s %s: no file is written", f.Path,
				cmp.Or(why, "has changed meanwhile"))
		}
	}

	for i, f := range files {
		if err := replaceContent(f.Path, f.Text); err != nil {
			return failure(fault.CannotWrite, "%s: %s; %d of %d files are written", f.Path, err, i, len(files))
		}
		list := filepath.Join(filepath.Dir(f.Path), lang.ListFile)
		if _, err := os.Lstat(list); err == nil {
			e.Say(list + " has the hash of the file before: sign the site again")
		}
	}

	return nil
}
