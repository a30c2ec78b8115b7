package value

import (
	"math"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/secret"
)

// Literal returns a known value without marks as a site writes it, in one line.
func Literal(v cty.Value) string {
	return Format(v, math.MaxInt, func(cty.Value, cty.Path) string { return "" })
}

// Quote returns s as a quoted template of the language: "${" and "%{" in it are escaped.
func Quote(s string) string { return Literal(cty.StringVal(s)) }

// Format returns a value as a site writes it: each collection in one line of at most width characters, or with a line
// for each element. hide returns the text in place of a part that must not or cannot be shown; "" for other parts.
func Format(v cty.Value, width int, hide func(part cty.Value, at cty.Path) string) string {
	return formatAt(v, nil, width, hide)
}

func formatAt(
	v cty.Value,
	at cty.Path,
	width int,
	hide func(cty.Value, cty.Path) string,
) string {
	if text := hide(v, at); text != "" {
		return text
	}
	v, _ = secret.Open(v)
	if !v.CanIterateElements() {
		return string(hclwrite.TokensForValue(v).Bytes())
	}

	isObject := v.Type().IsObjectType() || v.Type().IsMapType()
	var parts []string
	for it := v.ElementIterator(); it.Next(); {
		key, element := it.Element()
		text := formatAt(element, at.Index(key), width, hide)
		if isObject {
			text = formatName(key.AsString()) + " = " + text
		}
		parts = append(parts, text)
	}

	return joinElements(parts, isObject, len(at), width)
}

func formatName(name string) string {
	if hclsyntax.ValidIdentifier(name) {
		return name
	}

	return Quote(name)
}

// joinElements returns a collection inside of a number of others.
func joinElements(parts []string, isObject bool, depth, width int) string {
	begin, end := "[", "]"
	separator := ","
	line := strings.Join(parts, ", ")
	if isObject {
		begin, end = "{", "}"
		separator = ""
	}
	if isObject && line != "" {
		line = " " + line + " "
	}

	indent := strings.Repeat("  ", depth)
	if len(indent)+len(line) <= width && !strings.Contains(line, "\n") {
		return begin + line + end
	}

	var b strings.Builder
	b.WriteString(begin + "\n")
	for _, part := range parts {
		b.WriteString(indent + "  " + part + separator + "\n")
	}

	return b.String() + indent + end
}

// FormatPath returns a path as a site writes it: .gpus[0].name. An element of a set has no key.
func FormatPath(path cty.Path) string {
	out := ""
	for _, step := range path {
		switch step := step.(type) {
		case cty.GetAttrStep:
			out += FormatStep(step.Name)
		case cty.IndexStep:
			if key, ok := KeyText(step.Key); ok {
				out += FormatStep(key)
			} else {
				out += "[…]"
			}
		}
	}

	return out
}

// FormatStep returns a key as a step of a path: .model, [0], or ["a/b"].
func FormatStep(key string) string {
	_, err := strconv.ParseUint(key, 10, 64)
	switch {
	case err == nil:
		return "[" + key + "]"
	case hclsyntax.ValidIdentifier(key):
		return "." + key
	}

	return "[" + strconv.Quote(key) + "]"
}

// StepKey returns the name of an attribute, or the key or the position of an element, in a step of a reference. ok is
// false for a splat and an unknown key.
func StepKey(step hcl.Traverser) (key string, ok bool) {
	switch step := step.(type) {
	case hcl.TraverseRoot:
		return step.Name, true
	case hcl.TraverseAttr:
		return step.Name, true
	case hcl.TraverseIndex:
		return KeyText(step.Key)
	}

	return "", false
}
