package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	minAligned = 8       // bytes of a secret from which its inner base64, without the ends, is unlikely by chance
	minLine    = 16      // bytes of one line of a secret from which the line is a form of its own
	maxQuoted  = 4 << 10 // bytes of a secret up to which its quotedForms are forms
)

// secretForms returns the texts to find for one secret.
func secretForms(secret []byte) []string {
	var out []string
	add := func(s string) {
		if len(s) >= minSecret {
			out = append(out, s)
		}
	}
	whole := bytes.TrimRight(secret, "\r\n") // commit leaves a newline out; a terminal adds one
	if len(whole) < minSecret {
		return nil
	}
	// With its newline a secret has another base64.
	variants := [][]byte{whole, secret}
	lines := bytes.Split(whole, []byte("\n"))
	if bytes.Contains(whole, []byte("-----BEGIN ")) { // a key may be in one line, as in a flag
		lines = bytes.Fields(whole)
	}
	if len(lines) > 1 {
		for _, l := range lines {
			// Armour such as -----BEGIN PRIVATE KEY----- is in every file of its kind.
			l = bytes.TrimSpace(l)
			isArmour := bytes.HasPrefix(l, []byte("-----")) || bytes.HasSuffix(l, []byte("-----"))
			if len(l) >= minLine && !isArmour {
				add(string(l))
			}
		}
	}
	for _, v := range variants {
		s := string(v)
		add(s)
		add(hex.EncodeToString(v))
		add(strings.ToUpper(hex.EncodeToString(v)))
		for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			add(e.EncodeToString(v))
			add(e.WithPadding(base64.NoPadding).EncodeToString(v))
		}
		add(escaped(s, true))
		add(escaped(s, false))
		add(strconv.Quote(s)[1 : len(strconv.Quote(s))-1])
		query := url.QueryEscape(s)
		add(query)
		add(strings.ReplaceAll(query, "+", "%20"))
		add(url.PathEscape(s))
	}
	if len(whole) <= maxQuoted {
		for _, form := range append(escapedWhole(string(whole)), quotedForms(string(whole))...) {
			add(form)
		}
	}
	if len(whole) >= minAligned {
		for before := range 3 {
			inner := alignedBase64(whole, before)
			add(inner)
			add(strings.NewReplacer("+", "-", "/", "_").Replace(inner))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// escapedWhole returns a text with each character escaped, as in JSON and in a URL, also where that need not be.
func escapedWhole(s string) []string {
	var json, percent strings.Builder
	for _, unit := range utf16.Encode([]rune(s)) {
		fmt.Fprintf(&json, `\u%04x`, unit)
	}
	for i := range len(s) {
		fmt.Fprintf(&percent, "%%%02x", s[i])
	}

	return []string{
		json.String(),
		strings.ReplaceAll(strings.ToUpper(json.String()), `\U`, `\u`),
		percent.String(),
		strings.ToUpper(percent.String()),
	}
}

// quotedForms returns how an error of a program in Go quotes a secret: YAML folds its lines, the error quotes it, and a
// log quotes the error. In an entry of the kubelet's log (package failure) quotes are themselves again, and spaces one.
func quotedForms(secret string) (out []string) {
	inside := func(quoted string) string { return quoted[1 : len(quoted)-1] }
	for _, s := range []string{secret, strings.Join(strings.Fields(secret), " ")} {
		for _, once := range []string{
			s, inside(strconv.Quote(s)), inside(strconv.QuoteToASCII(s)), quoteBytes(s),
			escaped(s, true), escaped(s, false),
		} {
			twice := inside(strconv.Quote(once))
			out = append(out, once, twice, strings.ReplaceAll(once, `\"`, `"`), strings.ReplaceAll(twice, `\"`, `"`))
		}
	}

	return out
}

// quoteBytes returns the inside of what errors of package time quote: bytes that are not printable ASCII are \xNN.
func quoteBytes(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.Write([]byte{'\\', c})
		case c < ' ' || c >= utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}

	return b.String()
}

// alignedBase64 returns the part that all texts with the secret have in common in base64, if the secret begins `before`
// bytes after a multiple of three: the characters that are made of the secret's bits alone.
func alignedBase64(secret []byte, before int) string {
	enc := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), secret...))
	first := (before*8 + 5) / 6            // characters with bits of the text before
	last := (before + len(secret)) * 8 / 6 // characters without bits of the text after
	return enc[first:last]
}

// escaped returns the inside of the JSON string of s, with or without the escapes for HTML.
func escaped(s string, html bool) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	if err := enc.Encode(s); err != nil {
		return s // a string always encodes
	}
	q := strings.TrimSuffix(b.String(), "\n")
	return q[1 : len(q)-1]
}
