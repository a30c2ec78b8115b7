// Package script is the language of the tests that follow a node through its life. README.md has all its words.
//
// A file is a txtar archive. A section is a script, and its name is that of the test; one whose name has a dot or a
// slash, and no blank, is a file of the scripts. In an archive without scripts, the text before the first section is
// the script, and it has the name of the file.
//
// A line is a command with its arguments, split at blanks; text in single quotes is one word, in which two quotes mean
// one. Text after a # that begins a word is a comment. "== NAME WORDS..." begins a part of the script. "!" before a
// command means that it must not hold, or must fail. A command that takes commands has them in the rest of its line,
// separated by ";".
//
// Lines "matrix NAME VALUE..." play the script once for each value, which is $NAME or ${NAME}, also in quotes and in
// the script's name. A line that begins with [NAME:VALUE] is left out for other values, and one with [!NAME:VALUE] for
// this one. A condition of another name is one of the node that plays the script. What `set` gives a name is not
// replaced in quotes, and in the commands of a line when the line begins.
//
// Several nodes play the language: a state folder, a state machine with fakes around it, a disk with faults, the
// program in the process of the test, and a machine with a systemd. Each of them is a Node.
package script

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// Script is a script with its values of the matrix.
type Script struct {
	Name   string
	Values []string // NAME=VALUE, of the matrix
	Lines  []Line
	Files  []txtar.File
}

// Line is a command of a script.
type Line struct {
	At    string // file:line
	If    []string
	Not   bool // there is a "!" before it
	Words []string

	isFixed []bool // of each word: it was quoted, so that $NAME in it is text
}

// String returns the place and the words, as a script has them.
func (l Line) String() string {
	text := l.At + ":"
	if l.Not {
		text += " !"
	}
	for _, word := range l.Words {
		if word == "" || strings.ContainsAny(word, " \t'") || word[0] == '#' {
			word = "'" + strings.ReplaceAll(word, "'", "''") + "'"
		}
		text += " " + word
	}

	return text
}

// Load returns the scripts of an archive, in its order.
func Load(t testing.TB, file string) (scripts []Script) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatalf("%s: got %v, want an archive with scripts", file, err)
	}
	var files []txtar.File
	name := strings.TrimSuffix(filepath.Base(file), ".txtar")
	sections := []section{{name, 0, string(archive.Comment)}}
	number := strings.Count(string(archive.Comment), "\n")
	for _, f := range archive.Files {
		number++ // the line with the name
		if isFile(f.Name) {
			files = append(files, f)
		} else {
			sections = append(sections, section{f.Name, number, string(f.Data)})
		}
		number += strings.Count(string(f.Data), "\n")
	}
	if len(sections) > 1 { // the first text is prose
		sections = sections[1:]
	}
	for _, s := range sections {
		scripts = append(scripts, s.parse(t, file, files)...)
	}

	return scripts
}

// isFile reports whether a section of this name is a file.
func isFile(name string) bool { return strings.ContainsAny(name, "./") && !strings.Contains(name, " ") }

// section is a script before its matrix is applied.
type section struct {
	name   string
	number int // of lines before its text
	text   string
}

func (s section) parse(t testing.TB, file string, files []txtar.File) (scripts []Script) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(s.text, "\n"), "\n")
	combinations, err := readMatrix(lines)
	if err != nil {
		t.Fatalf("%s: script %q: got %v", file, s.name, err)
	}
	known := slices.Concat(combinations...)
	for _, values := range combinations {
		one := Script{Name: fill(s.name, values), Values: values, Files: files}
		for i, text := range lines {
			at := fmt.Sprintf("%s:%d", file, s.number+i+1)
			l, err := parse(at, fill(text, values))
			if err != nil {
				t.Fatalf("%s: got %q, want %v", at, text, err)
			}
			isLeftOut := false
			l.If = slices.DeleteFunc(l.If, func(condition string) bool {
				holds, isKnown := holds(condition, values)
				value := strings.Replace(strings.TrimPrefix(condition, "!"), ":", "=", 1)
				if isKnown && !slices.Contains(known, value) {
					t.Fatalf("%s: got the condition %s, want a value of the matrix", at, condition)
				}
				isLeftOut = isLeftOut || isKnown && !holds
				return isKnown
			})
			if len(l.Words) > 0 && l.Words[0] != "matrix" && !isLeftOut {
				one.Lines = append(one.Lines, l)
			}
		}
		if len(one.Lines) == 0 {
			t.Fatalf("%s: script %q: got no line, want one", file, one.Name)
		}
		scripts = append(scripts, one)
	}

	return scripts
}

// variable is $NAME or ${NAME}.
var variable = regexp.MustCompile(`\$(\w+|\{\w+\})`)

// fill replaces $NAME of values NAME=VALUE.
func fill(text string, values []string) string {
	if !strings.Contains(text, "$") {
		return text
	}

	return variable.ReplaceAllStringFunc(text, func(name string) string {
		for _, value := range values {
			if n, v, _ := strings.Cut(value, "="); n == strings.Trim(name, "${}") {
				return v
			}
		}

		return name
	})
}

// readMatrix returns the combinations of values that the matrix of a script has, each value as NAME=VALUE.
func readMatrix(lines []string) (combinations [][]string, err error) {
	combinations = [][]string{nil}
	for _, line := range lines {
		words, _, _ := split(line)
		if len(words) == 0 || words[0] != "matrix" {
			continue
		}
		if len(words) < 3 {
			return nil, fmt.Errorf("%q, want a name and values", line)
		}
		var longer [][]string
		for _, c := range combinations {
			for _, value := range words[2:] {
				longer = append(longer, append(slices.Clone(c), words[1]+"="+value))
			}
		}
		combinations = longer
	}

	return combinations, nil
}

// holds reports whether a condition NAME:VALUE or !NAME:VALUE holds, and whether the matrix has this name.
func holds(condition string, values []string) (holds, isKnown bool) {
	condition, isNot := strings.CutPrefix(condition, "!")
	name, value, _ := strings.Cut(condition, ":")
	for _, v := range values {
		n, text, _ := strings.Cut(v, "=")
		isKnown = isKnown || n == name
		holds = holds || n == name && text == value
	}

	return holds != isNot, isKnown
}

// parse returns the command of a line, which has no words if there is none.
func parse(at, text string) (l Line, err error) {
	l.At = at
	if l.Words, l.isFixed, err = split(text); err != nil {
		return l, err
	}
	drop := func() { l.Words, l.isFixed = l.Words[1:], l.isFixed[1:] }
	for len(l.Words) > 0 && strings.HasPrefix(l.Words[0], "[") && strings.HasSuffix(l.Words[0], "]") {
		l.If = append(l.If, strings.Trim(l.Words[0], "[]"))
		drop()
	}
	if len(l.Words) > 0 && l.Words[0] == "!" {
		l.Not = true
		drop()
	}
	for i, word := range l.Words {
		if word == ";" && !l.isFixed[i] && !slices.Contains(nests, l.Words[0]) {
			return l, fmt.Errorf("a line for each command, without %q, outside of at, on or repeat", ";")
		}
	}

	return l, nil
}

// split returns the words of a line, and of each whether a part of it was quoted.
func split(line string) (words []string, isFixed []bool, err error) {
	for {
		line = strings.TrimLeft(line, " \t")
		if line == "" || line[0] == '#' {
			return words, isFixed, nil
		}
		word, isQuoted, wasQuoted := "", false, false
		for line != "" && (isQuoted || line[0] != ' ' && line[0] != '\t') {
			switch {
			case line[0] != '\'':
				word += line[:1]
			case isQuoted && strings.HasPrefix(line, "''"):
				word += "'"
				line = line[1:]
			default:
				isQuoted = !isQuoted
				wasQuoted = true
			}
			line = line[1:]
		}
		if isQuoted {
			return nil, nil, fmt.Errorf("the end of a quoted word")
		}
		words, isFixed = append(words, word), append(isFixed, wasQuoted)
	}
}

// Sequence returns the commands of one line that are separated by the word ";". The commands nests take the rest of the
// line, with the commands in it.
func Sequence(at string, words []string, nests ...string) (lines []Line) {
	for len(words) > 0 {
		l := Line{At: at}
		if words[0] == "!" {
			l.Not, words = true, words[1:]
		}
		end := slices.Index(words, ";")
		if end < 0 || slices.Contains(nests, words[0]) {
			end = len(words)
		}
		l.Words, l.isFixed = words[:end], slices.Repeat([]bool{true}, end) // they were replaced as words of the line
		lines, words = append(lines, l), words[min(end+1, len(words)):]
	}

	return lines
}

// Parts returns the lines before the first "== NAME", under "", and those after each; and the words after each name.
// Parts of one name are one.
func Parts(lines []Line) (parts map[string][]Line, words map[string][]string) {
	parts, words = map[string][]Line{}, map[string][]string{}
	part := ""
	for _, l := range lines {
		if l.Words[0] != "==" {
			parts[part] = append(parts[part], l)
			continue
		}
		if part = ""; len(l.Words) > 1 {
			part = l.Words[1]
		}
		if parts[part] == nil {
			parts[part] = []Line{} // also one without lines
		}
		words[part] = l.Words[min(2, len(l.Words)):]
	}

	return parts, words
}

// Extract writes the files of a script below a folder.
func (s Script) Extract(dir string) error {
	for _, f := range s.Files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			return err
		}
	}

	return nil
}
