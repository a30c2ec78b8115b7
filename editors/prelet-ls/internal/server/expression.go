package server

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// startsExpression are the tokens that an expression may follow wherever they are.
var startsExpression = []hclsyntax.TokenType{
	hclsyntax.TokenEqual, hclsyntax.TokenOParen, hclsyntax.TokenOBrack, hclsyntax.TokenQuestion, hclsyntax.TokenColon,
	hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenBang, hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual,
	hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq,
	hclsyntax.TokenPlus, hclsyntax.TokenMinus, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent,
	hclsyntax.TokenTemplateInterp, hclsyntax.TokenFatArrow,
}

// expressionItems returns the names and functions that begin with the word before the cursor, where an expression may
// begin. hcl-lang offers them by type, but not inside of objects of any type, such as labels.
func (s *Server) expressionItems(here at) []completionItem {
	word, ok := wordOfExpression(here)
	if !ok {
		return nil
	}

	edit := span{
		Start: positionOf(here.text, here.offset-len(word)),
		End:   positionOf(here.text, here.offset),
	}
	var out []completionItem
	add := func(label, text, detail, doc string, kind int) {
		if strings.HasPrefix(label, word) {
			out = append(out, completionItem{
				Label:         label,
				Kind:          kind,
				Detail:        detail,
				Documentation: &markup{Kind: "markdown", Value: doc},
				TextEdit:      &textEdit{Range: edit, NewText: text},
			})
		}
	}

	for _, symbol := range here.index.Symbols {
		isOwn := symbol.Block.Filename == here.file && contains(symbol.Block, here.offset)
		if !isOwn {
			address := symbol.Address()
			add(address, address, showType(symbol.Type), symbol.Doc, kindReference)
		}
	}
	for _, name := range s.language.FunctionNames() {
		f := s.language.Functions[name]
		add(name, name, f.Detail, f.Description, kindFunction)
	}

	return out
}

func contains(r hcl.Range, offset int) bool {
	return r.Start.Byte <= offset && offset <= r.End.Byte
}

// wordOfExpression returns the word before the cursor if an expression may begin with it.
func wordOfExpression(here at) (string, bool) {
	tokens, _ := hclsyntax.LexConfig([]byte(here.text), here.file, hcl.InitialPos)
	var open []hclsyntax.TokenType // brackets around the cursor
	var last hclsyntax.Token       // before the word

	word := ""
	for _, t := range tokens {
		if t.Range.Start.Byte >= here.offset {
			break
		}
		if t.Type == hclsyntax.TokenIdent && t.Range.End.Byte >= here.offset {
			word = here.text[t.Range.Start.Byte:here.offset]
			break
		}
		switch t.Type {
		case hclsyntax.TokenOParen, hclsyntax.TokenOBrack, hclsyntax.TokenOBrace, hclsyntax.TokenTemplateInterp:
			open = append(open, t.Type)
		case hclsyntax.TokenCParen, hclsyntax.TokenCBrack, hclsyntax.TokenCBrace, hclsyntax.TokenTemplateSeqEnd:
			open = open[:max(0, len(open)-1)]
		}
		last = t
	}

	isElement := false
	if last.Type == hclsyntax.TokenComma && len(open) > 0 {
		inner := open[len(open)-1]
		isElement = inner == hclsyntax.TokenOParen || inner == hclsyntax.TokenOBrack
	}

	return word, isElement || slices.Contains(startsExpression, last.Type)
}

// hoverCall describes the function whose name is at a position.
func (s *Server) hoverCall(here at) (hover, bool) {
	body, ok := here.files[here.file].Body.(*hclsyntax.Body)
	if !ok {
		return hover{}, false
	}

	var found *hclsyntax.FunctionCallExpr
	_ = hclsyntax.VisitAll(body, func(n hclsyntax.Node) hcl.Diagnostics {
		if call, ok := n.(*hclsyntax.FunctionCallExpr); ok && contains(call.NameRange, here.offset) {
			found = call
		}
		return nil
	})
	if found == nil {
		return hover{}, false
	}
	f, ok := s.language.Functions[found.Name]
	r := here.rangeIn(found.NameRange)

	return hover{Contents: markup{Kind: "markdown", Value: f.Description}, Range: &r}, ok
}
