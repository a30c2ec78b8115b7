package schema

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/prelet/prelet/internal/model/texts"
)

// maxPlaces is how many places of a name a message has. A name of more blocks, such as timeout, says nothing about
// where it was meant.
const maxPlaces = 3

// suggestElsewhere returns where in the language a name belongs, as a sentence that can be copied; "" if that is not
// known. Of a name that is both a block and an argument elsewhere, the places in the written form count.
func suggestElsewhere(name string, isBlock bool, language []Block) string {
	var asBlock, asArgument []string
	for _, b := range language {
		if b.Type == name {
			return fmt.Sprintf("%s is written outside of all other blocks.", b.Usage())
		}
		blocks, arguments := b.listPlaces(name, "")
		asBlock = append(asBlock, blocks...)
		asArgument = append(asArgument, arguments...)
	}

	places, others := asArgument, asBlock
	if isBlock {
		places, others = asBlock, asArgument
	}
	if len(places) == 0 {
		places = others
	}
	switch {
	case len(places) > maxPlaces:
		return fmt.Sprintf("It is of several blocks: write it in the one that it is for. One of them: %s", places[0])
	case len(language) > 0 && len(places) == 0:
		return suggestKubelet(name)
	}

	return strings.Join(places, " ")
}

// isElsewhere reports whether a name is one of a block or an argument of the language.
func isElsewhere(name string, language []Block) bool {
	return slices.ContainsFunc(language, func(b Block) bool {
		blocks, arguments := b.listPlaces(name, "")

		return b.Type == name || len(blocks)+len(arguments) > 0
	})
}

// listPlaces returns a sentence for each block and for each argument of a name in a block and below it. Outer is the
// end of the sentence, with the blocks around this one.
func (b Block) listPlaces(name, outer string) (blocks, arguments []string) {
	in := b.Usage() + outer
	if s, isField := b.Field(name); isField {
		arguments = append(arguments, fmt.Sprintf("%s = %s belongs in %s.", name, describeForm(s), in))
	}
	for _, n := range b.Blocks {
		if n.Type == name {
			blocks = append(blocks, fmt.Sprintf("%s belongs in %s.", n.Usage(), in))
		}
		inner, more := n.listPlaces(name, ", in "+in)
		blocks = append(blocks, inner...)
		arguments = append(arguments, more...)
	}

	return blocks, arguments
}

// suggestKubelet returns where a name belongs that has the form of a field or of a flag of the kubelet; "" for others.
func suggestKubelet(name string) string {
	const format = "If it is a %s of the kubelet: stage \"write\" \"NAME\" has %s, with %s = { %s = … } in it."
	switch {
	case strings.ContainsFunc(name, unicode.IsUpper) && !strings.ContainsAny(name, "_-"):
		return fmt.Sprintf(format, "field", "kubelet_config { … }", "patch", name)
	case strings.Contains(name, "-"):
		return fmt.Sprintf(format, "flag", "kubelet_flags { … }", "flags", name)
	}

	return ""
}

// suggestNear asks for the known word that was probably meant, as findNear finds it; "" if there is none.
func suggestNear(word string, known []string) string {
	meant := findNear(word, known)
	if meant == "" {
		return ""
	}

	return fmt.Sprintf("Did you mean %q?", meant)
}

// findNear returns the known word that was probably meant: a similar spelling, a part of the word before or after an
// underscore, a known word that ends with it, or a synonym; "" for none.
func findNear(word string, known []string) string {
	meant := texts.Nearest(word, known)
	for _, k := range known {
		isPart := strings.HasPrefix(word, k+"_") || strings.HasSuffix(k, "_"+word) || strings.HasSuffix(word, "_"+k)
		if meant == "" && (isPart || slices.Contains(synonyms()[k], word)) {
			meant = k
		}
	}

	return meant
}

// synonyms are words of other languages by the word of this one.
func synonyms() map[string][]string {
	return map[string][]string{
		"condition":     {"assert", "test", "expr"},
		"content":       {"text", "body", "contents", "inline"},
		"default":       {"value"},
		"error_message": {"message", "msg"},
		"for":           {"timeout", "duration"},
		"hardware":      {"machine", "machines"},
		"local":         {"let"},
		"message":       {"error_message", "reason"},
		"mode":          {"perm", "perms", "file_mode", "chmod"},
		"owner":         {"user", "uid", "chown"},
		"patch":         {"settings", "config"},
		"path":          {"dest", "destination", "filename"},
		"run":           {"test", "case"},
		"timeout":       {"for", "duration", "seconds", "deadline"},
		"variables":     {"vars", "inputs"},
		"when":          {"condition", "enabled", "enable", "only_if"},
	}
}
