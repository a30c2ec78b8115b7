package secret

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/prelet/prelet/internal/model/texts"
)

// Evident is a part of a text that is a secret by its form, whatever it is for.
type Evident struct {
	Start, End int    // in bytes
	What       string // with its article: "a private key"
}

// Kinds of secrets that others ask for.
const (
	aToken     = "a bootstrap token"
	PrivateKey = "a private key"
	FlagValue  = "the value of a secret flag"
	// FieldValue names the value of a header in a configuration of the kubelet.
	FieldValue = "a value of staticPodURLHeader"
)

// SampleToken is the token in kubeadm's documentation. A text that explains something may contain it.
const SampleToken = "abcdef.0123456789abcdef"

// secretSettings are the settings of the kubelet whose value itself may be a secret, and does not only name a file with
// one: the headers of requests for static pods, as a flag and as a field, and the password of cAdvisor's database.
var secretSettings = []string{"manifest-url-header", "storage-driver-password", "staticPodURLHeader"}

// IsSetting reports whether the value of a flag or of a field of the kubelet may be a secret. Like the kubelet,
// it takes _ in the name of a flag as -.
func IsSetting(name string) bool {
	return slices.Contains(secretSettings, strings.ReplaceAll(name, "_", "-"))
}

// form is one form of secrets. In a text without each of its hints, its expression is not even compiled.
type form struct {
	what  string
	hints []string
	// find returns the start and the end of each secret in a text.
	find func(text string) [][2]int
}

// secretValue is a character of a value behind a name. Quotes, and the characters of expressions and of placeholders in
// examples, do not count.
const secretValue = `[^\s"'\\,;&<>$%{}()\[\]#…]`

// isBehind matches the end of a value that is alone in its line, quotes or brackets: words of a sentence are not.
const isBehind = `(?:["'\\,;\])}]|[ \t]*\r?$)`

// aroundLine matches the text between two lines of a key in a list or a comment: the end of the first line, maybe with
// quotes or escapes, and the beginning of the second.
const aroundLine = `["',;)\]\\]*[ \t\\]*(?:[nr]?\r?\n|(?:r\\+)?n|[#;])[ \t]*` +
	`(?:(?:[#;>|*+]|- |-#|//|["'])[ \t]*)*[ \t"'\\]*`

var (
	// A key in a comment or in a list has more around each line. Words there are not a key.
	privateKey = texts.LazyRegexp(`-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----` +
		`((\s|\\[nrt]?)*((\w|-)+: [^\n\\]*(\s|\\[nrt]?)+)*[A-Za-z0-9+/=]{8}|` + aroundLine + `[A-Za-z0-9+/=]{20})` +
		`(?:` + aroundLine + `|[A-Za-z0-9+/=\s]|\\[nrt]?)*` +
		`(-----END ([A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----)?`)
	// A JSON Web Token: two objects and a signature.
	webToken = texts.LazyRegexp(`\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`)
	// The field of the kubelet's configuration begins with a small letter, so only a scheme makes that a header.
	schemeHeader = texts.LazyRegexp(`(?im)\Aauthorization["'\]]*\s*[:=]\s*[\["'\\\s-]*` +
		`(?:basic|bearer|digest|negotiate|apikey|splunk)\s+(` + secretValue + `+)` + isBehind)
	tokenHeader = texts.LazyRegexp(`(?im)\Aauthorization["'\]]*\s*[:=]\s*[\["'\\\s-]*token\s+(` + secretValue + `+)` +
		isBehind)
	bareHeader = texts.LazyRegexp(`(?m)\bA(?:uthorization|UTHORIZATION)["']?[ \t]*[:=][\[ \t"']*(` +
		secretValue + `+)` + isBehind)
	// In a sentence, only a word with a digit is a secret.
	headerWord = texts.LazyRegexp(`(?i)\Aauthorization["'\]]*\s*[:=]\s*[\["'\\\s-]*` +
		`(?:(?:basic|bearer|token|digest|negotiate|apikey|splunk)\s+)?(` + secretValue + `{8,})[ \t]`)
	bearer = texts.LazyRegexp(`\bBearer\s+([A-Za-z0-9._~+/=*-]{6,})`)
	basic  = texts.LazyRegexp(`\bBasic\s+([A-Za-z0-9+/]{6,}={0,2})`)
	// Passwords have $, * and % too. A text that begins with them is a variable, stars, or a format.
	urlPassword = texts.LazyRegexp(`//[^\s"'/?#@:<{\\]*:([^\s"'/?#@$<{*\\][^\s"'/?#@<{\\]*)@`)
	formatVerb  = texts.LazyRegexp(`^%(?:\[\d+\])?[sqv]$`) // an argument of format() is the secret
	// The last word of the name counts: a key alone is ordinary, and so is the token of a page.
	urlQuery = texts.LazyRegexp(`(?i)//[^\s"'<>]*?(?:[?&]|\\u0026|&amp;|%26)(?:[a-z0-9]+[._-])*` +
		`(?:token|password|passwd|secret|api[-_]?key|signature|sig)=` +
		`((?:%[0-9A-Fa-f]{2}|[^\s"'&#$<>{}%*()\\])[^\s"'&#$<>{}*()\\]*)`)
	settingValue = texts.LazyRegexp(`\b(?:manifest[-_]url[-_]header|storage[-_]driver[-_]password)` +
		`(?:["']?\s*[=:]\s*\\?(?:"([^"\\$]+)|'([^'\\$]+))|(?:=|:\s+)(` + secretValue + `+))`)
	settingWord = texts.LazyRegexp(`--(?:manifest[-_]url[-_]header|storage[-_]driver[-_]password)["']?[\s,"']+(` +
		secretValue + `+)`)
)

// harmless are words in the place of the secret: modes of the kubelet's authorization, schemes of the header, words of
// a sentence, the default of the password, and no value.
var harmless = []string{
	"alwaysallow", "webhook", "rbac", "node", "none", "null", "true", "false", "root",
	"basic", "bearer", "digest", "token", "tokens", "negotiate", "apikey", "auth", "authentication", "credentials",
	"required", "header", "headers", "password", "pass", "secret",
}

func isValue(s string) bool {
	isReference := strings.HasPrefix(s, "var.") || strings.HasPrefix(s, "local.") || strings.HasPrefix(s, "each.")

	return !isReference && !strings.Contains(s, sensitiveText) && !slices.Contains(harmless, strings.ToLower(s)) &&
		!placeholder().MatchString(s)
}

// placeholder matches a placeholder for a secret in an example: __TOKEN__, @PASSWORD@, YOUR_API_KEY, xxxxx, *****.
var placeholder = texts.LazyRegexp(`^(?:__.*__|@.*@|[xX.*-]+|\*{3,}.*|` +
	`(?:[A-Z]+[_-])*(?:TOKEN|PASSWORD|PASSWD|SECRET|KEY|CREDENTIALS?|CHANGE_?ME|REDACTED)(?:[_-][A-Z]+)*)$`)

// isCredential reports whether a text is not a word of a sentence: it is long, or not of small letters.
func isCredential(s string) bool {
	return isValue(s) && (len(s) >= 16 || s != strings.ToLower(s) || isWord(s))
}

// isWord reports whether a text differs from an ordinary word: it has a digit or a colon.
func isWord(s string) bool { return isValue(s) && strings.ContainsAny(s, "0123456789:") }

// isLongWord reports whether a text has a digit and is as long as a secret.
func isLongWord(s string) bool { return len(s) >= minHeld && isWord(s) }

// isBearer reports whether the word behind Bearer cannot be a word of a sentence.
func isBearer(s string) bool { return isLongWord(s) || isValue(s) && strings.ContainsAny(s, "*~+") }

// isEncodedPair reports whether a text is a user and a password as the scheme Basic encodes them. Words are not.
func isEncodedPair(s string) bool {
	pair, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
	return err == nil && bytes.Contains(pair, []byte(":"))
}

// evidentForms has all forms. Their hints begin with letters that are rare: each is looked for in each answer.
var evidentForms = sync.OnceValue(func() []form {
	const header = "the value of a header Authorization"

	return []form{
		{PrivateKey, []string{"PRIVATE KEY"}, groups(privateKey, nil)},
		{PrivateKey, nil, findEncodedKeys},
		{aToken, []string{"."}, findTokens},
		{"a token of a service account", []string{".eyJ"}, groups(webToken, nil)},
		{header, headerNames, each(
			headers(schemeHeader, isValue), headers(tokenHeader, isCredential), headers(headerWord, isLongWord),
		)},
		{header, []string{"Authorization", "AUTHORIZATION"}, findBareHeaders},
		{header, []string{"Bearer"}, groups(bearer, isBearer)},
		{header, []string{"Basic"}, groups(basic, isEncodedPair)},
		{"a password in a URL", []string{"@"}, findPasswords},
		{"a secret in the query of a URL", []string{"?"}, findQueries},
		{FlagValue, []string{"header", "word"}, each(groups(settingValue, isValue), groups(settingWord, isWord))},
		{FieldValue, []string{"URLHeader"}, findHeaders},
	}
})

// each returns a function that finds what any of several does.
func each(all ...func(string) [][2]int) func(string) [][2]int {
	return func(text string) (out [][2]int) {
		for _, find := range all {
			out = append(out, find(text)...)
		}

		return out
	}
}

// groups returns a function that finds the first group of an expression that matched, if it is one, or with nil the
// whole match.
func groups(expression func() *regexp.Regexp, isSecret func(string) bool) func(string) [][2]int {
	return func(text string) (out [][2]int) {
		for _, m := range expression().FindAllStringSubmatchIndex(text, -1) {
			if isSecret == nil {
				out = append(out, [2]int{m[0], m[1]})
				continue
			}
			for i := 2; i < len(m); i += 2 {
				if m[i] >= 0 && isSecret(text[m[i]:m[i+1]]) {
					out = append(out, [2]int{m[i], m[i+1]})
				}
			}
		}

		return out
	}
}

// headerNames are the name of the header behind its first letter.
var headerNames = []string{"uthorization", "UTHORIZATION"}

// headers is groups for an expression that begins with the name of the header. Each configuration of the kubelet has a
// field of that name, so the expression is tried only there.
func headers(expression func() *regexp.Regexp, isSecret func(string) bool) func(string) [][2]int {
	find := groups(expression, isSecret)

	return func(text string) (out [][2]int) {
		for _, name := range headerNames {
			for from := 0; ; {
				at := strings.Index(text[from:], name)
				if at < 0 {
					break
				}
				start := from + at - 1
				from += at + len(name)
				if start < 0 || start > 0 && joins(text[start-1]) {
					continue
				}
				for _, m := range find(text[start:]) {
					out = append(out, [2]int{start + m[0], start + m[1]})
				}
			}
		}

		return out
	}
}

// findBareHeaders finds headers without a scheme. A word that is not quoted may be one of a sentence.
func findBareHeaders(text string) [][2]int {
	return slices.DeleteFunc(groups(bareHeader, isValue)(text), func(at [2]int) bool {
		isQuoted := strings.IndexByte(`"'`, text[at[0]-1]) >= 0

		return !isQuoted && !isCredential(text[at[0]:at[1]])
	})
}

// findPasswords finds passwords in URLs. What only looks like one is the tag of an image before its digest.
func findPasswords(text string) [][2]int {
	isPassword := func(s string) bool { return isValue(s) && !formatVerb().MatchString(s) }
	found := groups(urlPassword, isPassword)(text)

	return slices.DeleteFunc(found, func(at [2]int) bool { return strings.HasPrefix(text[at[1]:], "@sha256:") })
}

// pageToken matches the name of a parameter that says where the next page of a list begins.
var pageToken = texts.LazyRegexp(`(?i)[?&._-](?:page|next|previous|prev|continue|continuation|sync)[._-]?token=$`)

// findQueries finds secrets in queries of URLs.
func findQueries(text string) [][2]int {
	return slices.DeleteFunc(groups(urlQuery, isValue)(text), func(at [2]int) bool {
		return pageToken().MatchString(text[max(at[0]-len("?continuation-token="), 0):at[0]])
	})
}

// encodedArmour is what base64 and hexadecimal make of the armour of a private key.
var encodedArmour = sync.OnceValue(func() *forms {
	const armour = "PRIVATE KEY-----"
	isPlain := func(s string) bool { return strings.ContainsAny(s, " +%-") }

	return newForms(slices.DeleteFunc(secretForms([]byte(armour)), isPlain))
})

// minEncodedLine is the least length of a further line of a key in base64. A shorter one is a word, or its armour.
const minEncodedLine = 20

func findEncodedKeys(text string) (out [][2]int) {
	isPart := func(c byte) bool { return joins(c) || strings.IndexByte("+/=-", c) >= 0 }
	countPart := func(text string) (n int) {
		for n < len(text) && isPart(text[n]) {
			n++
		}

		return n
	}

	for _, armour := range encodedArmour().all {
		for from := 0; ; {
			at := strings.Index(text[from:], armour)
			if at < 0 {
				break
			}
			start, end := from+at, from+at+len(armour)
			for start > 0 && isPart(text[start-1]) {
				start--
			}
			end += countPart(text[end:])
			// The next lines of a text that was broken into lines.
			for {
				space := len(text[end:]) - len(strings.TrimLeft(text[end:], " \t\r\n"))
				more := countPart(text[end+space:])
				if more < minEncodedLine {
					break
				}
				end += space + more
			}
			out = append(out, [2]int{start, end})
			from = end
		}
	}

	return out
}

// findTokens finds bootstrap tokens. A name may have the same form, with digits before its dot: of the tokens, one in
// two hundred has no digit behind it.
func findTokens(text string) (out [][2]int) {
	for at := 0; ; at++ {
		dot := strings.IndexByte(text[at:], '.')
		if dot < 0 {
			return out
		}
		at += dot
		start := at - tokenID
		if start < 0 || !isToken(text, start) {
			continue
		}
		token := text[start : start+tokenSize]
		if token != SampleToken && strings.ContainsAny(token[tokenID:], "0123456789") {
			out = append(out, [2]int{start, start + tokenSize})
		}
	}
}

// FindEvident returns what in a text is evidently a secret, in the order of the text. It knows forms that are
// unmistakable: private keys, also in base64 or hexadecimal; tokens of bootstrap and of service accounts; headers
// Authorization; passwords and tokens in URLs; and values of the kubelet's secret flags and field. An
// expression in the place of a secret is none, nor is what an example has there: <password>, $PW, SampleToken.
func FindEvident(text string) []Evident {
	const shortest = "//:p@"
	if len(text) < len(shortest) { // most values of a configuration
		return nil
	}

	var out []Evident
	for _, f := range evidentForms() {
		isHinted := func(hint string) bool { return strings.Contains(text, hint) }
		if f.hints != nil && !slices.ContainsFunc(f.hints, isHinted) {
			continue
		}
		for _, at := range f.find(text) {
			if strings.HasPrefix(text[at[1]:], sensitiveText) { // the rest of it is hidden
				continue
			}
			out = append(out, Evident{at[0], at[1], f.what})
		}
	}

	slices.SortStableFunc(out, func(a, b Evident) int { return cmp.Compare(a.Start, b.Start) })

	// Of secrets that overlap, the first has all.
	merged := out[:0]
	for _, e := range out {
		if n := len(merged); n > 0 && e.Start < merged[n-1].End {
			merged[n-1].End = max(merged[n-1].End, e.End)
			continue
		}
		merged = append(merged, e)
	}

	return merged
}

// HideEvident returns a text with "(sensitive)" in place of each evident secret. Doing it twice changes nothing.
func HideEvident(text string) string {
	for _, e := range slices.Backward(FindEvident(text)) {
		text = text[:e.Start] + sensitiveText + text[e.End:]
	}

	return text
}

// hiddenBytes is how many bytes of a text that is blanked are stars.
const hiddenBytes = 4

// Blank overwrites a part of a source text, of which diagnostics show lines: by the same number of stars for each text,
// because a length is a part of a secret, and by spaces, so that all other places stay.
func Blank(src []byte, start, end int) {
	for i := start; i < min(end, len(src)); i++ {
		switch {
		case src[i] == '\n':
		case i < start+hiddenBytes:
			src[i] = '*'
		default:
			src[i] = ' '
		}
	}
}

// BlankEvident returns a source text whose lines may be shown alone: without the evident secrets of the whole text.
func BlankEvident(src []byte) []byte {
	found := FindEvident(string(src))
	if len(found) == 0 {
		return src
	}
	src = slices.Clone(src)
	for _, e := range found {
		Blank(src, e.Start, e.End)
	}

	return src
}
