package kubelet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxEnvFile is the largest accepted text of flags, in bytes. Linux accepts no argument or variable above 128 KiB; a
// file may have comments in addition.
const maxEnvFile = 1 << 20

// EnvFile is an EnvironmentFile= of a unit, like /etc/default/kubelet or /var/lib/kubelet/kubeadm-flags.env. It is
// parsed exactly as systemd does. Changes keep all other bytes: comments, blank lines, other variables, line ends, a
// missing final newline.
type EnvFile struct {
	text string
	vars []assignment
}

// assignment is one NAME=value of the file.
type assignment struct {
	name       string
	start, end int // of the value's text: after "=", before the line end
	value      string
}

// ParseEnvFile parses a text as systemd does. It fails only for a file that systemd rejects, because of invalid
// UTF-8, NUL or Unicode noncharacters, and for more than maxEnvFile. Lines without "=" have no effect.
func ParseEnvFile(text string) (*EnvFile, error) {
	if err := checkText(text, "environment file"); err != nil {
		return nil, err
	}
	return &EnvFile{text: text, vars: scanAssignments(text)}, nil
}

func checkText(text, what string) error {
	if len(text) > maxEnvFile {
		return fmt.Errorf("%s: %d bytes, the limit is %d", what, len(text), maxEnvFile)
	}
	if i := findInvalidText(text); i >= 0 {
		line := 1 + strings.Count(text[:i], "\n")

		return fmt.Errorf(
			"%s: byte %d (line %d) is not a character that systemd accepts, so it rejects the whole file: "+
				"save it as UTF-8 without NUL and byte order mark",
			what,
			i,
			line,
		)
	}
	return nil
}

// findInvalidText returns the position of the first byte that systemd's utf8_is_valid() rejects, or -1. A byte order
// mark is valid UTF-8, but becomes a part of the first variable's name.
func findInvalidText(text string) int {
	for i, r := range text {
		isNoncharacter := r >= 0xfdd0 && r <= 0xfdef || r&0xfffe == 0xfffe
		if r == 0 || r == '\ufeff' || isNoncharacter {
			return i
		}
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) {
			return i
		}
	}

	return -1
}

func (f *EnvFile) String() string { return f.text }

// Names returns the variables in the order of their first assignment.
func (f *EnvFile) Names() []string {
	var names []string
	for _, a := range f.vars {
		if !slices.Contains(names, a.name) {
			names = append(names, a.name)
		}
	}
	return names
}

// Value returns the value of a variable as systemd sets it. The last assignment counts.
func (f *EnvFile) Value(variable string) (value string, ok bool) {
	a, ok := f.find(variable)
	return a.value, ok
}

// Variables returns the values of all variables, as systemd sets them.
func (f *EnvFile) Variables() map[string]*string {
	all := map[string]*string{}
	for _, a := range f.vars {
		all[a.name] = &a.value
	}

	return all
}

// Get returns the flags in a variable, or false if the file does not assign it. Set writes changed flags.
func (f *EnvFile) Get(variable string) (*Flags, bool) {
	a, ok := f.find(variable)
	if !ok {
		return nil, false
	}
	return newFlags(f.text[a.start:a.end], true), true
}

// Withhold returns the file's text with all but some variables replaced: the values of the others, and the text between
// the assignments, such as comments. An invalid name, and one without a value, is replaced too: it may be a line of a
// text in base64. systemd reads the same variables from the result as from the file, or Withhold fails.
func (f *EnvFile) Withhold(isShown func(name string) bool, replace func(part string) string) (string, error) {
	var out strings.Builder
	end := 0

	for _, a := range f.vars {
		between := f.text[end:a.start]
		start := strings.LastIndexAny(between, "\n\r") + 1
		name, text := between[start:], f.text[a.start:a.end]
		out.WriteString(withholdLines(between[:start], replace))

		if !isShown(a.name) {
			isLine := strings.Trim(text, "\"' \t") == "" || strings.HasPrefix(text, "=")
			if a.name != "" && (isLine || !isVariable(a.name)) {
				name = strings.Replace(name, a.name, replace(a.name), 1)
			}
			text = withholdValue(text, replace)
		}
		out.WriteString(name + text)
		end = a.end
	}
	out.WriteString(withholdLines(f.text[end:], replace))

	shown, err := ParseEnvFile(out.String())
	if err != nil {
		return "", err
	}
	for _, name := range f.Names() {
		before, _ := f.Value(name)
		after, _ := shown.Value(name)
		if isShown(name) && after != before {
			return "", fmt.Errorf("%s is mixed with what is around it: close each quote", name)
		}
	}

	return out.String(), nil
}

// IsOfKubeadm reports whether a variable is one of kubeadm's drop-in, which have only flags.
func IsOfKubeadm(variable string) bool {
	return slices.Contains([]string{
		"KUBELET_KUBECONFIG_ARGS",
		"KUBELET_CONFIG_ARGS",
		"KUBELET_KUBEADM_ARGS",
		"KUBELET_EXTRA_ARGS",
	}, variable)
}

// withholdLines replaces lines without an assignment. Line ends and the marks of comments stay, also of a comment that
// some versions of systemd continue in the next line.
func withholdLines(lines string, replace func(part string) string) string {
	part := strings.Trim(lines, " \t\r\n")
	before, after, _ := strings.Cut(lines, part)
	if isComment(part) {
		before += part[:1]
		part = part[1:]
	}
	last := part[strings.LastIndexByte(part, '\n')+1:]
	isLastComment := last == part || isComment(strings.TrimLeft(last, " \t"))
	if body, isContinued := strings.CutSuffix(part, `\`); isContinued && isLastComment {
		part = body
		after = `\` + after
	}
	if part != "" {
		part = replace(part)
	}

	return before + part + after
}

func isComment(line string) bool {
	return strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";")
}

// withholdValue replaces the text of a value. A quote that is not closed, and a backslash at the end of the file, stay:
// whatever is added to the file is a part of such a value.
func withholdValue(text string, replace func(part string) string) string {
	line := strings.TrimRight(text, "\r\n")
	switch before, ok := strings.CutSuffix(line, `\`); {
	case text == "":
		return ""
	case !isOpenValue(text):
		return replace(text)
	case ok && !isOpenValue(before):
		return replace(before) + text[len(before):]
	}

	for at, c := range text {
		isQuote := c == '"' || c == '\''
		if isQuote && !isOpenValue(text[:at]) && isOpenValue(text[at:]) && strings.Trim(text[:at], " \t") == "" {
			return text[:at+1] + replace(text[at+1:])
		}
	}

	return replace(text)
}

// isOpenValue reports whether a value goes on in the line after it.
func isOpenValue(text string) bool {
	vars := scanAssignments("a=" + strings.TrimSuffix(text, "\n") + "\nb=")

	return vars[len(vars)-1].name != "b"
}

func (f *EnvFile) find(variable string) (assignment, bool) {
	for _, a := range slices.Backward(f.vars) {
		if a.name == variable {
			return a, true
		}
	}

	return assignment{}, false
}

// Set writes flags into the last assignment of a variable, or into a new line at the end. Flags from Get keep their
// spelling, including quotes and continued lines. It fails, and changes nothing, for an invalid name, and if the file
// cannot hold the flags, for example because it ends within quotes.
func (f *EnvFile) Set(variable string, flags *Flags) error {
	if !isVariable(variable) {
		return fmt.Errorf(
			"invalid name of an environment variable %q: want letters, digits and _, no digit first",
			variable,
		)
	}
	spellings := []string{quoteAssignment(flags.Argv())}
	if flags.env {
		spellings = append([]string{flags.raw}, spellings...)
	}

	var lastErr error
	for _, spelling := range spellings {
		next, err := f.replaceValue(variable, spelling, flags.Argv())
		if err == nil {
			*f = *next

			return nil
		}
		lastErr = err
	}

	return lastErr
}

// replaceValue returns a copy with a new spelling of a variable. It parses the copy: the variable must have the wanted
// words, and all others their old values.
func (f *EnvFile) replaceValue(variable, spelling string, argv []string) (*EnvFile, error) {
	next, err := ParseEnvFile(f.spliceValue(variable, spelling))
	if err != nil {
		return nil, err
	}

	value, _ := next.Value(variable)
	if !slices.Equal(Argv(value), argv) {
		return nil, fmt.Errorf("systemd would not read %s back from this environment file: "+
			"fix a quote that is not closed or a comment that ends in a backslash", variable)
	}
	for _, name := range f.Names() {
		before, _ := f.Value(name)
		after, ok := next.Value(name)
		isChanged := !ok || after != before
		if isChanged && name != variable {
			return nil, fmt.Errorf(
				"%s cannot be set in this environment file without changing %s: "+
					"close a quote that is not closed",
				variable,
				name,
			)
		}
	}

	return next, nil
}

// spliceValue returns the text with a new spelling of a variable.
func (f *EnvFile) spliceValue(variable, spelling string) string {
	if a, ok := f.find(variable); ok {
		return f.text[:a.start] + spelling + f.text[a.end:]
	}

	newline := "\n"
	if strings.Contains(f.text, "\r\n") {
		newline = "\r\n"
	}
	text := f.text
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += newline
	}

	return text + variable + "=" + spelling + newline
}

// quoteAssignment returns words as one double-quoted value.
func quoteAssignment(argv []string) string {
	return `"` + encodeEnv(joinQuoted(argv, "''"), double) + `"`
}

// Ambiguous returns an error if versions of systemd disagree about the file: up to v253 a comment line that ends in a
// backslash includes the next line, from v254 on it does not, nor in this package. That matters if the next line is an
// assignment.
func (f *EnvFile) Ambiguous() error {
	end := 0
	number := 0
	for line := range strings.Lines(f.text) {
		number++
		end += len(line)
		comment := strings.Trim(line, " \t\r\n")
		if isComment(comment) && strings.HasSuffix(line, "\\\n") && f.hasAssignment(end) {
			return fmt.Errorf(
				"line %d: %w: systemd before v254 reads the next line as a part of this comment",
				number,
				errCommentContinues,
			)
		}
	}

	return nil
}

var errCommentContinues = errors.New(
	"a comment before an assignment ends in a backslash; remove the backslash",
)

// hasAssignment reports whether the line that begins at a position has an assignment.
func (f *EnvFile) hasAssignment(start int) bool {
	line, _, _ := strings.Cut(f.text[start:], "\n")
	isInLine := func(a assignment) bool { return a.start > start && a.start <= start+len(line) }

	return slices.ContainsFunc(f.vars, isInLine)
}

// scanAssignments parses the file as systemd's parse_env_file_internal() does (see envvalue.go).
func scanAssignments(text string) []assignment {
	var vars []assignment
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '#' || c == ';':
			i = skipComment(text, i)
		case isSeparator(c):
			i++
		default:
			stop := strings.IndexAny(text[i:], "=\n\r")
			if stop < 0 {
				return vars
			}
			if text[i+stop] != '=' {
				i += stop
				continue
			}
			a := assignment{
				name:  strings.TrimRight(text[i:i+stop], " \t"),
				start: i + stop + 1,
			}
			a.value, _, a.end = decodeEnvValue(text, a.start)
			vars = append(vars, a)
			i = a.end
		}
	}
	return vars
}

func skipComment(text string, i int) int {
	stop := strings.IndexAny(text[i:], "\n\r")
	if stop < 0 {
		return len(text)
	}
	return i + stop
}

func isVariable(name string) bool {
	if name == "" || strings.ContainsAny(name[:1], digits) {
		return false
	}

	return strings.Trim(name, letters+digits+"_") == ""
}
