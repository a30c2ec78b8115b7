package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func putAll(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := put(root, name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
}

// The pages of this repository: every one is in the site and in the index, and none loads anything from elsewhere.
func TestRepository(t *testing.T) {
	dir := t.TempDir()
	if err := build("../..", dir); err != nil {
		t.Fatalf("build: got %v, want none", err)
	}

	names, _ := listPages("../..")
	index, _ := os.ReadFile(filepath.Join(dir, "index.js"))
	external := regexp.MustCompile(`(src|<link [^>]*href)="?https?:`)
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, outOf(name)))
		if err != nil {
			t.Errorf("%s: got %v, want a page", name, err)
		}
		if external.Match(text) {
			t.Errorf("%s loads something from elsewhere, want nothing", name)
		}
		if !strings.Contains(string(text), `how-to/operators.html">For operators</a></li>`) {
			t.Errorf("%s: got no menu, want the pages of docs/README.md", name)
		}
		if strings.Contains(string(text), "<title> ·") {
			t.Errorf("%s: got no title, want one", name)
		}
		if !strings.Contains(string(index), `"url":"`+outOf(name)+`"`) {
			t.Errorf("%s is not in the index for the search", name)
		}
	}
	if len(names) < 100 {
		t.Errorf("pages: got %d, want 100 or more", len(names))
	}
}

// Links to pages, folders, anchors and files of the source lead to the right place; each broken one is named.
func TestLinks(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	putAll(t, root, map[string]string{
		"docs/README.md":       "# Start\n[a](how-to/a.md#two-words-2) [code](../main.go) [me](#start) [there](https://x.example)\n",
		"docs/how-to/a.md":     "# A `b`\n## Two words, 2\n[up](../README.md) [codes](../codes/)\n",
		"docs/codes/README.md": "# Codes\n## Two\n## Two\n[second](#two-1) <script>alert(1)</script>\n",
		"main.go":              "package main\n",
	})
	if err := build(root, dir); err != nil {
		t.Fatalf("build: got %v, want none", err)
	}
	for name, wants := range map[string][]string{
		"index.html":       {`href="how-to/a.html#two-words-2"`, `href="` + source + `main.go"`, `href="#start"`, `href="https://x.example"`},
		"how-to/a.html":    {`href="../index.html"`, `href="../codes/index.html"`, `<title>A b`},
		"codes/index.html": {`id="two-1"`},
	} {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: got\n%s\nwant it to contain %s", name, text, want)
			}
		}
		if strings.Contains(string(text), "alert(1)</script>") {
			t.Errorf("%s contains the HTML of the page, want it left out", name)
		}
	}

	putAll(t, root, map[string]string{"docs/b.md": "# B\n[x](how-to/a.md#nowhere) [y](missing.md)\n"})
	err := build(root, t.TempDir())
	for _, want := range []string{"docs/b.md: the link to how-to/a.html#nowhere", "docs/b.md: the link to docs/missing.md"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("build with broken links: got %v, want %q", err, want)
		}
	}
}

// Images of pages are in the site, and a missing one is named.
func TestImages(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	putAll(t, root, map[string]string{
		"docs/README.md":     "# Start\n",
		"docs/a.md":          "# A\n![a line](images/a.svg)\n",
		"docs/images/a.svg":  "<svg/>",
		"docs/images/no.svg": "<svg/>",
	})
	if err := build(root, dir); err != nil {
		t.Fatalf("build: got %v, want none", err)
	}
	page, _ := os.ReadFile(filepath.Join(dir, "a.html"))
	if want := `<img src="images/a.svg" alt="a line">`; !strings.Contains(string(page), want) {
		t.Errorf("a.html: got\n%s\nwant it to contain %s", page, want)
	}
	if image, err := os.ReadFile(filepath.Join(dir, "images/a.svg")); err != nil || string(image) != "<svg/>" {
		t.Errorf("images/a.svg: got %q, %v; want the image", image, err)
	}

	putAll(t, root, map[string]string{"docs/b.md": "# B\n![b](images/missing.svg)\n"})
	if err := build(root, t.TempDir()); err == nil || !strings.Contains(err.Error(), "missing.svg") {
		t.Errorf("build without an image: got %v, want its name", err)
	}
}

// The search finds a page by its words, in a real browser, from a file.
func TestSearch(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	dir := t.TempDir()
	if err := build("../..", dir); err != nil {
		t.Fatal(err)
	}

	// The header stays in sight when a page is scrolled, so the results are in it.
	text, _ := os.ReadFile(filepath.Join(dir, "index.html"))
	header, _, _ := strings.Cut(string(text), "</header>")
	if !strings.Contains(header, `id="results"`) {
		t.Error("the header has no results of the search, want them next to the search box")
	}

	for query, want := range map[string]string{
		"gate+shut":    `<ol id="results"><li><a href="`,
		"null-fact":    `href="codes/null-fact.html"`,
		"%26%26+null":  `href="reference/functions.html"`, // && is what a reader types
		"zzzunknown":   "No page contains these words.",
		"<b>+x</b>zzz": "No page contains these words.",
	} {
		page := "file://" + dir + "/index.html?q=" + query
		out, err := exec.Command(browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
			"--user-data-dir="+t.TempDir(), page).Output()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("search for %s: got %v and no %q in the page", query, err, want)
		}
	}
}
