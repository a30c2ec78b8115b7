package wordlist

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rule is a pattern of words and what to write instead; the advice is empty for an allowed phrase.
type rule struct {
	pattern *regexp.Regexp
	advice  string
}

// rules find words. any joins their patterns, because a single pass over all sources is fast. Of the patterns that
// match at one place, the first one counts.
type rules struct {
	any  *regexp.Regexp
	each []rule
}

// wordList is the content of words.txt.
type wordList struct {
	text     rules // for comments, string literals and pages
	comments rules // for comments of code that is not a test, in addition to text; not for quoted text
	names    rules // for functions and methods
}

// hit is a forbidden word in a text, as the offsets of its first byte and behind its last byte.
type hit struct {
	start, end int
	advice     string
}

// TestRepository checks the Go files, pages, scripts and settings of this repository. Of a test the comments, the names
// of its parts and the messages of its failures are checked: its other strings quote other programs.
func TestRepository(t *testing.T) {
	list := readWords(t)
	root := filepath.Join("..", "..", "..")

	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && isSkippedDir(name) && name != ".ci":
			return fs.SkipDir
		case entry.IsDir() || name == "CHANGELOG.md":
			return nil
		}

		path = strings.TrimPrefix(path, root+"/")
		if !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".md") && !hasHashComments(path) {
			return nil
		}

		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return err
		}
		for _, message := range list.checkFile(path, string(content)) {
			t.Error(message)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("reading the repository: got error %v, want none", err)
	}
}

// TestFixture checks the messages about a file of each kind, so that TestRepository cannot pass by finding nothing.
func TestFixture(t *testing.T) {
	list := readWords(t)

	goFile := `package p

import "anew"

// told reports nothing. There is no second word. It returns what
// is "what is".
func (t T) told() string {
	return "first line\nNobody knows, " + ` + "`line one\nstands in line two`" + `
}

type T struct {
	Field string ` + "`json:\"shall\"`" + `
}
`
	page := "It is no longer so, and `beside` is code.\n\n" +
		"This is no page, it will swallow it.\n```\nin vain\n```\n"
	testFile := "package p\n\n// anew is checked, what is not.\nconst text = `anew`\n\nfunc f() {\n\tt.Errorf(`told`)\n}\n"
	script := "#!/bin/sh\necho anew # twice, anew\n"

	got := slices.Concat(list.checkFile("a.go", goFile), list.checkFile("b.md", page),
		list.checkFile("c_test.go", testFile), list.checkFile("tools/d.sh", script))
	want := []string{
		`a.go:5:4: "told": write instead: `,
		`a.go:5:62: "what is": write instead: name the thing`,
		`a.go:7:12: "told": write instead: a verb`,
		`a.go:8:22: "Nobody": write instead: what is missing`,
		`a.go:9:1: "stands in": write instead: is in`,
		`b.md:3:6: "is no page": write instead: "is not a …"`,
		`b.md:3:26: "swallow": write instead: silently ignores`,
		`c_test.go:3:4: "anew": write instead: again`,
		`c_test.go:7:12: "told": write instead: reports`,
		`tools/d.sh:2:20: "anew": write instead: again`,
	}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("messages about the fixture:\ngot\n%s\nwant lines that start with\n%s",
			strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// readWords reads words.txt.
func readWords(t *testing.T) wordList {
	t.Helper()

	content, err := os.ReadFile("testdata/words.txt")
	if err != nil {
		t.Fatalf("reading the words: got error %v, want none", err)
	}

	patterns := map[string][]string{}
	each := map[string][]rule{}
	section := ""
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		pattern, advice, hasAdvice := strings.Cut(line, " => ")
		pattern = strings.ReplaceAll(strings.TrimSpace(pattern), " ", `\s+`)

		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section, _, _ = strings.Cut(line[1:], "]")
		case hasAdvice == (section == "allowed"):
			t.Fatalf("words.txt: got line %q in section %q, want PATTERN => ADVICE, or only a pattern in allowed",
				line, section)
		default:
			patterns[section] = append(patterns[section], pattern)
			whole := regexp.MustCompile(`(?i)^(` + pattern + `)$`)
			each[section] = append(each[section], rule{whole, advice})
		}
	}

	joinRules := func(sections ...string) rules {
		var joined []string
		var all []rule
		for _, section := range sections {
			joined = append(joined, patterns[section]...)
			all = append(all, each[section]...)
		}
		return rules{regexp.MustCompile(`(?i)\b(` + strings.Join(joined, "|") + `)\b`), all}
	}

	return wordList{
		text:     joinRules("allowed", "text"),
		comments: joinRules("allowed", "comments"),
		names:    joinRules("names"),
	}
}

// isSkippedDir reports whether a folder has no source of this repository.
func isSkippedDir(name string) bool {
	foreign := []string{"bin", "dist", "node_modules", "shared", "testdata"}

	return strings.HasPrefix(name, ".") || slices.Contains(foreign, name)
}

// hasHashComments reports whether a file is a script or a settings file that is checked. Its comments start with #.
func hasHashComments(path string) bool {
	checked := []string{".ci/run", ".golangci.yml", "Makefile"}

	return slices.Contains(checked, path) || strings.HasPrefix(path, "tools/") && strings.HasSuffix(path, ".sh")
}

// checkFile returns a message FILE:LINE:COLUMN: "WORD": ADVICE for each forbidden word of a file, in their order.
func (l wordList) checkFile(path, content string) []string {
	var hits []hit
	switch {
	case strings.HasSuffix(path, "_test.go"):
		hits = l.findInGo(content, l.findInMessages, l.text.find)
	case strings.HasSuffix(path, ".go"):
		hits = l.findInGo(content, l.findInCode, l.findInComment)
	case hasHashComments(path):
		code := regexp.MustCompile(`(?m)^[^#\n]*`)
		hits = l.text.find(blank(content, code), 0)
	default:
		code := regexp.MustCompile("(?s)```.*?```|`[^`]*`")
		hits = l.text.find(blank(content, code), 0)
	}
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Compare(a.start, b.start) })

	var messages []string
	for _, h := range hits {
		before := content[:h.start]
		line := strings.Count(before, "\n") + 1
		column := h.start - strings.LastIndex(before, "\n")
		word := strings.Join(strings.Fields(strings.ReplaceAll(content[h.start:h.end], "//", "")), " ")
		messages = append(messages, fmt.Sprintf("%s:%d:%d: %q: write instead: %s", path, line, column, word, h.advice))
	}

	return messages
}

// findFunc returns the forbidden words in a part of a Go file. offset returns the place of a position in the file.
type findFunc func(part ast.Node, offset func(token.Pos) int) []hit

// findInGo returns the forbidden words of a Go file: those that findInComment finds in its comments, and those that
// findOthers finds. It leaves out generated files; the compiler reports files that cannot be parsed.
func (l wordList) findInGo(content string, findOthers findFunc, findInComment func(string, int) []hit) []hit {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, "", content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(tree) {
		return nil
	}

	offset := func(p token.Pos) int { return files.Position(p).Offset }
	hits := findOthers(tree, offset)
	marks := regexp.MustCompile(`(?m)^\s*//`)
	for _, group := range tree.Comments {
		start := offset(group.Pos())
		text := blank(content[start:offset(group.End())], marks) // a phrase may go on in the next line
		hits = append(hits, findInComment(text, start)...)
	}

	return hits
}

// findInComment finds words in a comment of code that is not a test.
func (l wordList) findInComment(text string, start int) []hit {
	quoted := regexp.MustCompile("\"[^\"]*\"|`[^`]*`")

	return slices.Concat(l.text.find(text, start), l.comments.find(blank(text, quoted), start))
}

// findInMessages finds words in the messages of a test's failures, and in the names of its parts.
func (l wordList) findInMessages(tree ast.Node, offset func(token.Pos) int) (hits []hit) {
	reporting := []string{"Error", "Errorf", "Fatal", "Fatalf", "Run"}
	ast.Inspect(tree, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if ok && slices.Contains(reporting, f.Sel.Name) {
			hits = append(hits, l.findInCode(call.Args[0], offset)...)
		}
		return true
	})

	return hits
}

// findInCode finds words in string literals and in the names of functions. It leaves out struct tags.
func (l wordList) findInCode(part ast.Node, offset func(token.Pos) int) (hits []hit) {
	// An escape sequence is not a part of the next word.
	escape := regexp.MustCompile(`\\.`)

	ast.Inspect(part, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil
		case *ast.FuncDecl:
			hits = append(hits, l.names.find(n.Name.Name, offset(n.Name.Pos()))...)
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				hits = append(hits, l.text.find(blank(n.Value, escape), offset(n.Pos()))...)
			}
		}
		return true
	})

	return hits
}

// find returns the forbidden words of text, which starts at offset in its file.
func (r rules) find(text string, offset int) []hit {
	var hits []hit
	for _, match := range r.any.FindAllStringIndex(text, -1) {
		word := text[match[0]:match[1]]
		first := slices.IndexFunc(r.each, func(one rule) bool { return one.pattern.MatchString(word) })
		if advice := r.each[first].advice; advice != "" {
			hits = append(hits, hit{offset + match[0], offset + match[1], advice})
		}
	}

	return hits
}

// blank replaces each byte of what matches a pattern by a space, and keeps line ends.
func blank(text string, pattern *regexp.Regexp) string {
	blanked := []byte(text)
	for _, match := range pattern.FindAllStringIndex(text, -1) {
		for i := match[0]; i < match[1]; i++ {
			if blanked[i] != '\n' {
				blanked[i] = ' '
			}
		}
	}

	return string(blanked)
}
