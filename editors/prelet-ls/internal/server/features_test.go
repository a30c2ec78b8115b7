package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// openSite writes files into a folder and opens the first one, site.hcl, in a server. A | in it is the cursor, which is
// left out.
func openSite(t *testing.T, files map[string]string) (s *Server, dir string, params map[string]any) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}

	before, after, _ := strings.Cut(files["site.hcl"], "|")
	uri := uriOf(filepath.Join(dir, "site.hcl"))
	s, _ = newTestServer(t)
	send(t, s, "textDocument/didOpen", map[string]any{
		"textDocument": map[string]any{"uri": uri, "version": 1, "text": before + after},
	})

	return s, dir, map[string]any{
		"textDocument": textDocument{URI: uri},
		"position":     positionOf(before+after, len(before)),
		"context":      map[string]any{"includeDeclaration": true},
	}
}

// askFor returns a result of the expected type.
func askFor[T any](t *testing.T, s *Server, method string, params any) T {
	t.Helper()
	result, err := ask(t, s, "textDocument/"+method, params)
	if err != nil {
		t.Fatalf("%s: got %v, want a result", method, err)
	}
	body, err := json.Marshal(result)
	must(t, err)
	var out T
	if err := json.Unmarshal(body, &out); err != nil {
		t.Fatalf("%s: got %s, want %T: %v", method, body, out, err)
	}

	return out
}

// applyEdits applies edits as the protocol asks for: none overlaps another, and a position behind the end of a line is
// its end.
func applyEdits(text string, edits []textEdit) string {
	byPlace := func(a, b textEdit) int {
		return offsetOf(text, b.Range.Start) - offsetOf(text, a.Range.Start)
	}
	for _, e := range slices.SortedFunc(slices.Values(edits), byPlace) {
		text = text[:offsetOf(text, e.Range.Start)] + e.NewText + text[offsetOf(text, e.Range.End):]
	}

	return text
}

// A reference by index is the same reference: rename changes it, and definition, references and hover find it.
func TestReferencesByIndex(t *testing.T) {
	for _, c := range []struct {
		name, text, newName, want, hover string
	}{
		{
			name:    "variable",
			text:    "variable \"zo|ne\" {}\nlocals {\n  a = var.zone\n  b = var[ \"zone\" ]\n  c = \"${var[\"zone\"]}\"\n}\n",
			newName: "region",
			want:    "variable \"region\" {}\nlocals {\n  a = var.region\n  b = var[ \"region\" ]\n  c = \"${var[\"region\"]}\"\n}\n",
			hover:   "var.zone: string",
		},
		{
			name:    "local, from its use",
			text:    "locals {\n  q = 1\n  r = local[\"|q\"]\n}\n",
			newName: "count",
			want:    "locals {\n  count = 1\n  r = local[\"count\"]\n}\n",
			hover:   "local.q: number",
		},
		{
			name: "stage",
			text: "stage \"detect-hw\" \"node\" {}\nlocals {\n  a = stage[\"detect-hw\"][\"no|de\"].node.cpu.logical\n" +
				"  b = stage.detect-hw[\"node\"].node\n  c = stage[\"detect-hw\"].node.node\n}\n",
			newName: "hw",
			want: "stage \"detect-hw\" \"hw\" {}\nlocals {\n  a = stage[\"detect-hw\"][\"hw\"].node.cpu.logical\n" +
				"  b = stage.detect-hw[\"hw\"].node\n  c = stage[\"detect-hw\"].hw.node\n}\n",
			hover: "stage.detect-hw.node: object",
		},
	} {
		s, dir, params := openSite(t, map[string]string{"site.hcl": c.text})
		text := strings.Replace(c.text, "|", "", 1)

		params["newName"] = c.newName
		edit := askFor[workspaceEdit](t, s, "rename", params)
		edits := edit.Changes[uriOf(filepath.Join(dir, "site.hcl"))]
		if got := applyEdits(text, edits); got != c.want {
			t.Errorf("rename of a %s: got\n%s\nwant\n%s", c.name, got, c.want)
		}

		found := askFor[[]location](t, s, "references", params)
		if len(found) != len(edits) {
			t.Errorf("references of a %s: got %d, want the %d places of the rename", c.name, len(found), len(edits))
		}
		defined := askFor[location](t, s, "definition", params)
		if line := strings.Split(c.want, "\n")[defined.Range.Start.Line]; !strings.Contains(line, c.newName) {
			t.Errorf("definition of a %s: got line %d, %q, want the one with its name", c.name, defined.Range.Start.Line, line)
		}
		shown := askFor[hover](t, s, "hover", params)
		if !strings.Contains(shown.Contents.Value, c.hover) {
			t.Errorf("hover of a %s: got %q, want %q", c.name, shown.Contents.Value, c.hover)
		}
	}
}

// Names are completed in the quotes of an index as well as behind a dot, and nowhere else in a text.
func TestMembersByIndex(t *testing.T) {
	const site = "variable \"zone\" {}\nstage \"detect-hw\" \"node\" {}\nlocals {\n  a = %s\n}\n"
	for _, c := range []struct {
		text string
		want []string // the first ones
	}{
		{`var["|"]`, []string{"zone"}},
		{`var["z|"]`, []string{"zone"}},
		{`stage["detect-hw"]["|"]`, []string{"node"}},
		{`stage["detect-hw"].|`, []string{"node"}},
		{`stage["detect-hw"]["node"].cpu.lo|`, []string{"architecture"}},
		{`"text var.|"`, nil},
		{`"text var.|`, nil},
		{"<<EOT\nvar.|\nEOT", nil},
		{`"text ${var.|}"`, []string{"zone"}},
		{`1 # var.|`, nil},
		{`1 /* var.| */`, nil},
	} {
		s, _, params := openSite(t, map[string]string{"site.hcl": fmt.Sprintf(site, c.text)})
		got := labels(askFor[completionList](t, s, "completion", params).Items)
		if !slices.Equal(got[:min(len(got), len(c.want))], c.want) || c.want == nil && len(got) > 0 {
			t.Errorf("completion of %q: got %q, want %q first", c.text, got, c.want)
		}
	}

	s, _, params := openSite(t, map[string]string{"site.hcl": "variable \"zone\" {}\n# var.|"})
	if got := askFor[completionList](t, s, "completion", params).Items; len(got) > 0 {
		t.Errorf("completion in a comment at the end of the file: got %v, want nothing", got)
	}
}

// hcl-lang panics between the equals sign and a boolean: nothing is offered there, and the request does not fail.
func TestCompletionBeforeABoolean(t *testing.T) {
	for _, text := range []string{"variable \"a\" {\n  sensitive =| true\n}\n", "variable \"a\" {\n  sensitive =|"} {
		s, _, params := openSite(t, map[string]string{"site.hcl": text})
		askFor[completionList](t, s, "completion", params)
	}
}

// Formatting keeps the ends of lines of a file from Windows.
func TestFormatKeepsLineEnds(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"locals {\r\n  aa=1\r\n  b   = 2\r\n}\r\n", "locals {\r\n  aa = 1\r\n  b  = 2\r\n}\r\n"},
		{"locals {\n  aa=\"😀\"\r\n}\n", "locals {\n  aa = \"😀\"\r\n}\n"},
		{"locals {\n  aa=1\n}", "locals {\n  aa = 1\n}"},
	} {
		s, _, params := openSite(t, map[string]string{"site.hcl": c.text})
		edits := askFor[[]textEdit](t, s, "formatting", params)
		if got := applyEdits(c.text, edits); got != c.want {
			t.Errorf("format %q with %v: got %q, want %q", c.text, edits, got, c.want)
		}
		for _, e := range edits {
			if strings.Contains(e.NewText, "\r") {
				t.Errorf("format %q: got the edit %q, want none with CR", c.text, e.NewText)
			}
		}
	}
}

// A rename is refused while a file of the site has a syntax error, because references behind it are not found.
func TestRenameRefusesSyntaxErrors(t *testing.T) {
	const site = "variable \"zo|ne\" {}\nlocals {\n  a = var.zone\n}\n"
	for _, c := range []struct{ file, text, want string }{
		{"b.hcl", "locals {\n  k = [var.zone\n}\nstage \"label\" \"z\" {\n  labels = { b = var.zone }\n}\n", "b.hcl has a syntax error in line 2"},
		{"b.hcl", "locals {\n  k = \"${var.zone\n}\n", "b.hcl has a syntax error in line"},
		{"b.prelet.vars", "zone = \n", "b.prelet.vars has a syntax error in line 1"},
		{"b.prelettest.hcl", "run \"x\" {\n", "b.prelettest.hcl has a syntax error in line"},
	} {
		s, _, params := openSite(t, map[string]string{"site.hcl": site, c.file: c.text})
		params["newName"] = "region"
		got, err := ask(t, s, "textDocument/rename", params)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("rename next to %s with %q: got %v, %v; want an error with %q", c.file, c.text, got, err, c.want)
		}
	}

	s, _, params := openSite(t, map[string]string{"site.hcl": site, "b.prelet.vars": "zone = \"a\"\n"})
	params["newName"] = "region"
	got := slices.Sorted(maps.Keys(askFor[workspaceEdit](t, s, "rename", params).Changes))
	for i := range got {
		got[i] = filepath.Base(got[i])
	}
	if diff := cmp.Diff([]string{"b.prelet.vars", "site.hcl"}, got); diff != "" {
		t.Errorf("files of a rename (-want +got):\n%s", diff)
	}
}
