// Command links fails when a link between the Markdown pages of this repository leads nowhere: to a file that is not
// there, or to a heading that the page has not.
//
// It reads the *.md files below the current folder, hidden folders, testdata and node_modules left out, and touches nothing else.
// Links with a scheme are not followed.
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

func main() { os.Exit(run(os.DirFS("."), os.Stdout, os.Stderr)) }

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
	fmt.Fprintf(stdout, "%d links in %d pages lead somewhere\n", links, pages)
	return 0
}

// check follows every relative link of every page, and returns one message for each that leads nowhere.
func check(tree fs.FS) (pages, links int, broken []string, err error) {
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		pages++
		for _, l := range find(string(text)) {
			links++
			if why := follow(tree, name, l.target); why != "" {
				broken = append(broken, fmt.Sprintf("%s:%d: %s: %s", name, l.line, l.target, why))
			}
		}
		return nil
	})
	return pages, links, broken, err
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

// find returns the links of one page that stay in this repository. What stands in code is no link.
func find(text string) []link {
	var out []link
	eachLine(text, func(n int, line string) {
		for _, m := range linkTo.FindAllStringSubmatch(code.ReplaceAllString(line, "``"), -1) {
			if !scheme.MatchString(m[1]) {
				out = append(out, link{m[1], n})
			}
		}
	})
	return out
}

// eachLine calls do with every line of a page that is not inside a fenced block.
func eachLine(text string, do func(n int, line string)) {
	fence := ""
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence == "" && (strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~")):
			fence = trimmed[:3]
		case fence != "" && strings.HasPrefix(trimmed, fence):
			fence = ""
		case fence == "":
			do(i+1, line)
		}
	}
}

// follow says why a link on a page leads nowhere, or "" when it leads somewhere.
func follow(tree fs.FS, page, target string) string {
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
	if !anchors(string(text))[heading] {
		return "no such heading in " + to
	}
	return ""
}

// anchors returns the names that the headings of a page can be linked by: lower case, spaces as "-", punctuation left
// out, and -1, -2 and so on behind a repeated one.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	count := map[string]int{}
	eachLine(text, func(_ int, line string) {
		title := strings.TrimLeft(line, "#")
		if title == line || !strings.HasPrefix(title, " ") {
			return
		}
		name := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, strings.TrimSpace(linkTo.ReplaceAllString(title, "]")))
		if n := count[name]; n > 0 {
			out[fmt.Sprintf("%s-%d", name, n)] = true
		} else {
			out[name] = true
		}
		count[name]++
	})
	return out
}
