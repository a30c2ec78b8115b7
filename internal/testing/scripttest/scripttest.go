// Package scripttest runs scripts of tests: each line is a command with arguments, and a file has many scripts.
//
// A file is a txtar archive in which each section is a script and the section's name is that of the test. A line is
// split at blanks; text in single quotes is one word, in which two quotes mean one. Text after a # that begins a word
// is a comment. Lines "matrix NAME VALUE..." at the begin run the script once for each value; $NAME in the other lines
// and in the script's name is the value. A line that begins with [NAME:VALUE] is left out for other values, and a line
// with [!NAME:VALUE] for this one.
//
// It is for tests of one package that need many small scripts, played often and with faults in between, such as a
// process that dies at any moment. The commands are Go functions of that package. For scripts of whole programs see
// testscript.
package scripttest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// Script is a script with its values of the matrix.
type Script struct {
	Name  string
	Lines []Line
}

// Line is a command of a script.
type Line struct {
	At    string // file:line
	Words []string
}

// String returns the place and the words.
func (l Line) String() string { return l.At + ": " + strings.Join(l.Words, " ") }

// Load returns the scripts of an archive, in its order.
func Load(t testing.TB, file string) (scripts []Script) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil || len(archive.Files) == 0 {
		t.Fatalf("%s: got %v, want an archive with scripts", file, err)
	}
	number := strings.Count(string(archive.Comment), "\n")
	for _, section := range archive.Files {
		number++ // the line with the name
		lines := strings.Split(strings.TrimSuffix(string(section.Data), "\n"), "\n")
		for _, values := range Combinations(lines) {
			scripts = append(scripts, parse(t, file, number, section.Name, lines, values))
		}
		number += strings.Count(string(section.Data), "\n")
	}

	return scripts
}

// Combinations returns the combinations of values that lines with a matrix ask for, each value as NAME=VALUE.
func Combinations(lines []string) [][]string {
	combinations := [][]string{nil}
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "matrix" {
			continue
		}
		var longer [][]string
		for _, c := range combinations {
			for _, value := range words[2:] {
				longer = append(longer, append(slices.Clone(c), words[1]+"="+value))
			}
		}
		combinations = longer
	}

	return combinations
}

func parse(
	t testing.TB,
	file string,
	number int,
	name string,
	lines, values []string,
) Script {
	t.Helper()
	var pairs []string
	for _, value := range values {
		name, text, _ := strings.Cut(value, "=")
		pairs = append(pairs, "$"+name, text)
	}
	replace := strings.NewReplacer(pairs...)
	s := Script{Name: replace.Replace(name)}
	for i, text := range lines {
		at := fmt.Sprintf("%s:%d", file, number+i+1)
		words, err := split(replace.Replace(text))
		if err != nil {
			t.Fatalf("%s: got %q, want %v", at, text, err)
		}
		isLeftOut := false
		for len(words) > 0 && strings.HasPrefix(words[0], "[") {
			isLeftOut = isLeftOut || !holds(words[0], values)
			words = words[1:]
		}
		if len(words) > 0 && words[0] != "matrix" && !isLeftOut {
			s.Lines = append(s.Lines, Line{at, words})
		}
	}

	return s
}

// holds reports whether a condition [NAME:VALUE] or [!NAME:VALUE] holds.
func holds(condition string, values []string) bool {
	condition, isNot := strings.CutPrefix(strings.Trim(condition, "[]"), "!")

	return slices.Contains(values, strings.Replace(condition, ":", "=", 1)) != isNot
}

func split(line string) (words []string, err error) {
	for {
		line = strings.TrimLeft(line, " \t")
		if line == "" || line[0] == '#' {
			return words, nil
		}
		if line[0] != '\'' {
			end := strings.IndexAny(line+" ", " \t")
			words, line = append(words, line[:end]), line[end:]
			continue
		}
		word := ""
		for line != "" && line[0] == '\'' {
			text, rest, isClosed := strings.Cut(line[1:], "'")
			if !isClosed {
				return nil, fmt.Errorf("the end of a quoted word")
			}
			word, line = word+text, rest
			if strings.HasPrefix(line, "'") {
				word += "'"
			}
		}
		words = append(words, word)
	}
}

// Run carries out lines: do reports whether there is such a command.
func Run(t testing.TB, lines []Line, do func(Line) bool) {
	t.Helper()
	for _, l := range lines {
		if !do(l) {
			t.Fatalf("%s: got an unknown command, want one of the package's", l)
		}
	}
}

// Sequence returns the commands of one line that are separated by the word ";". The commands nests take the rest of the
// line, with the commands in it.
func Sequence(at string, words []string, nests ...string) (lines []Line) {
	for len(words) > 0 {
		end := slices.Index(words, ";")
		if end < 0 || slices.Contains(nests, words[0]) {
			return append(lines, Line{at, words})
		}
		lines, words = append(lines, Line{at, words[:end]}), words[end+1:]
	}

	return lines
}
