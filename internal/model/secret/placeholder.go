package secret

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/model/texts"
)

// Delimiters of placeholders: two code points of the private use area, refused in every input.
const (
	// PlaceholderStart begins each placeholder.
	PlaceholderStart = "\ue000"
	placeholderEnd   = "\ue001"
)

// Operations of placeholders.
const (
	opCredential = "cred" // the body is the name of a credential
	opJSON       = "json" // the same, inside of a string of JSON, or of TOML in double quotes
	opBase64     = "b64"  // the body is a text with placeholders, itself in base64
)

// credentialName matches names that are file names for systemd, and that need no quotes in unit files, JSON and YAML.
var credentialName = texts.LazyRegexp(`^[A-Za-z0-9_][A-Za-z0-9._@+-]*$`)

// maxName is the most bytes of a file name.
const maxName = 255

// The credentials that the units ask systemd for without a drop-in, each from its stores.
const (
	TokenCredential    = "bootstrap-token"
	SiteCredential     = "prelet.site"     // references, where the site is pulled from
	RegistryCredential = "prelet.registry" // passwords of registries, a docker config.json; prelet-site.service only
)

// UnitCredentials returns the names of those.
func UnitCredentials() []string { return []string{TokenCredential, SiteCredential, RegistryCredential} }

// CredentialHint returns how to give a credential to prelet's units. A file in the store of systemd may be missing; an
// absolute path in LoadCredential= may not, and systemd 252 knows no ImportCredential=.
func CredentialHint(name string) string {
	hint := "Write it to the store of systemd: install -D -m 400 FILE /etc/credstore/" + name
	if slices.Contains(UnitCredentials(), name) {
		return hint
	}

	return hint + ", with LoadCredential=" + name + " in a drop-in of prelet.service and of prelet-apply.service"
}

// CheckCredentialName returns why a name cannot be the name of a credential. The error shows only the first characters
// of a long name, which may be a secret in the wrong place.
func CheckCredentialName(name string) error {
	if len(name) <= maxName && credentialName().MatchString(name) {
		return nil
	}
	if base := path.Base(name); path.IsAbs(name) && base != "/" && CheckCredentialName(base) == nil {
		return fmt.Errorf("a credential is named without its folder: write credential(%q)", base)
	}
	if runes := []rune(name); len(runes) > 20 {
		name = string(runes[:8]) + "…"
	}

	return fmt.Errorf("invalid credential name %q: use letters, digits, and . _ @ + - after the first", name)
}

// maxResolved is how many bytes a text with its secrets may have.
const maxResolved = 8 << 20

var placeholderPattern = texts.LazyRegexp("\ue000(cred|json|b64):([^\ue000\ue001]*)\ue001")

var errUnmarked = errors.New(
	"a placeholder of a credential (characters U+E000 and U+E001) that credential() did not make",
)

func makePlaceholder(op, body string) string {
	return PlaceholderStart + op + ":" + body + placeholderEnd
}

// Placeholder returns the placeholder for a secret of the node that is not a credential, such as a part of a file.
func Placeholder(name string) string { return makePlaceholder(opCredential, name) }

// HasPlaceholder reports whether s holds U+E000 or U+E001. No value of the language may, other than by a credential.
func HasPlaceholder(s string) bool {
	return strings.ContainsAny(s, PlaceholderStart+placeholderEnd)
}

// ResolvePlaceholders replaces each placeholder in s by the bytes that get returns for its credential, encoded as the
// placeholder says. These bytes are not searched for placeholders. Malformed placeholders, and a credential inside of
// JSON that is not UTF-8, are errors; errors name credentials and never hold their bytes.
func ResolvePlaceholders(s string, get func(name string) ([]byte, error)) (string, error) {
	if !HasPlaceholder(s) {
		return s, nil
	}
	if !isWellFormed(s) {
		return "", errUnmarked
	}

	var out strings.Builder
	end := 0
	for _, m := range placeholderPattern().FindAllStringSubmatchIndex(s, -1) {
		op, body := s[m[2]:m[3]], s[m[4]:m[5]]
		text, err := resolveOne(op, body, get)
		if err != nil {
			return "", err
		}
		out.WriteString(s[end:m[0]])
		out.WriteString(text)
		if out.Len() > maxResolved {
			return "", fmt.Errorf("the text with its credentials (%s) is larger than %d MiB",
				texts.QuoteAll(PlaceholderNames(s)), maxResolved>>20)
		}
		end = m[1]
	}
	out.WriteString(s[end:])

	return out.String(), nil
}

func resolveOne(op, body string, get func(name string) ([]byte, error)) (string, error) {
	if op == opBase64 {
		template, err := base64.RawURLEncoding.DecodeString(body)
		if err != nil {
			return "", errUnmarked
		}
		text, err := ResolvePlaceholders(string(template), get)
		return base64.StdEncoding.EncodeToString([]byte(text)), err
	}

	secret, err := get(body)
	if err != nil {
		if prefix := fmt.Sprintf("credential %q: ", body); !strings.HasPrefix(err.Error(), prefix) {
			err = fmt.Errorf("%s%w", prefix, err)
		}
		return "", err
	}
	if op == opCredential {
		return string(secret), nil
	}

	quoted, err := json.Marshal(string(secret))
	if err != nil || !utf8.Valid(secret) {
		return "", fmt.Errorf(
			"credential %q is not UTF-8 text, so it cannot be put into JSON, YAML or TOML; "+
				"use base64encode(credential(…))",
			body,
		)
	}
	return texts.EscapeForYAML(string(quoted[1 : len(quoted)-1])), nil
}

// Find returns a credential from a text that ResolvePlaceholders made of a template. ok is false if the template
// does not have it, or if it is not certain where a secret in the text ends.
func Find(template, text, name string) (secret []byte, ok bool) {
	all := placeholderPattern().FindAllStringSubmatchIndex(template, -1)
	parts, ok := splitByLiterals(listLiterals(template, all), text)
	if !ok {
		return nil, false
	}

	for n, m := range all {
		op, body := template[m[2]:m[3]], template[m[4]:m[5]]

		switch {
		case op == opBase64:
			inner, err := base64.RawURLEncoding.DecodeString(body)
			decoded, textErr := base64.StdEncoding.DecodeString(parts[n])
			if err != nil || textErr != nil {
				continue
			}
			if secret, ok := Find(string(inner), string(decoded), name); ok {
				return secret, true
			}
		case body != name:
		case op == opCredential:
			return []byte(parts[n]), true
		case op == opJSON:
			var unquoted string
			err := json.Unmarshal([]byte(`"`+parts[n]+`"`), &unquoted)
			return []byte(unquoted), err == nil
		}
	}

	return nil, false
}

// listLiterals returns the texts before, between and after the placeholders of a template.
func listLiterals(template string, placeholders [][]int) (literals []string) {
	end := 0
	for _, m := range placeholders {
		literals = append(literals, template[end:m[0]])
		end = m[1]
	}

	return append(literals, template[end:])
}

// splitByLiterals returns the parts between the literals of a text. ok is false if there is more than one way.
func splitByLiterals(literals []string, text string) (parts []string, ok bool) {
	last := len(literals) - 1
	text, hasStart := strings.CutPrefix(text, literals[0])
	text, hasEnd := strings.CutSuffix(text, literals[last])
	if last == 0 || !hasStart || !hasEnd {
		return nil, false
	}

	inner := literals[1:last]
	rest := text
	for _, literal := range inner {
		part, after, isThere := strings.Cut(rest, literal)
		if !isThere || literal == "" {
			return nil, false
		}
		parts = append(parts, part)
		rest = after
	}
	parts = append(parts, rest)

	rest = text // from the end: another result means that there is more than one way
	for n, literal := range slices.Backward(inner) {
		at := strings.LastIndex(rest, literal)
		if at < 0 || rest[at+len(literal):] != parts[n+1] {
			return nil, false
		}
		rest = rest[:at]
	}

	return parts, true
}

// PlaceholderNames returns the credentials that the placeholders in s name, sorted and unique. Of a malformed text it
// returns none.
func PlaceholderNames(s string) []string {
	if !HasPlaceholder(s) || !isWellFormed(s) {
		return nil
	}

	var names []string
	for _, m := range placeholderPattern().FindAllStringSubmatch(s, -1) {
		op, body := m[1], m[2]
		if op != opBase64 {
			names = append(names, body)
		} else if template, err := base64.RawURLEncoding.DecodeString(body); err == nil {
			names = append(names, PlaceholderNames(string(template))...)
		}
	}
	slices.Sort(names)

	return slices.Compact(names)
}

func isWellFormed(s string) bool {
	return !HasPlaceholder(placeholderPattern().ReplaceAllString(s, ""))
}

// checkCovered refuses placeholders in s that are malformed or name a credential that is not covered by a mark.
func checkCovered(s string, covered []string) error {
	if !isWellFormed(s) {
		return errUnmarked
	}
	for _, name := range PlaceholderNames(s) {
		if !slices.Contains(covered, name) {
			return errUnmarked
		}
	}

	return nil
}

// EncodeBase64 encodes a text. One with a placeholder becomes a placeholder, and is encoded at commit.
func EncodeBase64(text string) string {
	if HasPlaceholder(text) {
		return makePlaceholder(opBase64, base64.RawURLEncoding.EncodeToString([]byte(text)))
	}
	return base64.StdEncoding.EncodeToString([]byte(text))
}

// HasQuotedPlaceholder reports whether a text has a credential inside of a string of JSON or TOML.
func HasQuotedPlaceholder(text string) bool {
	return strings.Contains(text, PlaceholderStart+opJSON+":")
}

// QuotePlaceholders returns a document of JSON or TOML whose credentials will be escaped for the strings they are in.
func QuotePlaceholders(document string) string {
	return strings.ReplaceAll(document, PlaceholderStart+opCredential+":", PlaceholderStart+opJSON+":")
}
