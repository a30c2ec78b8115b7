package site

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// The layout of a file is its tokens with other spaces between them. It is the one that `terraform fmt` gives, and a test
// holds it against hclwrite, which cannot be linked: it brings go-cmp, and that takes half a millisecond of every start.

// laid is one token with the spaces before it.
type laid struct {
	hclsyntax.Token
	spaces int
}

// columns is the width of a token on a terminal.
func (t laid) columns() int {
	if t.Range.Start.Line == t.Range.End.Line {
		return t.Range.End.Column - t.Range.Start.Column
	}
	return utf8.RuneCount(t.Bytes) // goes over lines, so that nothing can stand below or above it
}

// ends says whether a line ends with this token: a comment to the end of the line has its line break in it.
func (t laid) ends() bool {
	return t.Type == hclsyntax.TokenNewline || t.Type == hclsyntax.TokenComment && bytes.HasSuffix(t.Bytes, []byte("\n"))
}

// bracket is 1 for what opens a bracket and -1 for what closes one.
func (t laid) bracket() int {
	switch t.Type {
	case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateControl, hclsyntax.TokenTemplateInterp:
		return 1
	case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
		return -1
	}
	return 0
}

// row is one line: what comes first, the `= value` of an argument that ends on the same line, and the comment behind.
type row struct {
	head, value, comment []laid
}

// layout gives the canonical form of a text, whatever it is.
func layout(src []byte) []byte {
	lexed, _ := hclsyntax.LexConfig(src, "", hcl.InitialPos) // what does not lex is passed on as it is
	tokens := make([]laid, len(lexed))
	at := 0
	for i, t := range lexed {
		tokens[i] = laid{t, t.Range.Start.Byte - at}
		at = t.Range.End.Byte
	}
	rows := rowsOf(tokens)
	indent(rows)
	for _, r := range rows {
		space(r.head)
		if r.value != nil {
			space(r.value)
		}
	}
	align(rows, func(r row) (before, moves []laid) { return r.head, r.value })
	align(rows, func(r row) (before, moves []laid) { return slices.Concat(r.head, r.value), r.comment })
	var out bytes.Buffer
	for _, t := range tokens {
		out.WriteString(strings.Repeat(" ", max(t.spaces, 0)))
		out.Write(t.Bytes)
	}
	return out.Bytes()
}

func rowsOf(tokens []laid) (rows []row) {
	for from := 0; from < len(tokens); {
		to := from
		for to < len(tokens) && tokens[to].Type != hclsyntax.TokenEOF && !tokens[to].ends() {
			to++
		}
		if to == len(tokens) || tokens[to].Type == hclsyntax.TokenEOF {
			rows = append(rows, rowOf(tokens[from:to]))
			break
		}
		to++
		rows = append(rows, rowOf(tokens[from:to]))
		from = to
	}
	return rows
}

func rowOf(line []laid) (r row) {
	r.head = line
	if last := len(line) - 1; last > 0 && line[last].Type == hclsyntax.TokenComment {
		r.head, r.comment = line[:last], line[last:]
	}
	for i, t := range r.head {
		if i == 0 || t.Type != hclsyntax.TokenEqual {
			continue
		}
		open := 0
		for _, v := range r.head[i:] {
			open += v.bracket()
		}
		if open == 0 { // else the value goes on in the next line, and its `=` stays where it is
			r.head, r.value = r.head[:i], r.head[i:]
		}
		break
	}
	return r
}

// indent moves each line by two spaces for each line above it that opened brackets, however many, until as many are closed.
func indent(rows []row) {
	var levels []int // brackets that the lines above opened and that are open still, by line
	for _, r := range rows {
		if len(r.head) == 0 {
			continue
		}
		if r.head[0].Type == hclsyntax.TokenNewline {
			r.head[0].spaces = 0
			continue
		}
		open := 0
		for _, t := range r.head {
			open += t.bracket()
			if t.Type == hclsyntax.TokenOHeredoc {
				break
			}
		}
		for _, t := range r.value {
			open += t.bracket()
		}
		for open < 0 && len(levels) > 0 {
			last := &levels[len(levels)-1]
			closed := min(-open, *last)
			open += closed
			if *last -= closed; *last == 0 {
				levels = levels[:len(levels)-1]
			}
		}
		r.head[0].spaces = 2 * len(levels)
		if open > 0 {
			levels = append(levels, open)
		}
	}
}

// space puts one space or none between the tokens of a cell.
func space(cell []laid) {
	for i := 1; i < len(cell); i++ {
		before := laid{}
		before.Type = hclsyntax.TokenNil
		if i > 1 {
			before = cell[i-2]
		}
		cell[i].spaces = 0
		if apart(before, cell[i-1], cell[i]) {
			cell[i].spaces = 1
		}
	}
}

// align gives each cell that moves, in rows that follow each other, the same column. The first token of a value has one
// space before it at least.
func align(rows []row, cells func(row) (before, moves []laid)) {
	width := func(cell []laid) (n int) {
		for _, t := range cell {
			n += t.spaces + t.columns()
		}
		return n
	}
	for from := 0; from < len(rows); from++ {
		to, widest := from, 0
		for ; to < len(rows); to++ {
			before, moves := cells(rows[to])
			if moves == nil {
				break
			}
			widest = max(widest, width(before))
		}
		for ; from < to; from++ {
			before, moves := cells(rows[from])
			moves[0].spaces = widest - width(before) + 1
		}
	}
}

// within says whether a token is one of these kinds.
func (t laid) within(kinds ...hclsyntax.TokenType) bool { return slices.Contains(kinds, t.Type) }

// apart says whether a space stands between two tokens, b and c; a is the one before them.
func apart(a, b, c laid) bool {
	const (
		ident    = hclsyntax.TokenIdent
		double   = hclsyntax.TokenDoubleColon
		interp   = hclsyntax.TokenTemplateInterp
		control  = hclsyntax.TokenTemplateControl
		templEnd = hclsyntax.TokenTemplateSeqEnd
	)
	isIn := b.Type == ident && string(b.Bytes) == "in" && a.Type == ident
	switch {
	case c.within(hclsyntax.TokenNewline, hclsyntax.TokenNil),
		b.Type == ident && c.within(hclsyntax.TokenOParen, double), b.Type == double && c.Type == ident,
		b.Type == hclsyntax.TokenDot, c.within(hclsyntax.TokenDot, hclsyntax.TokenComma, hclsyntax.TokenEllipsis):
		return false
	case b.Type == hclsyntax.TokenComma:
		return true
	case b.within(hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc),
		c.within(hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc):
		return false // inside of a template every space counts
	case isIn:
		return true // in a `for`, and not an index: for x in [y]
	case c.Type == hclsyntax.TokenOBrack && (b.within(ident, hclsyntax.TokenNumberLit) || b.bracket() < 0), b.Type == hclsyntax.TokenBang:
		return false
	case b.Type == hclsyntax.TokenMinus:
		return !begins(a)
	case b.Type == hclsyntax.TokenOBrace || c.Type == hclsyntax.TokenCBrace:
		return b.Type != hclsyntax.TokenOBrace || c.Type != hclsyntax.TokenCBrace // {} alone stays together
	case b.within(interp, control) && c.Type == hclsyntax.TokenOBrace, b.Type == hclsyntax.TokenCBrace && c.Type == templEnd:
		return true
	case b.Type == templEnd && c.within(interp, control), b.bracket() > 0, c.bracket() < 0:
		return false
	}
	return true
}

// begins says whether an operand follows this token, so that a minus behind it is a sign.
func begins(t laid) bool {
	return t.within(hclsyntax.TokenNil, hclsyntax.TokenOParen, hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenEqual,
		hclsyntax.TokenColon, hclsyntax.TokenComma, hclsyntax.TokenQuestion, hclsyntax.TokenPlus, hclsyntax.TokenStar, hclsyntax.TokenSlash,
		hclsyntax.TokenPercent, hclsyntax.TokenMinus, hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenGreaterThan,
		hclsyntax.TokenGreaterThanEq, hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenBang)
}

// Quote writes a text as a literal of the language: a ${ in it stays text.
func Quote(s string) string {
	var out strings.Builder
	out.WriteByte('"')
	escapes := map[rune]string{'\n': `\n`, '\r': `\r`, '\t': `\t`, '"': `\"`, '\\': `\\`}
	for i, r := range s {
		switch {
		case escapes[r] != "":
			out.WriteString(escapes[r])
		case (r == '$' || r == '%') && strings.HasPrefix(s[i+1:], "{"):
			out.WriteRune(r)
			out.WriteRune(r)
		case !unicode.IsPrint(r) && r < 0x10000:
			fmt.Fprintf(&out, `\u%04x`, r)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&out, `\U%08x`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
	return out.String()
}
