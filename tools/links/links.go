// Command links checks the links between the Markdown pages of this repository: it fails if a file or a heading does
// not exist. It reads the *.md files below the current folder, except in hidden folders, testdata and node_modules.
// It does not follow links with a scheme, and it must not write anything.
package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"unicode"
)

func main() {
	os.Exit(run(os.DirFS("."), os.Stdout, os.Stderr))
}

func run(tree fs.FS, stdout, stderr io.Writer) int {
	pages, links, broken, err := check(tree)
	if err != nil {
		fmt.Fprintln(stderr, "links:", err)
		return 1
	}
	for _, b := range broken {
		fmt.Fprintln(stderr, b)
	}
	if len(broken) > 0 {
		return 1
	}
	fmt.Fprintf(stdout, "%d links in %d pages are valid\n", links, pages)
	return 0
}

// check follows every relative link of every page, and returns a message for each broken one.
func check(tree fs.FS) (pages, links int, broken []string, err error) {
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && isSkipped(d.Name()) {
			return fs.SkipDir
		}
		if d.IsDir() || path.Ext(name) != ".md" {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		pages++
		for _, l := range findLinks(string(text)) {
			links++
			if why := checkLink(tree, name, l.target); why != "" {
				broken = append(broken, fmt.Sprintf("%s:%d: %s: %s", name, l.line, l.target, why))
			}
		}
		return nil
	})
	return pages, links, broken, err
}

func isSkipped(folder string) bool {
	return strings.HasPrefix(folder, ".") || folder == "testdata" || folder == "node_modules"
}

type link struct {
	target string
	line   int // from 1
}

var (
	linkTo = regexp.MustCompile(`\]\(<?([^()\s<>]+)>?(?:\s+"[^"]*")?\)`)
	scheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)
	code   = regexp.MustCompile("`[^`]*`")
)

// findLinks returns the links of a page that have no scheme. It skips code.
func findLinks(text string) []link {
	var out []link
	forEachLine(text, func(n int, line string) {
		for _, m := range linkTo.FindAllStringSubmatch(code.ReplaceAllString(line, "``"), -1) {
			if !scheme.MatchString(m[1]) {
				out = append(out, link{m[1], n})
			}
		}
	})
	return out
}

// forEachLine calls do with every line of a page outside of fenced blocks.
func forEachLine(text string, do func(n int, line string)) {
	fence := ""
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		isFence := strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~")
		switch {
		case fence == "" && isFence:
			fence = trimmed[:3]
		case fence != "" && strings.HasPrefix(trimmed, fence):
			fence = ""
		case fence == "":
			do(i+1, line)
		}
	}
}

// checkLink returns why a link of a page is broken, or "".
func checkLink(tree fs.FS, page, target string) string {
	file, heading, _ := strings.Cut(target, "#")
	to := page
	if file != "" {
		to = path.Join(path.Dir(page), file)
		if strings.HasPrefix(file, "/") {
			return "is absolute; links are relative to their page"
		}
		if !fs.ValidPath(to) {
			return "leads out of the repository"
		}
		if _, err := fs.Stat(tree, to); err != nil {
			return "no such file"
		}
	}
	if heading == "" || path.Ext(to) != ".md" {
		return ""
	}
	text, err := fs.ReadFile(tree, to)
	if err != nil {
		return err.Error()
	}
	if !findAnchors(string(text))[heading] {
		return "no such heading in " + to
	}
	return ""
}

// findAnchors returns the anchors of a page's headings: lower case, spaces as "-", without punctuation, and with -1,
// -2 and so on for repeated ones.
func findAnchors(text string) map[string]bool {
	out := map[string]bool{}
	count := map[string]int{}
	forEachLine(text, func(_ int, line string) {
		title := strings.TrimLeft(line, "#")
		if title == line || !strings.HasPrefix(title, " ") {
			return
		}
		name := strings.Map(anchorRune, strings.TrimSpace(linkTo.ReplaceAllString(title, "]")))
		if n := count[name]; n > 0 {
			out[fmt.Sprintf("%s-%d", name, n)] = true
		} else {
			out[name] = true
		}
		count[name]++
	})
	return out
}

// anchorRune returns the character of an anchor for one of a heading, -1 for none.
func anchorRune(r rune) rune {
	switch {
	case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
		return unicode.ToLower(r)
	case r == ' ':
		return '-'
	}

	return -1
}
