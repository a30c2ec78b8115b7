package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/fstest"
)

func TestLinks(t *testing.T) {
	page := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	base := fstest.MapFS{
		"docs/other.md":      page("# What it is\n\n## `exit` codes, and why\n\n## Again\n\n## Again\n"),
		"docs/testdata/x.md": page("[gone](gone.md)"),
		".hidden/x.md":       page("[gone](gone.md)"),
		"LICENSE":            page(""),
	}
	tests := []struct {
		name, text string
		want       string // on stderr; "" means that all links lead somewhere
	}{
		{"a file", "[a](docs/other.md) and [b](LICENSE)", ""},
		{"a folder", "[a](docs/)", ""},
		{"a heading", "[a](docs/other.md#what-it-is)", ""},
		{"a heading with code and punctuation", "[a](docs/other.md#exit-codes-and-why)", ""},
		{"a repeated heading", "[a](docs/other.md#again-1)", ""},
		{"a heading of the same page", "# Here\n\n[a](#here)", ""},
		{"elsewhere", "[a](https://example.com/x) [b](mailto:a@example.com)", ""},
		{"in code", "`[a](gone.md)`\n\n```\n[a](gone.md)\n```\n", ""},
		{"no such file", "x\n\n[a](gone.md)", "README.md:3: gone.md: no such file"},
		{"no such heading", "[a](docs/other.md#there)", "no such heading in docs/other.md"},
		{"a third repetition", "[a](docs/other.md#again-2)", "no such heading"},
		{"behind a fenced block", "```\ncode\n```\n[a](gone.md)", "README.md:4: gone.md: no such file"},
		{"out of the repository", "[a](../x.md)", "leads out of the repository"},
		{"absolute", "[a](/docs/other.md)", "is absolute"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tree := fstest.MapFS{"README.md": page(test.text)}
			for name, f := range base {
				tree[name] = f
			}
			var stdout, stderr bytes.Buffer
			status := run(tree, &stdout, &stderr)
			if !strings.Contains(stderr.String(), test.want) || (status == 0) != (test.want == "") {
				t.Errorf("exit %d, stderr %q, want %q", status, stderr.String(), test.want)
			}
		})
	}
}
