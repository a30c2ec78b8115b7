package site

import (
	"bytes"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
)

// What a site may have at most. HCL's parser and evaluator recurse and take no context, and a Go stack that
// overflows cannot be recovered from: the shortest text that does it has about 48,000 tokens. So tokens are counted
// first; the lexer is a loop.
const (
	maxBytes  = 256 << 10 // a file; parsing allocates about 250 times the text
	maxTokens = 20_000    // a file, and each string of a JSON file
	maxFiles  = 64
	maxDepth  = 64 // of brackets in a JSON file
	maxFor    = 2  // nested for expressions
)

func tooLarge(name string, size int64) *hcl.Diagnostic {
	return origin.Error(fault.Limit, fileRange(name), "This file is too large", "It has %d bytes, a site's file may have %d. Split it, or read the large part with file() or fetch-config.", size, maxBytes)
}

func tooMany(name string) *hcl.Diagnostic {
	return origin.Error(fault.Limit, fileRange(name), "Too many files", "This is number %d; a site may have %d. Put several into one.", maxFiles+1, maxFiles)
}

func tooManyTokens(at hcl.Range) *hcl.Diagnostic {
	return origin.Error(fault.Limit, at, "Too many tokens", "A site's file, and each string in a JSON file, may have %d tokens (words, signs, quotes). Split it, or read large data with file() or fetch-config.", maxTokens)
}

// bounded refuses native text that must not reach a parser. It is safe for any bytes.
func bounded(name string, src []byte) hcl.Diagnostics {
	if diags := boundedText(name, src); diags.HasErrors() {
		return diags
	}
	return boundedTokens(name, src, hcl.InitialPos)
}

// boundedText refuses what is too large or is no text, in any syntax.
func boundedText(name string, src []byte) hcl.Diagnostics {
	if len(src) > maxBytes {
		return hcl.Diagnostics{tooLarge(name, int64(len(src)))}
	}
	if d := encoding(name, src); d != nil {
		return hcl.Diagnostics{d}
	}
	return nil
}

// boundedTokens counts the tokens of native text.
func boundedTokens(name string, src []byte, start hcl.Pos) hcl.Diagnostics {
	tokens, _ := hclsyntax.LexConfig(src, name, start)
	if len(tokens) > maxTokens {
		return hcl.Diagnostics{tooManyTokens(tokens[maxTokens].Range)}
	}
	return nil
}

// encoding refuses bytes that would be read differently by different programs, and the characters that stand
// around credentials.
func encoding(name string, src []byte) *hcl.Diagnostic {
	refuse := func(at int, summary, detail string) *hcl.Diagnostic {
		return origin.Error(fault.Encoding, rangeAt(name, src, at), summary, detail)
	}
	if bytes.HasPrefix(src, []byte("\ufeff")) {
		return refuse(0, "This file begins with a byte order mark", "A site is UTF-8 without one. Save it anew, or: sed -i '1s/^\\xef\\xbb\\xbf//' FILE")
	}
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return refuse(i, "This is not UTF-8", "A site is UTF-8. Save the file anew with that encoding, or: iconv -f latin1 -t utf-8 FILE")
		case r == 0:
			return refuse(i, "A NUL byte", "A site is text. Is this the right file? Remove the byte.")
		case r == '\ue000' || r == '\ue001':
			return refuse(i, "A character that is reserved", placeholderHelp)
		}
		i += n
	}
	return nil
}

const placeholderHelp = "U+E000 and U+E001 stand around the names of credentials while a plan is made, and are refused in every input. Remove the character."

// rangeAt is the place of one byte; columns count characters.
func rangeAt(name string, src []byte, at int) hcl.Range {
	line, from := 1, 0
	for i := 0; i < at && i < len(src); i++ {
		if src[i] == '\n' {
			line, from = line+1, i+1
		}
	}
	p := hcl.Pos{Line: line, Column: utf8.RuneCount(src[from:at]) + 1, Byte: at}
	end := p
	end.Byte, end.Column = min(at+1, len(src)), end.Column+1
	return hcl.Range{Filename: name, Start: p, End: end}
}
