package lang

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/tape"
)

func listLine(name, text string) string {
	return fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(text)), name)
}

func TestSignedList(t *testing.T) {
	text := "# counter: 3\n\n# image\n" + listLine("/etc/prelet/a.hcl", "a") + listLine("b c.hcl", "b") +
		listLine("x.prelettest.hcl", "never read") + listLine("README.md", "never read") + listLine("d.preletdata.yaml", "d")
	list, err := parseList([]byte(text))
	if err != nil || list.counter != 3 || len(list.hashes) != 3 {
		t.Fatalf("parseList: got %+v, %v; want counter 3 and three files", list, err)
	}

	a := tape.SiteFile{Name: "/etc/prelet/a.hcl", Text: "a"}
	d := tape.SiteFile{Name: "/etc/prelet/d.preletdata.yaml", Text: "d"}
	b := tape.SiteFile{Name: "/usr/lib/prelet/site/b c.hcl", Text: "b"}
	for name, test := range map[string]struct {
		files []tape.SiteFile
		want  []string
	}{
		"as listed": {[]tape.SiteFile{a, b, d}, nil},
		"missing":   {[]tape.SiteFile{a, d}, []string{"b c.hcl is listed, and is missing or hidden"}},
		"changed":   {[]tape.SiteFile{{Name: "x/a.hcl", Text: "b"}, b, d}, []string{"x/a.hcl was changed"}},
		"added":     {[]tape.SiteFile{a, b, d, {Name: "c.hcl", Text: "a"}}, []string{"c.hcl is not listed"}},
		"data":      {[]tape.SiteFile{a, b, {Name: d.Name, Text: "e"}}, []string{d.Name + " was changed"}},
		"twice":     {[]tape.SiteFile{a, b, d, {Name: "x/a.hcl", Text: "a"}}, []string{"x/a.hcl is not listed"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := list.compare(test.files); !slices.Equal(got, test.want) {
				t.Errorf("compare: got %q, want %q", got, test.want)
			}
		})
	}
}

func TestBadSignedLists(t *testing.T) {
	file := listLine("a.hcl", "a")
	for text, want := range map[string]string{
		"":                                   "# counter: 1",
		file:                                 "# counter: 1",
		"# counter: 0\n":                     "line 1: write one counter",
		"# counter: 18446744073709551616\n":  "line 1: write one counter",
		"# counter: 1\n# counter: 2\n":       "line 2: write one counter",
		"# counter: 1\nSHA256 (a.hcl) = 00":  "line 2 is not of the form",
		"# counter: 1\n" + file + file:       "line 3: a.hcl is listed twice",
		"# counter: 1\n" + file[:40] + "\n":  "line 2 is not of the form",
		"# counter: 1\n\\" + file:            "line 2 is not of the form",
		"# counter: 1\r\n" + file:            "carriage return",
		"\ufeff# counter: 1\n" + file:        "byte order mark",
		"# counter: 1\n" + file + "\n\x00\n": "line 4 is not of the form",
	} {
		list, err := parseList([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parseList(%q): got %+v, %v; want an error with %q", text, list, err, want)
		}
	}
}
