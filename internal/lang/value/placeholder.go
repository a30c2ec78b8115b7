package value

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Delimiters of placeholders: two code points of the private use area, refused in every input.
const (
	phOpen = "\ue000"
	phShut = "\ue001"
)

// Operations of placeholders. The body of cred is the credential's name; the body of the others is text that may
// hold further placeholders and is encoded once these are resolved.
const (
	opCred   = "cred"
	opB64    = "b64"
	opSHA256 = "sha256"
	opJSON   = "json" // the inside of a JSON string, without its quotes
	opYAML   = "yaml" // a whole double-quoted YAML scalar
)

const (
	maxPlaceholderDepth = 16      // an encoder around an encoder …: JSON doubles backslashes at each level
	maxResolved         = 8 << 20 // bytes of one resolved text
)

func placeholder(op, body string) string { return phOpen + op + ":" + body + phShut }

// HasPlaceholder reports whether s holds U+E000 or U+E001. No input of prelet may.
func HasPlaceholder(s string) bool { return strings.ContainsAny(s, phOpen+phShut) }

// ResolvePlaceholders replaces each placeholder in s, nested ones first, by what get returns for its credential,
// less one newline at the end, encoded as the placeholders around it say. What get returned is never searched for
// placeholders. Malformed, unknown or too deep (16) placeholders, and a credential that is not UTF-8 inside of JSON
// or YAML, are errors; errors name credentials and never hold their bytes.
func ResolvePlaceholders(s string, get func(name string) ([]byte, error)) (string, error) {
	if !HasPlaceholder(s) {
		return s, nil
	}
	tree, err := parsePlaceholders(s)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := tree.resolve(&b, get); err != nil {
		return "", err
	}
	return b.String(), nil
}

// PlaceholderNames are the credentials that the placeholders in s name, sorted and unique. Of a malformed text it
// returns none.
func PlaceholderNames(s string) []string {
	if !HasPlaceholder(s) {
		return nil
	}
	tree, err := parsePlaceholders(s)
	if err != nil {
		return nil
	}
	return tree.names()
}

// phTree is parsed text: literal parts and placeholders in order.
type phTree []phNode

type phNode struct {
	literal string
	op      string // empty for a literal
	name    string // of cred
	body    phTree // of the other operations
}

func parsePlaceholders(s string) (phTree, error) {
	tree, rest, err := parseTree(s, 0)
	if err == nil && rest != "" {
		err = errors.New("a placeholder of a credential ends (U+E001) that did not begin")
	}
	return tree, err
}

// parseTree reads up to the end of s or to the U+E001 that ends the placeholder around it, which stays in rest.
func parseTree(s string, depth int) (tree phTree, rest string, err error) {
	if depth > maxPlaceholderDepth {
		return nil, "", fmt.Errorf("a credential is encoded more than %d times over", maxPlaceholderDepth)
	}
	for s != "" {
		i := strings.IndexAny(s, phOpen+phShut)
		if i < 0 {
			return append(tree, phNode{literal: s}), "", nil
		}
		if i > 0 {
			tree = append(tree, phNode{literal: s[:i]})
		}
		if strings.HasPrefix(s[i:], phShut) {
			return tree, s[i:], nil
		}
		op, after, ok := strings.Cut(s[i+len(phOpen):], ":")
		node := phNode{op: op}
		switch {
		case !ok || HasPlaceholder(op):
			return nil, "", errors.New("a placeholder of a credential (U+E000) without an operation")
		case op == opCred:
			j := strings.IndexAny(after, phOpen+phShut)
			if j < 0 || !strings.HasPrefix(after[j:], phShut) {
				return nil, "", errors.New("a placeholder of a credential (U+E000) that does not end (U+E001)")
			}
			node.name, s = after[:j], after[j:]
		case op == opB64 || op == opSHA256 || op == opJSON || op == opYAML:
			if node.body, s, err = parseTree(after, depth+1); err != nil {
				return nil, "", err
			}
			if s == "" {
				return nil, "", errors.New("a placeholder of a credential (U+E000) that does not end (U+E001)")
			}
		default:
			return nil, "", errors.New("a placeholder of a credential (U+E000) with an unknown operation")
		}
		s = s[len(phShut):]
		tree = append(tree, node)
	}
	return tree, "", nil
}

func (t phTree) names() []string {
	var out []string
	for _, n := range t {
		if n.op == opCred {
			out = append(out, n.name)
		}
		out = append(out, n.body.names()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (t phTree) resolve(b *strings.Builder, get func(string) ([]byte, error)) error {
	for _, n := range t {
		switch n.op {
		case "":
			b.WriteString(n.literal)
		case opCred:
			secret, err := get(n.name)
			if err != nil {
				return fmt.Errorf("credential %q: %w", n.name, err)
			}
			b.Write(bytes.TrimSuffix(secret, []byte("\n")))
		default:
			var inner strings.Builder
			if err := n.body.resolve(&inner, get); err != nil {
				return err
			}
			enc, err := encodeOp(n.op, inner.String())
			if err != nil {
				return fmt.Errorf("credential %s: %w", quoteNames(n.body.names()), err)
			}
			b.WriteString(enc)
		}
		if b.Len() > maxResolved {
			return fmt.Errorf("the text with credential %s put in is larger than %d MiB", quoteNames(t.names()), maxResolved>>20)
		}
	}
	return nil
}

// encodeOp is what the encoding functions and resolved placeholders have in common.
func encodeOp(op, s string) (string, error) {
	switch op {
	case opB64:
		return base64.StdEncoding.EncodeToString([]byte(s)), nil
	case opSHA256:
		h := sha256.Sum256([]byte(s))
		return hex.EncodeToString(h[:]), nil
	}
	if !utf8.ValidString(s) {
		return "", errors.New("it is not UTF-8 text, so it cannot stand inside of JSON or YAML; use base64encode(credential(…))")
	}
	q, err := json.Marshal(s)
	if err != nil {
		return "", errors.New("it cannot be written as JSON")
	}
	if op == opJSON {
		q = q[1 : len(q)-1]
	}
	return string(q), nil
}
