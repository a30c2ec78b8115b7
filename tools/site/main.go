// Command site writes the documentation as a static web site: docs/, the README and the other pages at the root of the
// repository. The pages need no server and load nothing from elsewhere. It fails on a link to a missing page or anchor.
package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

const source = "https://github.com/prelet/prelet/blob/main/"

//go:embed assets
var assets embed.FS

// page is one page of the site.
type page struct {
	Name    string // path of the Markdown file in the repository
	Out     string // path of the HTML file in the site
	Title   string
	Body    template.HTML
	anchors []string
	links   []string // targets in the site, as OUT or OUT#ANCHOR
	text    string
}

// site is all pages of a repository.
type site struct {
	root   string
	pages  map[string]*page // by Name
	images []string         // files of the repository below docs/
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: site REPOSITORY DIR")
		os.Exit(64)
	}
	if err := build(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// build writes the site of a repository into a folder.
func build(root, dir string) error {
	s := &site{root: root, pages: map[string]*page{}}
	names, err := listPages(root)
	if err != nil {
		return err
	}
	for _, name := range names {
		s.pages[name] = &page{Name: name, Out: outOf(name)}
	}
	for _, name := range names {
		if err := s.convert(s.pages[name]); err != nil {
			return err
		}
	}
	if err := s.checkLinks(names); err != nil {
		return err
	}

	return s.write(dir, names)
}

// listPages returns the Markdown files of docs/ and of the root, sorted.
func listPages(root string) (names []string, err error) {
	top, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		return nil, err
	}
	for _, file := range top {
		names = append(names, filepath.Base(file))
	}

	err = fs.WalkDir(os.DirFS(root), "docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path.Ext(name) == ".md" {
			names = append(names, name)
		}
		return err
	})
	slices.Sort(names)

	return names, err
}

// outOf returns the path of a page in the site. docs/README.md is the start.
func outOf(name string) string {
	switch {
	case name == "README.md":
		return "readme.html"
	case path.Base(name) == "README.md":
		name = path.Join(path.Dir(name), "index.md")
	}

	return strings.TrimSuffix(strings.TrimPrefix(name, "docs/"), ".md") + ".html"
}

// convert makes the HTML of a page.
func (s *site) convert(p *page) error {
	markdown, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(p.Name)))
	if err != nil {
		return err
	}

	converter := goldmark.New(
		goldmark.WithExtensions(extension.GFM),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	)
	ids := &headingIDs{used: map[string]int{}}
	tree := converter.Parser().Parse(
		text.NewReader(markdown), parser.WithContext(parser.NewContext(parser.WithIDs(ids))))
	err = ast.Walk(tree, func(n ast.Node, isEntering bool) (ast.WalkStatus, error) {
		if isEntering {
			s.visit(p, n, markdown)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return err
	}
	p.anchors = ids.all

	var body bytes.Buffer
	if err := converter.Renderer().Render(&body, markdown, tree); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	p.Body = template.HTML(body.String()) //nolint:gosec // goldmark escapes what is not Markdown; raw HTML is left out
	shown := html.UnescapeString(tagPattern.ReplaceAllString(body.String(), " "))
	p.text = strings.Join(strings.Fields(shown), " ")

	return nil
}

var tagPattern = regexp.MustCompile(`<[^>]*>`)

// visit takes the title of a page, and rewrites its links: to pages of the site, or to the source.
func (s *site) visit(p *page, n ast.Node, markdown []byte) {
	switch n := n.(type) {
	case *ast.Heading:
		if n.Level == 1 && p.Title == "" {
			p.Title = headingText(n, markdown)
		}
	case *ast.Link:
		n.Destination = []byte(s.resolve(p, string(n.Destination)))
	case *ast.Image: // next to the page, as in the repository
		s.images = append(s.images, path.Join(path.Dir(p.Name), string(n.Destination)))
	}
}

// headingText returns the text of a heading.
func headingText(n ast.Node, markdown []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, isEntering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && isEntering {
			b.Write(t.Segment.Value(markdown))
		}
		return ast.WalkContinue, nil
	})

	return b.String()
}

// resolve returns the target of a link for the site.
func (s *site) resolve(p *page, target string) string {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return target
	}

	file, anchor, _ := strings.Cut(target, "#")
	name := p.Name
	if file != "" {
		name = path.Join(path.Dir(p.Name), file)
	}
	to := s.pages[name]
	if to == nil {
		to = s.pages[path.Join(name, "README.md")]
	}
	if to == nil {
		if _, err := os.Stat(filepath.Join(s.root, filepath.FromSlash(name))); err != nil {
			p.links = append(p.links, name) // reported as a link without a target
		}
		return source + name
	}

	if anchor != "" {
		anchor = "#" + anchor
	}
	p.links = append(p.links, to.Out+anchor)
	if file == "" {
		return anchor
	}
	return rootOf(p.Out) + to.Out + anchor
}

// rootOf returns the relative path from a page to the top of the site.
func rootOf(out string) string { return strings.Repeat("../", strings.Count(out, "/")) }

// checkLinks returns an error with each link that leads to a missing anchor, or to a missing file of the repository.
func (s *site) checkLinks(names []string) error {
	known := map[string]bool{}
	for _, name := range names {
		p := s.pages[name]
		known[p.Out] = true
		for _, anchor := range p.anchors {
			known[p.Out+"#"+anchor] = true
		}
	}

	var problems []error
	for _, name := range names {
		for _, link := range s.pages[name].links {
			if !known[link] {
				problems = append(problems, fmt.Errorf("%s: the link to %s has no target", name, link))
			}
		}
	}

	return errors.Join(problems...)
}

// headingIDs makes the anchors of headings as GitHub does, so that links work in both places.
type headingIDs struct {
	used map[string]int
	all  []string
}

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

// Generate returns the anchor of a heading.
func (h *headingIDs) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.ToLower(notInAnchor.ReplaceAllString(linkText(string(value)), ""))
	id = strings.ReplaceAll(strings.TrimSpace(id), " ", "-")
	n := h.used[id]
	h.used[id]++
	if n > 0 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	h.all = append(h.all, id)

	return []byte(id)
}

// Put records an anchor that the page gives itself.
func (h *headingIDs) Put(value []byte) {
	h.all = append(h.all, string(value))
}

// linkText replaces links in a heading by their text.
func linkText(heading string) string {
	return regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading, "$1")
}

// entry is a page in the index for the search.
type entry struct {
	Title string `json:"title"`
	URL   string `json:"url"`
	Text  string `json:"text"`
}

// write writes the pages, the index and the assets.
func (s *site) write(dir string, names []string) error {
	layout, err := template.ParseFS(assets, "assets/page.html")
	if err != nil {
		return err
	}

	menu := s.menu()
	var index []entry
	for _, name := range names {
		p := s.pages[name]
		var out bytes.Buffer
		err := layout.Execute(&out, map[string]any{
			"Page":   p,
			"Root":   rootOf(p.Out),
			"Source": source + p.Name,
			"Menu":   menu,
		})
		if err != nil {
			return err
		}
		if err := put(dir, p.Out, out.Bytes()); err != nil {
			return err
		}
		index = append(index, entry{p.Title, p.Out, p.text})
	}

	// A script instead of a JSON file: a browser does not load JSON from a page that is opened as a file.
	document, err := json.Marshal(index)
	if err != nil {
		return err
	}
	if err := put(dir, "index.js", append([]byte("const pages = "), document...)); err != nil {
		return err
	}
	for _, name := range s.images {
		image, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		if err := put(dir, strings.TrimPrefix(name, "docs/"), image); err != nil {
			return err
		}
	}
	for _, name := range []string{"style.css", "search.js"} {
		asset, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return err
		}
		if err := put(dir, name, asset); err != nil {
			return err
		}
	}

	return nil
}

// menu returns the pages that docs/README.md links to, in that order.
func (s *site) menu() (menu []*page) {
	byOut := map[string]*page{}
	for _, p := range s.pages {
		byOut[p.Out] = p
	}

	start := s.pages["docs/README.md"]
	if start == nil {
		return nil
	}
	for _, link := range start.links {
		out, _, _ := strings.Cut(link, "#")
		if p := byOut[out]; p != nil && !slices.Contains(menu, p) {
			menu = append(menu, p)
		}
	}

	return menu
}

func put(dir, name string, content []byte) error {
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}

	return os.WriteFile(file, content, 0o644)
}
