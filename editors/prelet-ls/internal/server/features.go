package server

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	hcllang "github.com/hashicorp/hcl-lang/lang"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/sourcegraph/jsonrpc2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/editors/prelet-ls/internal/language"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/schema"
)

// at is a position in an open document of a site.
type at struct {
	site
	params documentParams
	file   string
	text   string
	offset int
}

// complete offers what may be written at a position: the members of the reference before it, or what hcl-lang finds in
// the schema.
func (s *Server) complete(here at) (any, error) {
	if isInComment(here) {
		return completionList{Items: []completionItem{}}, nil
	}

	if types, ok := s.stageItems(here); ok {
		return completionList{Items: types}, nil
	}
	members, place, ok := here.index.Members(lastLine(here.text, here.offset))
	if ok && place.IsIndex == isInText(here) {
		return completionList{Items: memberItems(here, members, place.Typed)}, nil
	}
	if isBehindDot(here) {
		return completionList{Items: []completionItem{}}, nil // of a value that only an evaluation knows
	}

	found, err := s.completionsOf(here)
	if err != nil {
		return completionList{Items: []completionItem{}}, nil
	}

	out := completionList{IsIncomplete: !found.IsComplete, Items: []completionItem{}}
	for _, c := range found.List {
		if isUseful(here, c) {
			out.Items = append(out.Items, s.candidateItem(here, c))
		}
	}

	return out, nil
}

// completionsOf returns the candidates of hcl-lang. hcl-lang panics at some places, such as behind the equals sign of
// `sensitive = true` (completeBoolAtPos): there it offers nothing.
func (s *Server) completionsOf(here at) (found hcllang.Candidates, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.options.Log.Printf("completion: hcl-lang: %v", p)
			found, err = hcllang.CompleteCandidates(nil), nil
		}
	}()

	return s.decoder(here).CompletionAtPos(s.ending, here.file, posOf(here.text, here.offset))
}

// isInComment reports whether a position is inside of a comment, where nothing is offered. The token of a comment of
// one line has the end of the line, if there is one.
func isInComment(here at) bool {
	t, ok := tokenBefore(here)
	isOpen := !strings.HasSuffix(string(t.Bytes), "*/") && !strings.HasSuffix(string(t.Bytes), "\n")

	return ok && t.Type == hclsyntax.TokenComment && (here.offset < t.Range.End.Byte || isOpen)
}

// isInText reports whether a position is in quotes or in a heredoc, and not in ${ }.
func isInText(here at) bool {
	t, ok := tokenBefore(here)
	texts := []hclsyntax.TokenType{
		hclsyntax.TokenOQuote, hclsyntax.TokenQuotedLit, hclsyntax.TokenOHeredoc, hclsyntax.TokenStringLit,
	}

	return ok && slices.Contains(texts, t.Type)
}

// tokenBefore returns the token of the byte before a position.
func tokenBefore(here at) (hclsyntax.Token, bool) {
	tokens, _ := hclsyntax.LexConfig([]byte(here.text), here.file, hcl.InitialPos)
	for _, t := range tokens {
		if t.Range.Start.Byte < here.offset && here.offset <= t.Range.End.Byte {
			return t, true
		}
	}

	return hclsyntax.Token{}, false
}

func memberItems(here at, members []language.Member, typed int) []completionItem {
	edit := span{
		Start: positionOf(here.text, here.offset-typed),
		End:   positionOf(here.text, here.offset),
	}

	out := []completionItem{}
	for _, m := range members {
		item := completionItem{
			Label:         m.Name,
			Kind:          kindField,
			Documentation: markdown(m.Doc),
			TextEdit:      &textEdit{Range: edit, NewText: m.Name},
		}
		if m.Type != cty.NilType {
			item.Detail = schema.TypeName(m.Type)
		}
		out = append(out, item)
	}

	return out
}

func (s *Server) candidateItem(here at, c hcllang.Candidate) completionItem {
	item := completionItem{
		Label:         c.Label,
		Kind:          candidateKind(c.Kind),
		Detail:        c.Detail,
		Documentation: markdown(c.Description.Value),
		TextEdit: &textEdit{
			Range:   spanOf(here.text, c.TextEdit.Range),
			NewText: c.TextEdit.NewText,
		},
		InsertTextFormat: plainText,
	}
	if s.hasSnippets && c.TextEdit.Snippet != "" {
		item.TextEdit.NewText = c.TextEdit.Snippet
		item.InsertTextFormat = snippet
	}
	if c.TriggerSuggest && s.hasSnippets {
		item.Command = &command{Title: "Suggest", Command: "editor.action.triggerSuggest"}
	}
	if isName(c.Kind) {
		fitName(here, &item)
	}

	return item
}

func candidateKind(k hcllang.CandidateKind) int {
	switch k {
	case hcllang.AttributeCandidateKind:
		return kindField
	case hcllang.BlockCandidateKind:
		return kindModule
	case hcllang.LabelCandidateKind:
		return kindEnum
	case hcllang.FunctionCandidateKind:
		return kindFunction
	case hcllang.ReferenceCandidateKind:
		return kindReference
	case hcllang.KeywordCandidateKind, hcllang.BoolCandidateKind:
		return kindKeyword
	}

	return kindValue
}

// hover shows the type and the documentation of the reference, block, argument or function at a position.
func (s *Server) hover(here at) (any, error) {

	use, ok := here.index.At(here.file, here.offset)
	if ok && use.Traversal != nil {
		return here.hoverReference(use), nil
	}
	if symbol, ok := here.index.Find(use.Address); ok {
		return here.hoverText(use.Range, symbol.Address(), symbol.Type, symbol.Doc), nil
	}
	if call, ok := s.hoverCall(here); ok {
		return call, nil
	}

	found, err := s.decoder(here).HoverAtPos(s.ending, here.file, posOf(here.text, here.offset))
	if err != nil || found == nil {
		return nil, nil
	}

	return here.describe(found.Range, found.Content.Value), nil
}

// hoverReference describes the part of a reference up to the cursor: gpus in stage.detect-hw.node.gpus[0].model.
func (here at) hoverReference(use language.Use) any {
	t := use.Traversal
	first := min(language.NameStep(t.RootName()), len(t)-1)
	for i := range t {
		if i >= first && here.offset <= t[i].SourceRange().End.Byte {
			t = t[:i+1]
			break
		}
	}
	r, ok := here.index.Resolve(t)
	if !ok {
		return nil
	}

	return here.hoverText(t.SourceRange(), r.Address, r.Type, r.Doc)
}

// hoverCall describes the function whose name is at a position. hcl-lang finds it only where it knows the type.
func (s *Server) hoverCall(here at) (hover, bool) {
	body, ok := here.files[here.file].Body.(*hclsyntax.Body)
	if !ok {
		return hover{}, false
	}

	var found *hclsyntax.FunctionCallExpr
	_ = hclsyntax.VisitAll(body, func(n hclsyntax.Node) hcl.Diagnostics {
		call, ok := n.(*hclsyntax.FunctionCallExpr)
		if ok && call.NameRange.Start.Byte <= here.offset && here.offset <= call.NameRange.End.Byte {
			found = call
		}
		return nil
	})
	if found == nil {
		return hover{}, false
	}
	f, ok := s.language.Functions[found.Name]

	return here.describe(found.NameRange, f.Description), ok
}

func (here at) hoverText(at hcl.Range, address string, t cty.Type, doc string) any {
	text := fmt.Sprintf("```hcl\n%s: %s\n```", address, schema.TypeName(t))
	if doc != "" {
		text += "\n\n" + doc
	}

	return here.describe(at, text)
}

func (here at) describe(place hcl.Range, text string) hover {
	return hover{Contents: markdown(text), Range: here.rangeIn(place)}
}

// signature shows the parameters of the call around a position.
func (s *Server) signature(here at) (any, error) {
	found, err := s.decoder(here).SignatureAtPos(here.file, posOf(here.text, here.offset))
	if err != nil || found == nil {
		return nil, nil
	}

	sig := signature{
		Label:         found.Name,
		Documentation: markdown(found.Description.Value),
	}
	for _, x := range found.Parameters {
		sig.Parameters = append(sig.Parameters, parameter{Label: x.Name})
	}

	return signatureHelp{Signatures: []signature{sig}, ActiveParameter: int(found.ActiveParameter)}, nil
}

// definition returns where the name at a position is defined.
func (s *Server) definition(here at) (any, error) {
	use, ok := here.use()
	if !ok {
		return nil, nil
	}
	symbol, ok := here.index.Find(use.Address)
	if !ok {
		return nil, nil
	}

	return here.location(symbol.Range), nil
}

// references returns the places where the name at a position is written.
func (s *Server) references(here at) (any, error) {
	use, ok := here.use()
	if !ok {
		return nil, nil
	}

	out := []location{}
	for _, u := range here.index.UsesOf(use.Address) {
		if !u.IsDefinition || here.params.Context.IncludeDeclaration {
			out = append(out, here.location(u.Range))
		}
	}

	return out, nil
}

// use returns the name at a position: a definition of the site, or a reference to it.
func (here at) use() (language.Use, bool) {
	use, ok := here.index.At(here.file, here.offset)

	return use, ok && use.Address != ""
}

func (here at) location(r hcl.Range) location {
	return location{URI: uriOf(r.Filename), Range: here.rangeIn(r)}
}

// prepareRename returns the name at a position, if the site defines it.
func (s *Server) prepareRename(here at) (any, error) {
	use, ok := here.use()
	if !ok {
		return nil, nil
	}
	if _, ok := here.index.Find(use.Address); !ok {
		return nil, nil
	}

	return here.rangeIn(use.Range), nil
}

// nameOf is a name that the language allows.
var nameOf = regexp.MustCompile(`^\pL[\pL\pN_-]*$`)

// rename changes a name everywhere in the site, its vars files and its tests. It refuses a name that the language does
// not allow or the site has already, and a site with a file that it cannot read as a whole.
func (s *Server) rename(here at) (any, error) {
	use, ok := here.use()
	if !ok {
		return nil, refuse("found no variable, local or stage at this place")
	}
	symbol, ok := here.index.Find(use.Address)
	if !ok {
		return nil, refuse("%s is not defined in this site", use.Address)
	}
	if !nameOf.MatchString(here.params.NewName) {
		const text = "invalid name %q: a name is a letter, followed by letters, digits, _ and -"
		return nil, refuse(text, here.params.NewName)
	}

	renamed := symbol
	renamed.Name = here.params.NewName
	_, exists := here.index.Find(renamed.Address())
	if exists && here.params.NewName != symbol.Name {
		return nil, refuse("the site has %s already", renamed.Address())
	}
	for _, file := range slices.Sorted(maps.Keys(here.unread)) {
		const text = "%s: its references to %s may be incomplete; fix that file first"
		return nil, refuse(text, here.unread[file], symbol.Name)
	}

	edit := workspaceEdit{Changes: map[string][]textEdit{}}
	for _, u := range here.index.UsesOf(use.Address) {
		uri := uriOf(u.Range.Filename)
		change := textEdit{Range: here.rangeIn(u.Range), NewText: here.params.NewName}
		edit.Changes[uri] = append(edit.Changes[uri], change)
	}

	return edit, nil
}

// codeRequestFailed is the protocol's error for a valid request that has no result.
const codeRequestFailed = -32803

func refuse(format string, args ...any) error {
	return &jsonrpc2.Error{Code: codeRequestFailed, Message: fmt.Sprintf(format, args...)}
}

// format returns the edits that make a text as `prelet fmt` writes it. A text with a syntax error has none: its
// diagnostics say why.
func (s *Server) format(p documentParams) (any, error) {
	file, d := s.find(p.TextDocument.URI)
	if d == nil || !lang.IsNative(file) {
		return nil, nil
	}
	formatted, diags := lang.FormatFile(file, []byte(d.text))
	if diags.HasErrors() {
		return nil, nil
	}

	return lineEdits(d.text, string(formatted)), nil
}

// lineEdits returns one edit for each line that differs, so that the cursor stays. Formatting changes only the spaces
// of lines. The ends of lines, LF or CR LF, are not part of an edit.
func lineEdits(before, after string) []textEdit {
	from, to := strings.Split(before, "\n"), strings.Split(after, "\n")
	out := []textEdit{}
	if len(from) != len(to) {
		all := span{End: positionOf(before, len(before))}
		return append(out, textEdit{Range: all, NewText: after})
	}

	for i := range from {
		old, new := strings.TrimSuffix(from[i], "\r"), strings.TrimSuffix(to[i], "\r")
		if old != new {
			end := positionOf(old, len(old)).Character
			whole := span{Start: position{Line: i}, End: position{Line: i, Character: end}}
			out = append(out, textEdit{Range: whole, NewText: new})
		}
	}

	return out
}

// symbols returns the outline of a document.
func (s *Server) symbols(here at) (any, error) {
	body, ok := here.files[here.file].Body.(*hclsyntax.Body)
	if !ok {
		return nil, nil
	}

	return here.outline(body), nil
}

func (here at) outline(body *hclsyntax.Body) []documentSymbol {
	out := []documentSymbol{}
	for _, b := range body.Blocks {
		name := b.Type
		for _, label := range b.Labels {
			name += fmt.Sprintf(" %q", label)
		}
		out = append(out, documentSymbol{
			Name:           name,
			Kind:           symbolObject,
			Range:          here.rangeIn(b.Range()),
			SelectionRange: here.rangeIn(b.TypeRange),
			Children:       here.outline(b.Body),
		})
	}
	for _, name := range slices.Sorted(maps.Keys(body.Attributes)) {
		a := body.Attributes[name]
		out = append(out, documentSymbol{
			Name:           name,
			Kind:           symbolProperty,
			Range:          here.rangeIn(a.SrcRange),
			SelectionRange: here.rangeIn(a.NameRange),
		})
	}

	return out
}

// tokenTypes are the types of tokens; their places are their numbers in the protocol.
var tokenTypes = []string{
	"type", "enumMember", "property", "keyword", "string", "number", "parameter", "variable", "function",
}

// tokenNames are the types of hcl-lang's tokens.
var tokenNames = map[hcllang.SemanticTokenType]string{
	hcllang.TokenBlockType:     "type",
	hcllang.TokenBlockLabel:    "enumMember",
	hcllang.TokenAttrName:      "property",
	hcllang.TokenBool:          "keyword",
	hcllang.TokenKeyword:       "keyword",
	hcllang.TokenString:        "string",
	hcllang.TokenNumber:        "number",
	hcllang.TokenObjectKey:     "parameter",
	hcllang.TokenMapKey:        "parameter",
	hcllang.TokenReferenceStep: "variable",
	hcllang.TokenTypeComplex:   "keyword",
	hcllang.TokenTypePrimitive: "keyword",
	hcllang.TokenFunctionName:  "function",
}

// tokens returns the colours of a document, as five numbers for each token, relative to the one before.
func (s *Server) tokens(here at) (any, error) {
	found, err := s.decoder(here).SemanticTokensInFile(s.ending, here.file)
	if err != nil {
		return nil, nil
	}

	return here.encodeTokens(found), nil
}

func (here at) encodeTokens(found []hcllang.SemanticToken) semanticTokens {
	out := semanticTokens{Data: []int{}}
	var last position

	for _, t := range found {
		i := slices.Index(tokenTypes, tokenNames[t.Type])
		r := here.rangeIn(t.Range)
		isSameLine := r.Start.Line == last.Line
		isAfter := isSameLine && r.Start.Character >= last.Character
		isLater := r.Start.Line > last.Line || isAfter
		if i < 0 || !isLater || r.Start.Line != r.End.Line {
			continue // a heredoc: clients need tokens of one line
		}

		column := r.Start.Character
		if isSameLine {
			column -= last.Character
		}
		length := r.End.Character - r.Start.Character
		out.Data = append(out.Data,
			r.Start.Line-last.Line,
			column,
			length,
			i,
			0, // no modifiers
		)
		last = r.Start
	}

	return out
}
