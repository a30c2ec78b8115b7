package kubelet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxEnvFile bounds what is read as flags: Linux takes no single argument or variable above 128 KiB, and a file
// of some comments more; 1 MiB is far above both.
const maxEnvFile = 1 << 20

// EnvFile is a file that a unit reads by EnvironmentFile=: /etc/default/kubelet, /etc/sysconfig/kubelet,
// /var/lib/kubelet/kubeadm-flags.env, /etc/kubernetes/kubelet-customized-args.conf. It is read exactly as systemd
// reads it, and every byte that no change touches stays as it is: comments, blank lines, other variables,
// line ends, a missing newline at the end.
type EnvFile struct {
	text string
	vars []assignment
}

// assignment is one NAME=value of the file.
type assignment struct {
	name       string
	start, end int // of the value's text: behind "=", before the line end
	value      string
}

// ParseEnvFile reads text as systemd does. It fails only for what systemd refuses too, with the whole file:
// bytes that are not UTF-8, NUL and characters that are no characters; and for more than 1 MiB. Lines without
// "=" are kept and mean nothing.
func ParseEnvFile(text string) (*EnvFile, error) {
	if err := checkText(text, "environment file"); err != nil {
		return nil, err
	}
	return &EnvFile{text: text, vars: scanAssignments(text)}, nil
}

func checkText(text, what string) error {
	if len(text) > maxEnvFile {
		return fmt.Errorf("%s: %d bytes, more than the %d that are read", what, len(text), maxEnvFile)
	}
	if i := invalidText(text); i >= 0 {
		return fmt.Errorf("%s: byte %d (line %d) is not a character that systemd accepts, which would refuse the whole file: save it as UTF-8 without NUL and byte order mark",
			what, i, 1+strings.Count(text[:i], "\n"))
	}
	return nil
}

// invalidText returns the position of the first byte that systemd's utf8_is_valid() refuses, or -1. A byte order
// mark is valid UTF-8, but makes the first line another one than it looks.
func invalidText(text string) int {
	for i, r := range text {
		switch {
		case r == 0, r == '\ufeff', r >= 0xfdd0 && r <= 0xfdef, r&0xfffe == 0xfffe:
			return i
		case r == utf8.RuneError:
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				return i
			}
		}
	}
	return -1
}

// String returns the file's text.
func (f *EnvFile) String() string { return f.text }

// Names returns the variables in the order of their first assignment.
func (f *EnvFile) Names() []string {
	var names []string
	seen := map[string]bool{}
	for _, a := range f.vars {
		if !seen[a.name] {
			seen[a.name] = true
			names = append(names, a.name)
		}
	}
	return names
}

// Value returns what systemd puts into the environment; of several assignments the last one counts.
func (f *EnvFile) Value(variable string) (value string, ok bool) {
	a, ok := f.find(variable)
	return a.value, ok
}

// Get returns the flags in a variable, or false when the file does not assign it. Changes to the result do not
// reach the file until Set.
func (f *EnvFile) Get(variable string) (*Flags, bool) {
	a, ok := f.find(variable)
	if !ok {
		return nil, false
	}
	return newFlags(f.text[a.start:a.end], true), true
}

func (f *EnvFile) find(variable string) (assignment, bool) {
	for i := len(f.vars) - 1; i >= 0; i-- {
		if f.vars[i].name == variable {
			return f.vars[i], true
		}
	}
	return assignment{}, false
}

// Set puts flags into a variable: into the assignment that counts, and where there is none on a line of its own
// at the end of the file. All other bytes stay. Flags that came from Get keep their spelling, quotes and
// continued lines included. It fails, and changes nothing, when the file cannot take them: a name that is no
// variable, or an end of file inside of quotes that a new line would fall into.
func (f *EnvFile) Set(variable string, flags *Flags) error {
	if !isVariable(variable) {
		return fmt.Errorf("%q is no name of an environment variable: letters, digits and _, no digit in front", variable)
	}
	spellings := []string{quoteAssignment(flags.Argv())}
	if flags.env {
		spellings = append([]string{flags.raw}, spellings...)
	}
	var refusal error
	for _, spelling := range spellings {
		next, err := f.with(variable, spelling, flags.Argv())
		if err == nil {
			*f = *next
			return nil
		}
		refusal = err
	}
	return refusal
}

// with returns a copy where variable has the given spelling, after reading it back: the words must be the planned
// ones, and every other variable must have the value it had.
func (f *EnvFile) with(variable, spelling string, argv []string) (*EnvFile, error) {
	var text string
	if a, ok := f.find(variable); ok {
		text = f.text[:a.start] + spelling + f.text[a.end:]
	} else {
		text = f.text
		newline := "\n"
		if strings.Contains(text, "\r\n") {
			newline = "\r\n"
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += newline
		}
		text += variable + "=" + spelling + newline
	}
	next, err := ParseEnvFile(text)
	if err != nil {
		return nil, err
	}
	got, _ := next.Value(variable)
	if !slices.Equal(Argv(got), argv) {
		return nil, fmt.Errorf("%s cannot be put into this environment file so that systemd reads it back: look for a quote that is never closed or a comment that ends in a backslash, and mend it", variable)
	}
	for _, name := range f.Names() {
		before, _ := f.Value(name)
		if after, ok := next.Value(name); name != variable && (!ok || after != before) {
			return nil, fmt.Errorf("%s cannot be put into this environment file without changing %s: look for a quote that is never closed, and close it", variable, name)
		}
	}
	return next, nil
}

// quoteAssignment spells words as one double-quoted value.
func quoteAssignment(argv []string) string {
	spelled := make([]string, len(argv))
	for i, word := range argv {
		spelled[i] = quoteWord(word, "''")
	}
	return `"` + encodeEnv(strings.Join(spelled, " "), double) + `"`
}

// Ambiguous returns an error when systemds disagree about the file: up to v253 a comment line that ends in a
// backslash takes the next line with it, from v254 on it does not (this package reads as v254 does). It matters
// when the next line is an assignment.
func (f *EnvFile) Ambiguous() error {
	if len(f.vars) == 0 {
		return nil
	}
	for line, rest := 1, f.text; rest != ""; line++ {
		this, next, _ := strings.Cut(rest, "\n")
		comment := strings.TrimLeft(this, " \t\r")
		if comment != "" && strings.ContainsRune("#;", rune(comment[0])) && strings.HasSuffix(this, "\\") && f.assignedIn(len(f.text)-len(next), next) {
			return fmt.Errorf("line %d: %w: systemd before v254 takes the next line as part of this comment", line, errCommentContinues)
		}
		rest = next
	}
	return nil
}

var errCommentContinues = errors.New("a comment that ends in a backslash stands before an assignment; remove the backslash")

// assignedIn says whether an assignment begins on the line that rest begins with, at position at of the file.
func (f *EnvFile) assignedIn(at int, rest string) bool {
	line, _, _ := strings.Cut(rest, "\n")
	for _, a := range f.vars {
		if a.start > at && a.start <= at+len(line) {
			return true
		}
	}
	return false
}

// scanAssignments walks the file as systemd's parse_env_file_internal() does (see envvalue.go).
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
			a := assignment{name: strings.TrimRight(text[i:i+stop], " \t"), start: i + stop + 1}
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
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
