package lang

import (
	"bytes"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
)

// The limits of a site. HCL's parser and evaluator recurse and take no context, and a Go stack overflow cannot be
// recovered: the shortest text that causes one has about 48,000 tokens. So tokens are counted first; the lexer is a
// loop.
const (
	MaxBytes  = 256 << 10 // a file; parsing allocates about 250 times the text
	maxTokens = 20_000    // a file
	maxNested = 500       // brackets inside of each other: the parser takes 20 KiB for each
	maxFiles  = 64
	maxFor    = 2 // nested for expressions
)

const placeholderHelp = "U+E000 and U+E001 mark the names of credentials while a plan is made, so every input " +
	"refuses them. Remove the character."

func tooLarge(name string, size int64) *hcl.Diagnostic {
	return origin.Error(
		fault.Limit,
		fileRange(name),
		"This file is too large",
		"It has %d bytes, a site's file may have %d. Split it, or read the large part with file() or fetch-config.",
		size,
		MaxBytes,
	)
}

func tooManyFiles(name string) *hcl.Diagnostic {
	return origin.Error(fault.Limit, fileRange(name), "Too many files",
		"This is number %d; a site may have %d. Merge some of them.", maxFiles+1, maxFiles)
}

// checkNative refuses native text that exceeds the limits. It is safe for any bytes.
func checkNative(name string, src []byte) hcl.Diagnostics {
	if diags := checkText(name, src); diags.HasErrors() {
		return diags
	}
	tokens, _ := hclsyntax.LexConfig(src, name, hcl.InitialPos)

	return checkTokens(tokens)
}

func checkTokens(tokens hclsyntax.Tokens) hcl.Diagnostics {
	if len(tokens) > maxTokens {
		return hcl.Diagnostics{origin.Error(
			fault.Limit,
			tokens[maxTokens].Range,
			"Too many tokens",
			"A site's file may have %d tokens (words, signs, quotes). "+
				"Split it, or read large data with file() or fetch-config.",
			maxTokens,
		)}
	}

	depth := 0
	for _, token := range tokens {
		switch token.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote,
			hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			depth++
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote,
			hclsyntax.TokenTemplateSeqEnd:
			depth--
		}
		if depth > maxNested {
			return hcl.Diagnostics{origin.Error(fault.Limit, token.Range, "Brackets nest too deep",
				"A site's file may have %d inside of each other. Write inner ones as locals.", maxNested)}
		}
	}

	return nil
}

// checkText refuses a file in any syntax that is too large, is not UTF-8, or has a reserved character.
func checkText(name string, src []byte) hcl.Diagnostics {
	if len(src) > MaxBytes {
		return hcl.Diagnostics{tooLarge(name, int64(len(src)))}
	}

	refuse := func(at int, summary, detail string) hcl.Diagnostics {
		return hcl.Diagnostics{
			origin.Error(fault.Encoding, rangeAt(name, src, at), summary, detail),
		}
	}

	if bytes.HasPrefix(src, []byte("\ufeff")) {
		return refuse(0, "This file begins with a byte order mark",
			"Save it as UTF-8 without one, or: sed -i '1s/^\\xef\\xbb\\xbf//' FILE")
	}

	if bytes.HasPrefix(src, []byte("\xff\xfe")) || bytes.HasPrefix(src, []byte("\xfe\xff")) {
		return refuse(0, "This is UTF-16", "Save the file as UTF-8, or: iconv -f UTF-16 -t UTF-8 FILE")
	}

	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return refuse(
				i,
				"This is not UTF-8",
				"Save the file as UTF-8, or: iconv -f latin1 -t utf-8 FILE",
			)
		case r == 0:
			return refuse(i, "A NUL byte", "A site is text. Remove the byte, or name another file.")
		case r == '\ue000' || r == '\ue001':
			return refuse(i, "A character that is reserved", placeholderHelp)
		}
		i += n
	}

	return nil
}

// rangeAt returns the place of one byte; columns count characters.
func rangeAt(name string, src []byte, at int) hcl.Range {
	before := src[:at]
	start := hcl.Pos{
		Line:   bytes.Count(before, []byte("\n")) + 1,
		Column: utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1,
		Byte:   at,
	}

	end := start
	end.Column++
	end.Byte = min(at+1, len(src))

	return hcl.Range{
		Filename: name,
		Start:    start,
		End:      end,
	}
}
