package probe

import (
	"regexp"
	"strings"
	"sync"

	"github.com/prelet/prelet/internal/lang/value"
)

// Parts of the forms below. A text may be JSON, or a string of it: no match ends inside of an escape or crosses the end
// of a string, and \n ends a line there, too. The ${ of a template is not a part of a value.
const (
	escape   = `\\(?:u[0-9A-Fa-f]{4}|\w)`
	boundary = `(` + escape + `|\b)`
	keyLine  = `[^"\\\n]*[A-Za-z0-9+/=]{16,}` // of a private key, after what a log has before it
	newLine  = `(?:\r?\n|\\+n)`
	space    = `(?:\s|\\+n)*`

	// A value of one word, and all words to the end of a line, to a quote or to the next flag. A parameter such as
	// response="…" has quotes of its own.
	quoted    = `\\(?:\\\\)*"` // in a string: the quote does not end it
	character = `(?:="\w[^"\\\n]*"|=` + quoted + `\w[^"\\\n]*` + quoted + `|[^"\\\s$]|\\[^"n\s]|\$[^{"\\\s])`
	word      = `-?[^\s"'\\${}\[\](),:=-]` + character + `*`
	words     = word + `(?:[ \t]+-?(?:[^\s"\\$-]|\\[^"n\s])` + character + `*)*`
)

// secretForm is a text that is a credential by its form, where it may be in the middle of any text. The groups of the
// pattern are kept. A text without the literal, in lower case, has none; most have not, and the search for it is fast.
type secretForm struct {
	literal string
	pattern *regexp.Regexp
}

// secretForms are applied in this order.
var secretForms = sync.OnceValue(func() (forms []secretForm) {
	for _, form := range [][2]string{
		// A private key in PEM.
		{`private key-----`, `-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[^"]*?-----END [A-Z0-9 ]*PRIVATE KEY-----`},

		// One whose end was cut off: to the end of the string, or all lines that may be of a key.
		{`private key-----`, `(?m)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?:[^"\\\n]|\\[^"])*` +
			`(?:\n(?:` + keyLine + `|[ \t]*[A-Za-z0-9+/=]*)\r?$)*`},

		// One whose beginning was cut off. Its last line is often short.
		{`private key-----`, `(?m)(^|"|\\n)(?:` + keyLine + newLine + `)*(?:[^"\\\n]*` + newLine + `)?` +
			`[^"\\\n]*-----END [A-Z0-9 ]*PRIVATE KEY-----`},

		// A JSON Web Token, as of a service account.
		{`eyj`, boundary + jwtForm},

		// User and password in a URL, to the last @.
		{`://`, `(://)(?:[^/\s"\\$]|\\[^"nrt\s]|\$[^{@/\s"\\])+\$?(@)`},

		// An Authorization header with any scheme: as a header, in a list of YAML, in a map of Go.
		{`authorization`, `(?i)(\bauthorization[ \t]*[:=](?:` + space + `-[ \t])?[ \t]*(?:\[|\\*["'])?)` + words},

		// The same where the name has quotes, as in JSON, HCL and Go. The value then has quotes, too.
		{`authorization`, `(?i)(\bauthorization\\*["'][ \t]*[:=]` + space +
			`(?:\[\]string\{|\[` + space + `)?\\*["'])` + words},

		// A header of the kubelet's requests for static pods: as a flag, as two words, in the plan as JSON.
		{`manifest-url-header`, `(manifest-url-header(?:=|[ \t]+|\\*",` + space + `(?:\\*"value\\*":` + space + `)?)` +
			`\\*["']?[\w-]+:[ \t]*)` + words},

		// Token and password of a kubeconfig: a line of YAML, a member of JSON in one line, or in a string. In the
		// questions of a recording, where each member has a line, "token" is the name of a credential.
		{`:`, `(?m)((?:^|"|\\n)[ \t-]*(?:token|password):[ \t]+\\*["']?)[^\s"'\\${}\[\]()]+`},
		{`"`, `([{,][ \t]*"(?:token|password)"[ \t]*:[ \t]*")(?:[^"\\$]|\\.)(?:[^"\\]|\\.)*`},
		{`\"`, `(\\"(?:token|password)\\+"[ \t]*:[ \t]*\\+")[^"\\$](?:[^"\\]|\\[^"])*`},

		// A hash of a password, as crypt(5) makes them.
		{`$`, `\$(?:1|2[abxy]|5|6|7|y|gy)\$[./A-Za-z0-9$=,]{20,}`},
	} {
		forms = append(forms, secretForm{form[0], regexp.MustCompile(form[1])})
	}

	return forms
})

// encoded is a run of base64 or hexadecimal, which may be broken into lines, with the escape before it. A last line
// that is short has only the END of a key, and could be a word of the text.
var encoded = sync.OnceValue(func() *regexp.Regexp {
	const line = `[A-Za-z0-9+/_-]{20,}=*`

	return regexp.MustCompile(boundary + line + `(?:(?:\s|\\+[nr])+` + line + `)*`)
})

var escaped = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(escape) })

var removeBreaks = strings.NewReplacer(`\n`, "", `\r`, "", `\`, "", "\n", "", "\r", "", " ", "", "\t", "")

// hidden is written in place of a credential.
const hidden = "(sensitive)"

// HideByForm returns a text without what is a credential by its form, also if no credential of this node holds it:
// private keys in PEM and in base64 of it, JSON Web Tokens, bootstrap tokens, users and passwords in URLs, values of
// Authorization headers and of --manifest-url-header, tokens and passwords of kubeconfigs, hashes of passwords. It is
// for texts of other programs, and hides too much rather than too little. JSON stays JSON.
func HideByForm(text string) string {
	lower := strings.ToLower(text)
	for _, form := range secretForms() {
		if strings.Contains(lower, form.literal) {
			text = form.pattern.ReplaceAllString(text, "${1}"+hidden+"${2}")
		}
	}

	return hideTokens(hideEncodedKeys(text))
}

// hideEncodedKeys hides runs of base64 or hexadecimal with a private key in them.
func hideEncodedKeys(text string) string {
	keys := newKeyFinder()

	return encoded().ReplaceAllStringFunc(text, func(run string) string {
		if !keys.Holds(removeBreaks.Replace(run)) {
			return run
		}

		before := ""
		if at := escaped().FindStringIndex(run); at != nil && at[0] == 0 {
			before = run[:at[1]]
		}

		return before + hidden
	})
}

// hideTokens hides the secret half of bootstrap tokens. The letter of an escape, as in \n, is not a part of a word.
func hideTokens(text string) string {
	var b strings.Builder
	tokens := value.NewRedactor()
	last := 0
	for _, at := range escaped().FindAllStringIndex(text, -1) {
		b.WriteString(tokens.String(text[last:at[0]]))
		b.WriteString(text[at[0]:at[1]])
		last = at[1]
	}
	b.WriteString(tokens.String(text[last:]))

	return b.String()
}
