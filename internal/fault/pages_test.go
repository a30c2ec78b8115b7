package fault

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
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
		t.Fatalf("codes found in codes.go: got %d, want at least 50", len(out))
	}

	return out
}

func TestEveryCodeHasAPage(t *testing.T) {
	codes := readCodes(t)

	want := slices.Sorted(maps.Values(codes))
	if got := Codes(); !slices.Equal(got, want) {
		t.Errorf("codes with a page in pages/: got %q, want those of codes.go: %q", got, want)
	}

	for _, c := range want {
		p, ok := c.Page()
		if !ok {
			continue
		}

		if p.Title == "" || strings.HasSuffix(p.Title, ".") || len(p.Title) > 80 {
			t.Errorf("%s: got title %q, want one line without a full stop", c, p.Title)
		}

		if len(strings.Split(p.Text, "\n\n")) < 2 {
			t.Errorf("%s: got one paragraph, want at least two: the reason and the next step", c)
		}

		for _, l := range strings.Split(p.Text, "\n") {
			if len([]rune(l)) > 80 || strings.HasSuffix(l, " ") || strings.Contains(l, "\t") {
				t.Errorf("%s: got line %q, want at most 80 columns, no tab and no space at its end", c, l)
			}
		}
	}
}

// TestWarningsAreNotErrors searches all packages: if a package raises a code as an error, its page must not be marked
// as a warning.
func TestWarningsAreNotErrors(t *testing.T) {
	codes := readCodes(t)
	raised := regexp.MustCompile(`(?:origin\.Error\(|\.errorf\(|\.fail\(|\.Raise\()fault\.(\w+)|fault\.(\w+)\.Errorf\(`)
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

			name := m[1] + m[2]
			if p, _ := codes[name].Page(); p.Warning {
				t.Errorf("%s raises %s as an error: want a page without (warning)", path, name)
			}
		}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	if seen < 50 {
		t.Errorf("places that raise a code: got %d, want at least 50; the pattern may be outdated", seen)
	}
}

func TestParsePages(t *testing.T) {
	got := parsePages("== a\nTitle\n\nText ==\n\n    == b\nmore\n\n== c (warning)\nOther\n\nx\n")

	want := map[Code]Page{
		"a": {Title: "Title", Text: "Text ==\n\n    == b\nmore"},
		"c": {Title: "Other", Text: "x", Warning: true},
	}
	if len(got) != len(want) || got["a"] != want["a"] || got["c"] != want["c"] {
		t.Errorf("got %#v, want %#v", got, want)
	}
}

func TestExitStatuses(t *testing.T) {
	var all []int
	for _, s := range ExitStatuses() {
		all = append(all, s.Status)
		if s.Meaning == "" || s.FixedBy == "" || s.Again == "" {
			t.Errorf("status %d: got %+v, want all fields", s.Status, s)
		}
	}

	want := []int{0, 2, 3, 10, 11, 20, 21, 22, 23, 30, 31, 40, 41, 42, 50, 51, 52, 64, 70, 75}
	if !slices.Equal(all, want) {
		t.Errorf("got statuses %v, want %v: they are a contract", all, want)
	}

	for _, c := range readCodes(t) {
		if !slices.Contains(all, c.Exit()) {
			t.Errorf("code %s: got status %d, want one of %v", c, c.Exit(), all)
		}
	}

	if Code("of a newer prelet").Exit() != 10 {
		t.Error("a code without a status: want 10")
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
			t.Errorf("%s: want the line %q", unit, strings.TrimSpace(line))
		}
	}
}
