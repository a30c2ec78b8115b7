package value

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	minAligned = 8  // bytes of a secret from which its inner base64, without the ends, is long enough to tell
	minLine    = 16 // bytes of one line of a secret from which the line is looked for by itself
)

// secretForms are the texts to look for because of one secret.
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
	variants := [][]byte{whole, secret} // secret: its base64 is not that of whole and something after it
	if lines := bytes.Split(whole, []byte("\n")); len(lines) > 1 {
		for _, l := range lines {
			// Armour such as -----BEGIN PRIVATE KEY----- is in every file of its kind.
			if l = bytes.TrimSpace(l); len(l) >= minLine && !bytes.HasPrefix(l, []byte("-----")) {
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
		add(percent(s, "%20", false))
		add(percent(s, "+", false))
		add(percent(s, "%20", true))
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

// alignedBase64 is what is the same in base64 of every text that has the secret after a multiple of three bytes and
// `before` more: the characters that are made of the secret's bits alone.
func alignedBase64(secret []byte, before int) string {
	enc := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), secret...))
	first := (before*8 + 5) / 6            // characters that hold bits of what stands before
	last := (before + len(secret)) * 8 / 6 // characters that hold no bit of what stands after
	return enc[first:last]
}

// escaped is the inside of the JSON string of s, with or without the escapes for HTML.
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

// percent is s as in a URL: as in its query with space as "+", or as in its path with "%20", where much more may
// stand as it is.
func percent(s, space string, path bool) string {
	keep := "-_.~"
	if path {
		keep += "$&+=:@"
	}
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == ' ':
			b.WriteString(space)
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte(keep, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
