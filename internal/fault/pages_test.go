package fault

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// readCodes returns the constants of codes.go: the code by the name of its constant.
func readCodes(t *testing.T) map[string]Code {
	t.Helper()

	f, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}

	out := map[string]Code{}

	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}

		if id, ok := v.Type.(*ast.Ident); ok && id.Name == "Code" {
			s, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}

			out[v.Names[0].Name] = Code(s)
		}

		return true
	})

	if len(out) < 50 {
		t.Fatalf("%d codes found in codes.go", len(out))
	}

	return out
}

func TestEveryCodeHasAPage(t *testing.T) {
	codes := readCodes(t)

	var want []Code
	for _, c := range codes {
		want = append(want, c)
	}

	slices.Sort(want)

	if got := Codes(); !slices.Equal(got, want) {
		for _, c := range want {
			if !slices.Contains(got, c) {
				t.Errorf("%s has no page: write one in pages/", c)
			}
		}

		for _, c := range got {
			if !slices.Contains(want, c) {
				t.Errorf("pages/ has %s, which is no code", c)
			}
		}
	}

	for _, c := range want {
		p, ok := c.Page()
		if !ok {
			continue
		}

		if p.Title == "" || strings.HasSuffix(p.Title, ".") || len(p.Title) > 80 {
			t.Errorf("%s: title %q: one line without a full stop", c, p.Title)
		}

		if len(strings.Split(p.Text, "\n\n")) < 2 {
			t.Errorf("%s: a page says why, and what to do", c)
		}

		for _, l := range strings.Split(p.Text, "\n") {
			if len([]rune(l)) > 80 || strings.HasSuffix(l, " ") || strings.Contains(l, "\t") {
				t.Errorf("%s: not fit for a terminal: %q", c, l)
			}
		}
	}
}

// TestWarningsAreNoErrors searches all packages: the page of a code must not promise a warning when a package raises
// the code as an error.
func TestWarningsAreNoErrors(t *testing.T) {
	codes := readCodes(t)
	raised := regexp.MustCompile(`(?:origin\.Error\(|\.errorf\(|\.fail\(|failure\(|\.Raise\()fault\.(\w+)`)
	seen := 0

	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}

		b, err := os.ReadFile(path)
		if err != nil {
			return nil // an editor's file that was removed meanwhile
		}

		for _, m := range raised.FindAllStringSubmatch(string(b), -1) {
			seen++

			if p, _ := codes[m[1]].Page(); p.Warning {
				t.Errorf("%s raises %s as an error, and its page says that it is a warning", path, m[1])
			}
		}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	if seen < 50 {
		t.Errorf("%d places found: the pattern does not fit the house any more", seen)
	}
}

func TestParsePages(t *testing.T) {
	got := parsePages("== a\nTitle\n\nText ==\n\n    == b\nmore\n\n== c (warning)\nOther\n\nx\n")

	want := map[Code]Page{
		"a": {Title: "Title", Text: "Text ==\n\n    == b\nmore"},
		"c": {Title: "Other", Text: "x", Warning: true},
	}
	if len(got) != len(want) || got["a"] != want["a"] || got["c"] != want["c"] {
		t.Errorf("got %#v", got)
	}
}

func TestExitStatuses(t *testing.T) {
	var all []int
	for _, s := range ExitStatuses() {
		all = append(all, s.Status)
		if s.Meaning == "" || s.FixedBy == "" || s.Again == "" {
			t.Errorf("%d is not told whole", s.Status)
		}
	}

	want := []int{0, 2, 3, 10, 11, 20, 21, 22, 23, 30, 31, 40, 41, 42, 50, 51, 52, 64, 70, 75}
	if !slices.Equal(all, want) {
		t.Errorf("statuses %v, want %v: they are a contract", all, want)
	}

	for _, c := range readCodes(t) {
		if !slices.Contains(all, c.Exit()) {
			t.Errorf("%s ends with %d, which the table does not tell", c, c.Exit())
		}
	}

	if Code("of a newer prelet").Exit() != 10 {
		t.Error("a code without a status is the site's")
	}
}

// TestUnitsAgree compares the table with RestartPreventExitStatus= of the units.
func TestUnitsAgree(t *testing.T) {
	for unit, kinds := range map[string][]Again{
		"prelet.service":        {AgainNo},
		"prelet-apply.service":  {AgainNo, AgainAtBoot},
		"prelet-verify.service": {AgainNo, AgainAtBoot},
	} {
		b, err := os.ReadFile(filepath.Join("../../packaging/systemd", unit))
		if err != nil {
			t.Fatal(err)
		}

		var want []string

		for _, s := range ExitStatuses() {
			if slices.Contains(kinds, s.Again) {
				want = append(want, strconv.Itoa(s.Status))
			}
		}

		line := "\nRestartPreventExitStatus=" + strings.Join(want, " ") + "\n"
		if !strings.Contains(string(b), line) {
			t.Errorf("%s has no line %q", unit, strings.TrimSpace(line))
		}
	}
}

func TestPagesLinkToTheirStatus(t *testing.T) {
	p, _ := ClusterUntrusted.Page()
	md := p.Markdown(ClusterUntrusted)
	if !strings.Contains(md, "[21](../reference/exit-codes.md#21)") || !strings.HasPrefix(md, "# cluster-untrusted\n") {
		t.Errorf("page:\n%s", md)
	}

	if s := ExitStatusPage(); !strings.Contains(s, "[cluster-untrusted](../codes/cluster-untrusted.md)") ||
		strings.Contains(s, "codes/drift.md") {
		t.Error("the codes of a status are not those that end with it")
	}

	p, _ = Drift.Page()
	if md := p.Markdown(Drift); strings.Contains(md, "Exit status:") {
		t.Errorf("a warning has no exit status:\n%s", md)
	}
}
