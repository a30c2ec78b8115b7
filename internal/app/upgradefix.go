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

// edit replaces a part of a file.
type edit struct {
	hcl.Range
	text string
}

// isNeedless reports whether a kubelet that takes a flag does not need it: from 1.24 on --container-runtime has one
// value, and --pod-infra-container-image only keeps an image from being removed, as the runtime does with its own.
// Source: the messages of deprecation in cmd/kubelet/app/options
func isNeedless(flag string, minor int) bool {
	return minor >= 24 && (flag == "container-runtime" || flag == "pod-infra-container-image")
}

// fixSite returns a site without the settings that a report of newer kubelets names, as far as that is safe. Flags that
// its last version no longer has and that kubelets in place do not need are cut, and so are feature gates. Flags with a
// field of the configuration are moved to the patch. Only literals are rewritten, and no field or gate of keep, which
// kubelets in place would then have otherwise.
func fixSite(site *lang.Site, u *fleet.Upgrade, version string, keep map[string]bool) *lang.Site {
	to, _ := known.Minor(u.To)
	from := to
	for text := range u.From {
		minor, _ := known.Minor(text)
		from = min(from, minor)
	}

	for _, row := range u.Effects {
		for _, writer := range site.OfType(stages.Write) {
			var edits []edit
			if flag, isFlag := strings.CutPrefix(row.Item, "flag/"); isFlag {
				flag, _, _ = strings.Cut(flag, "/")
				edits = fixFlag(site, writer.Body, flag, from, to, keep)
			}
			if gate, isGate := strings.CutPrefix(row.Item, "config/featureGates."); isGate && !keep[gate] {
				edits = fixGate(site, writer.Body, gate, to)
			}
			if fixed, diags := lang.Parse(applyEdits(site, edits), siteOptions(version)); !diags.HasErrors() {
				site = fixed
			}
		}
	}

	return site
}

// fixFlag returns how a flag of a stage write is removed, and written as a field where it has one in all versions.
func fixFlag(
	site *lang.Site, body *hclsyntax.Body, name string, from, to int, keep map[string]bool,
) []edit {
	block, item := findSetting(body, "kubelet_flags", "flags", name)
	flag, isKnown := known.FlagAt(name, from)
	if item == nil || !isKnown {
		return nil
	}
	cut, comment, isSafe := cutItem(site, *item)
	_, isInOld := known.FieldAt(flag.Field, from)
	_, isInNew := known.FieldAt(flag.Field, to)
	_, stays := known.FlagAt(name, to)
	field, _, _ := strings.Cut(flag.Field, ".")
	switch {
	case !isSafe || keep[field]:
		return nil
	case isInOld && isInNew:
		moved := moveToPatch(site, body, block, flag.Field, convertFlag(name, flag.Field, *item, from), comment)
		if moved == nil {
			return nil
		}
		return append(moved, cut)
	case !isNeedless(name, from) || stays:
		return nil
	}

	return []edit{cut.keeping(comment, name)}
}

// keeping returns a cut that leaves the comment of an item in its place, with the item's name.
func (e edit) keeping(comment, name string) edit {
	if text := strings.TrimLeft(comment, " #/"); text != "" {
		e.text = "# " + name + ": " + text + "\n"
	}

	return e
}

// fixGate returns how a feature gate is removed that the last version does not have, or not as a choice.
func fixGate(site *lang.Site, body *hclsyntax.Body, name string, to int) []edit {
	_, item := findSetting(body, "kubelet_config", "patch", "featureGates."+name)
	later, stays := known.GateAt(name, to)
	if item == nil || stays && !later.Locked {
		return nil
	}
	cut, comment, isSafe := cutItem(site, *item)
	if !isSafe {
		return nil
	}

	return []edit{cut.keeping(comment, name)}
}

// findSetting returns the item of an attribute of a block, such as maxPods or featureGates.X, if all around it is
// literal and unconditional.
func findSetting(body *hclsyntax.Body, typ, attribute, name string) (*hclsyntax.Block, *hclsyntax.ObjectConsItem) {
	block := findBlock(body, typ)
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

func findBlock(body *hclsyntax.Body, typ string) *hclsyntax.Block {
	i := slices.IndexFunc(body.Blocks, func(b *hclsyntax.Block) bool { return b.Type == typ })
	if i < 0 {
		return nil
	}

	return body.Blocks[i]
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

// moveToPatch returns how a field is added to the patch of a stage write; nil if that is not safe. flags is the block
// of its flags: a new block is written before it.
func moveToPatch(site *lang.Site, body *hclsyntax.Body, flags *hclsyntax.Block, field, text, comment string) []edit {
	config := findBlock(body, "kubelet_config")
	path := strings.Split(field, ".")
	switch {
	case text == "":
		return nil
	case config != nil && (isConditional(config) || config.TypeRange.Filename != flags.TypeRange.Filename):
		return nil // it may not be of all sites that have these flags
	case config == nil:
		at := hcl.Range{Filename: flags.TypeRange.Filename, Start: flags.TypeRange.Start, End: flags.TypeRange.Start}
		block := "kubelet_config {\npatch = {\n" + nest(path, text) + comment + "\n}\n}\n"
		return []edit{{at, indent(block, strings.Repeat(" ", at.Start.Column-1))}}
	}
	patch := config.Body.Attributes["patch"]
	if patch == nil {
		written := "patch = {\n" + nest(path, text) + comment + "\n}"
		return insertLines(site, config.OpenBraceRange, config.CloseBraceRange, written)
	}
	object, isLiteral := patch.Expr.(*hclsyntax.ObjectConsExpr)
	if !isLiteral {
		return nil
	}

	return addField(site, object, path, text, comment)
}

// addField returns how a field is added to an object literal; nil if it has the field.
func addField(site *lang.Site, object *hclsyntax.ObjectConsExpr, path []string, text, comment string) []edit {
	if item := findLiteral(object, path[0]); item != nil {
		inner, isObject := item.ValueExpr.(*hclsyntax.ObjectConsExpr)
		if len(path) == 1 || !isObject {
			return nil
		}
		return addField(site, inner, path[1:], text, comment)
	}
	end := object.SrcRange
	end.Start = end.End
	end.Start.Byte--

	return insertLines(site, object.OpenRange, end, nest(path, text)+comment)
}

// nest returns a field with the objects around it: a = { b = 1 }.
func nest(path []string, text string) string {
	for _, name := range slices.Backward(path[1:]) {
		text = "{ " + name + " = " + text + " }"
	}

	return path[0] + " = " + text
}

// insertLines returns how lines are added at the end of what is between two braces, which may be on one line.
func insertLines(site *lang.Site, open, end hcl.Range, text string) []edit {
	inside := open
	inside.Start = open.End
	inside.End = end.Start
	old := string(inside.SliceBytes(site.Sources[open.Filename]))
	line := strings.LastIndexByte(old, '\n') + 1
	if line == 0 || strings.TrimSpace(old[line:]) != "" {
		return []edit{{inside, "\n" + strings.TrimSpace(old+"\n"+text) + "\n"}}
	}
	inside.Start.Byte += line
	inside.End.Byte = inside.Start.Byte
	margin, _, _ := strings.Cut(old, strings.TrimSpace(old))
	margin = margin[strings.LastIndexByte(margin, '\n')+1:]

	return []edit{{inside, margin + indent(text, margin) + "\n"}}
}

// indent returns lines in the canonical form, all but the first one after a margin.
func indent(lines, margin string) string {
	return strings.ReplaceAll(string(lang.Format([]byte(lines))), "\n", "\n"+margin)
}

// cutItem returns how an item of an object literal is removed: with its line and the comment after it, if nothing else
// is on that line.
func cutItem(site *lang.Site, item hclsyntax.ObjectConsItem) (out edit, comment string, isSafe bool) {
	at := hcl.RangeBetween(item.KeyExpr.Range(), item.ValueExpr.Range())
	src := site.Sources[at.Filename]
	tokens, _ := hclsyntax.LexConfig(src, at.Filename, hcl.InitialPos)
	next := slices.IndexFunc(tokens, func(t hclsyntax.Token) bool { return t.Range.Start.Byte >= at.End.Byte })
	hasComma := tokens[next].Type == hclsyntax.TokenComma
	if hasComma {
		at.End = tokens[next].Range.End
		next++
	}

	last := tokens[next]
	line := bytes.LastIndexByte(src[:at.Start.Byte], '\n') + 1
	isLine := len(bytes.TrimSpace(src[line:at.Start.Byte])) == 0 && bytes.HasSuffix(last.Bytes, []byte("\n"))
	before := bytes.TrimRight(src[:at.Start.Byte], " ")
	switch {
	case isLine:
		at.Start.Byte = line
		at.End = last.Range.End
		comment = strings.TrimRight(" "+string(last.Bytes), " \r\n")
	case !hasComma && last.Type == hclsyntax.TokenCBrace && bytes.HasSuffix(before, []byte(",")):
		at.Start.Byte = len(before) - 1
	}

	return edit{Range: at}, comment, isLine || hasComma || last.Type == hclsyntax.TokenCBrace
}

// applyEdits returns the files of a site with edits. A file in the canonical form stays in it.
func applyEdits(site *lang.Site, edits []edit) []world.SiteFile {
	files := slices.Clone(site.Files)
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(b.Start.Byte, a.Start.Byte) })
	for i, f := range files {
		isCanonical := string(lang.Format([]byte(f.Text))) == f.Text
		for _, e := range edits {
			if e.Filename == f.Name {
				files[i].Text = files[i].Text[:e.Start.Byte] + e.text + files[i].Text[e.End.Byte:]
			}
		}
		if isCanonical {
			files[i].Text = string(lang.Format([]byte(files[i].Text)))
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
