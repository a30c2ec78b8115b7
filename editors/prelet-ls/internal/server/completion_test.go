package server

import (
	"slices"
	"strings"
	"testing"
)

// A completion leaves what is around the cursor as it is.
func TestCompletionEdits(t *testing.T) {
	const block = "stage \"detect-hw\" \"${1:name}\" {\n  $0\n}"
	for _, c := range []struct {
		text, label string
		want        string // with snippets
		plain       string // without
	}{
		{"stage \"|\"", "detect-hw", block, `stage "detect-hw"`},
		{"stage \"|\"\r\n", "detect-hw", block + "\r\n", "stage \"detect-hw\"\r\n"},
		{"stage \"|\n", "detect-hw", block + "\n", "stage \"detect-hw\"\n"},
		{"stage \"de|te\"", "detect-hw", block, `stage "detect-hw"`},
		{"stage \"|\" \"x\" {\n}", "detect-hw", "stage \"detect-hw\" \"x\" {\n}", "stage \"detect-hw\" \"x\" {\n}"},
		{"stage \"la|x\" {\n}", "label", "stage \"label\" {\n}", "stage \"label\" {\n}"},
		{"override {\n  stage \"|\" \"x\" {}\n}", "write", "override {\n  stage \"write\" \"x\" {}\n}", "override {\n  stage \"write\" \"x\" {}\n}"},
		{"locals {}\ndetec|", "detector", "locals {}\ndetector \"${1:name}\" {\n  ${2}\n}", "locals {}\ndetector"},
		{"stage \"label\" \"x\" {\n  lab| = { a = 1 }\n}", "labels", "stage \"label\" \"x\" {\n  labels = { a = 1 }\n}",
			"stage \"label\" \"x\" {\n  labels = { a = 1 }\n}"},
		{"stage \"label\" \"x\" {\n  la|b = { a = 1 }\n}", "labels", "stage \"label\" \"x\" {\n  labels = { a = 1 }\n}",
			"stage \"label\" \"x\" {\n  labels = { a = 1 }\n}"},
		{"sta|ge \"label\" \"x\" {\n}", "stage", "stage \"label\" \"x\" {\n}", "stage \"label\" \"x\" {\n}"},
		{"stage \"reserve\" \"r\" {\n  policy = \"g|\"\n}", "gke", "stage \"reserve\" \"r\" {\n  policy = \"gke\"\n}",
			"stage \"reserve\" \"r\" {\n  policy = \"gke\"\n}"},
		{"stage \"reserve\" \"r\" {\n  policy = \"|\n}", "gke", "stage \"reserve\" \"r\" {\n  policy = \"gke\"\n}",
			"stage \"reserve\" \"r\" {\n  policy = \"gke\"\n}"},
	} {
		for hasSnippets, want := range map[bool]string{true: c.want, false: c.plain} {
			s, _, params := openSite(t, map[string]string{"site.hcl": c.text})
			s.hasSnippets = hasSnippets
			items := askFor[completionList](t, s, "completion", params).Items
			i := slices.IndexFunc(items, func(item completionItem) bool { return item.Label == c.label })
			if i < 0 {
				t.Errorf("completion of %q, snippets %v: got %v, want %s", c.text, hasSnippets, labels(items), c.label)
				continue
			}
			text := strings.Replace(c.text, "|", "", 1)
			if got := applyEdits(text, []textEdit{*items[i].TextEdit}); got != want {
				t.Errorf("%s in %q, snippets %v: got %q, want %q", c.label, c.text, hasSnippets, got, want)
			}
		}
	}
}

func labels(items []completionItem) []string {
	out := []string{}
	for _, item := range items {
		out = append(out, item.Label)
	}

	return out
}

// Only what begins with the word at the cursor is offered, and nothing where no name can be written.
func TestCompletionOffers(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"stage \"label\" \"x\" {\n  lab| = { a = 1 }\n}", []string{"labels"}},
		{"stage \"re|", []string{"reserve", "restart"}},
		{"stage \"none|\"", []string{}},
		{"stage \"label\" \"x|\" {}", []string{}},
		{"variable \"zone\" {}\nstage \"detect-hw\" \"node\" {}\nlocals {\n  a = [for g in stage.detect-hw.node.gpus : g.|]\n}\n", []string{}},
		{"variable \"zone\" {}\nlocals {\n  a = [for g in [] : g.zo|]\n}\n", []string{}},
	} {
		s, _, params := openSite(t, map[string]string{"site.hcl": c.text})
		if got := labels(askFor[completionList](t, s, "completion", params).Items); !slices.Equal(got, c.want) {
			t.Errorf("completion of %q: got %q, want %q", c.text, got, c.want)
		}
	}
}
