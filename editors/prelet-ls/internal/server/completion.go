package server

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	hcllang "github.com/hashicorp/hcl-lang/lang"

	"github.com/prelet/prelet/internal/lab/reference"
	"github.com/prelet/prelet/internal/plan/lang"
)

// stageLabel is the type of a stage as far as it is typed, before the cursor.
var stageLabel = regexp.MustCompile(`(?:^|[\s{])stage[ \t]+"([\w-]*)$`)

// restOfLabel is the rest of a label behind the cursor, and the quote that ends it.
var restOfLabel = regexp.MustCompile(`^([\w-]*)("?)[ \t]*(.?)`)

// stageItems returns the types of stages where the first label of a stage is typed. A stage that has nothing behind its
// type yet becomes a whole block, if the editor has snippets. hcl-lang does not expect the closing quote that an editor
// adds, and a name that the stage has already.
func (s *Server) stageItems(here at) ([]completionItem, bool) {
	typed := stageLabel.FindStringSubmatch(lastLine(here.text, here.offset))
	isOther := isApart(here.file) || lang.IsVarsFile(here.file)
	if typed == nil || isOther || !isInText(here) {
		return nil, false
	}

	behind := restOfLabel.FindStringSubmatch(restOfLine(here.text, here.offset))
	name, quote, isBare := behind[1], behind[2], behind[3] == ""
	end := here.offset + len(name)
	if isBare {
		end += len(quote)
	}
	place := span{
		Start: positionOf(here.text, here.offset-len(typed[1])),
		End:   positionOf(here.text, end),
	}

	types := s.language.StageTypes()
	out := []completionItem{}
	for _, t := range slices.Sorted(maps.Keys(types)) {
		if !strings.HasPrefix(t, typed[1]) {
			continue
		}
		item := completionItem{
			Label:            t,
			Kind:             kindEnum,
			Detail:           types[t].Phase.String() + " stage",
			Documentation:    markdown(types[t].Doc),
			InsertTextFormat: plainText,
			TextEdit:         &textEdit{Range: place, NewText: t},
		}
		switch {
		case isBare && s.hasSnippets:
			item.InsertTextFormat = snippet
			item.TextEdit.NewText = stageSnippet(types[t])
		case isBare:
			item.TextEdit.NewText = t + `"`
		}
		out = append(out, item)
	}

	return out, true
}

// stageSnippet returns the text behind the first quote of a stage: its name and its required arguments are to be
// filled in.
func stageSnippet(t reference.StageType) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\" \"${1:name}\" {\n", t.Block.Type)
	next := 2
	for _, f := range t.Block.Fields {
		if spec := f.Spec(); spec.Required {
			fmt.Fprintf(&text, "  %s = $%d\n", spec.Name, next)
			next++
		}
	}
	text.WriteString("  $0\n}")

	return text.String()
}

// word is the word around the cursor: its bytes before and behind it.
type word struct{ before, behind string }

var (
	wordBefore = regexp.MustCompile(`[\pL\pN_-]*$`)
	wordBehind = regexp.MustCompile(`^[\pL\pN_-]*`)
)

func wordAround(here at) word {
	return word{
		before: wordBefore.FindString(lastLine(here.text, here.offset)),
		behind: wordBehind.FindString(restOfLine(here.text, here.offset)),
	}
}

// isBehindDot reports whether the word at the cursor is an attribute of the value before its dot.
func isBehindDot(here at) bool {
	before := strings.TrimSuffix(lastLine(here.text, here.offset), wordAround(here).before)

	return strings.HasSuffix(before, ".") && !isInText(here)
}

// isUseful reports whether a candidate of hcl-lang can be written at the cursor. hcl-lang offers arguments and blocks
// where a quote is open, and by a prefix that it does not always see.
func isUseful(here at, c hcllang.Candidate) bool {
	if !isName(c.Kind) {
		return true
	}

	return !isInText(here) && strings.HasPrefix(c.Label, wordAround(here).before)
}

// isName reports whether a candidate is the name of an argument or a block.
func isName(k hcllang.CandidateKind) bool {
	return k == hcllang.AttributeCandidateKind || k == hcllang.BlockCandidateKind
}

// fitName makes the name of an argument or a block replace the word at the cursor and nothing else: hcl-lang would
// replace the value behind it too. The text behind the name is not written again.
func fitName(here at, item *completionItem) {
	w := wordAround(here)
	item.TextEdit.Range = span{
		Start: positionOf(here.text, here.offset-len(w.before)),
		End:   positionOf(here.text, here.offset+len(w.behind)),
	}

	behind := strings.TrimPrefix(restOfLine(here.text, here.offset), w.behind)
	if strings.Trim(behind, " \t") != "" {
		item.TextEdit.NewText = item.Label
		item.InsertTextFormat = plainText
		item.Command = nil
	}
}
