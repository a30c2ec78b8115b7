package server

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/canary"
)

// editor keeps what a server has shown.
type editor struct {
	messages []string
	shown    map[string][]diagnostic // by URI
}

func watch(s *Server) *editor {
	e := &editor{shown: map[string][]diagnostic{}}
	s.notify = func(_ string, params any) {
		switch p := params.(type) {
		case publishParams:
			e.shown[p.URI] = p.Diagnostics
		case showMessageParams:
			e.messages = append(e.messages, p.Message)
		}
	}

	return e
}

// summaries returns the first lines of the diagnostics that are shown in a file.
func (e *editor) summaries(file string) string {
	var out []string
	for _, d := range e.shown[uriOf(file)] {
		summary, _, _ := strings.Cut(d.Message, "\n")
		out = append(out, summary)
	}

	return strings.Join(out, "; ")
}

func configure(t *testing.T, s *Server, prelet any) {
	t.Helper()
	params := map[string]any{"settings": map[string]any{"prelet": prelet}}
	send(t, s, "workspace/didChangeConfiguration", params)
	s.validatePending()
}

// readSample returns a file of the site that the session's test has.
func readSample(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../testdata/site", name))
	must(t, err)

	return string(text)
}

// A version of the kubelet that is refused is a finding, and the site is validated without it.
func TestRefusedKubeletVersion(t *testing.T) {
	good := readSample(t, "main.hcl") + readSample(t, "variables.hcl")
	bad := strings.Replace(good, "= var.zone", "= var.nope", 1)
	s, dir, params := openSite(t, map[string]string{"site.hcl": bad, "a.prelet.vars": readSample(t, "site.preletvars.hcl")})
	file := filepath.Join(dir, "site.hcl")
	e := watch(s)

	for _, version := range []string{"abc", "9.99"} {
		configure(t, s, map[string]any{"kubeletVersion": version})
		want := `Invalid setting of the editor; Unknown variable "nope"`
		if got := e.summaries(file); got != want {
			t.Errorf("diagnostics with kubeletVersion %q: got %q, want %q", version, got, want)
		}
		if got := e.shown[uriOf(file)][0].Message; !strings.Contains(got, version) {
			t.Errorf("the diagnostic of kubeletVersion %q: got %q, want one with the version", version, got)
		}
	}

	params["contentChanges"] = []any{map[string]any{"text": good}}
	send(t, s, "textDocument/didChange", params)
	s.validatePending()
	if got := e.summaries(file); got != "Invalid setting of the editor" {
		t.Errorf("diagnostics of the corrected text: got %q, want only the one of the setting", got)
	}
	configure(t, s, map[string]any{"kubeletVersion": ""})
	if got := e.summaries(file); got != "" {
		t.Errorf("diagnostics with a corrected setting: got %q, want none", got)
	}
}

// A secret of any kind, in the text that is open or in another file, is a finding that does not show it, and neither does
// anything that an editor shows at a place that names it.
func TestEvidentSecrets(t *testing.T) {
	for _, k := range canary.Kinds() {
		if k.Name == "credential" { // it is evident only on a node
			continue
		}
		literal := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(k.Text) + `"`
		declared := "locals {\n  a = " + literal + "\n}\nvariable \"v\" {\n  default = " + literal +
			"\n  description = " + literal + "\n}\nstage \"label\" \"x\" {\n  labels = { \"example.com/b\" = " + literal + " }\n" +
			"  " + literal + " = 1\n}\n"
		for _, use := range []string{"local.a|", "var.v|", "var.|", "local.|", "local.a + |1", "tonumber(local.a|)", literal + "|"} {
			s, dir, params := openSite(t, map[string]string{
				"site.hcl": "locals {\n  b = " + use + "\n}\n", "other.hcl": declared, "a.prelet.vars": "v = " + literal + "\n",
			})
			e := watch(s)
			configure(t, s, map[string]any{})
			shown := map[string]any{"diagnostics": e.shown, "messages": e.messages}
			for _, method := range []string{"hover", "completion", "signatureHelp", "documentSymbol", "definition"} {
				shown[method] = askFor[any](t, s, method, params)
			}

			find := canary.NewFinder(k.Hidden...)
			for what, v := range shown {
				text, err := json.Marshal(v)
				must(t, err)
				if found := find.Find(text); found != "" {
					t.Errorf("%s, %s: %s: got a secret %s; want none", k.Name, use, what, found)
				}
			}
			for _, file := range []string{"other.hcl", "a.prelet.vars"} {
				if got := e.summaries(filepath.Join(dir, file)); !strings.Contains(got, "The site's text has ") {
					t.Errorf("%s, %s: %s: got %q, want a finding of the secret", k.Name, use, file, got)
				}
			}
		}
	}
}

// A setting of another type is reported, the others are used, and the session goes on.
func TestSettingsOfAnotherType(t *testing.T) {
	for _, c := range []struct {
		settings any
		want     string
	}{
		{map[string]any{"config": "base", "kubeletVersion": "1.36"}, "invalid setting prelet.config, which is not used: it is a string. "},
		{map[string]any{"kubeletVersion": 1.36}, "invalid setting prelet.kubeletVersion, which is not used: it is a number"},
		{"base", "invalid setting prelet, which is not used: it is a string. "},
	} {
		s := New(SessionOptions{Delay: 1 << 40})
		e := watch(s)
		params := map[string]any{"rootUri": "file:///x", "initializationOptions": c.settings}
		send(t, s, "initialize", params)
		if got := strings.Join(e.messages, "; "); !strings.HasPrefix(got, c.want) {
			t.Errorf("messages for %v: got %q, want %q", c.settings, got, c.want)
		}
	}

	s := New(SessionOptions{Delay: 1 << 40})
	e := watch(s)
	params := map[string]any{"rootUri": "file:///x", "initializationOptions": map[string]any{"kubeletVersion": "1.36"}}
	send(t, s, "initialize", params)
	for _, settings := range []any{nil, map[string]any{}, map[string]any{"prelet": nil}} {
		send(t, s, "workspace/didChangeConfiguration", map[string]any{"settings": settings})
		if s.settings.KubeletVersion != "1.36" || len(e.messages) > 0 {
			t.Errorf("settings %v without prelet's: got %+v and %q, want the ones from initialize", settings, s.settings, e.messages)
		}
	}
}

// The configured site is looked for in each folder of the workspace.
func TestWorkspaceFolders(t *testing.T) {
	s := New(SessionOptions{Delay: 1 << 40})
	params := map[string]any{
		"rootUri":               "file:///one",
		"workspaceFolders":      []workspaceFolder{{URI: "file:///one"}, {URI: "file:///two"}},
		"initializationOptions": map[string]any{"config": []string{"base", "gpu"}},
	}
	send(t, s, "initialize", params)

	for file, want := range map[string]string{
		"/one/gpu/a.hcl":  "/one/base /one/gpu",
		"/two/base/a.hcl": "/two/base /two/gpu",
		"/two/test/a.hcl": "/two/test",
	} {
		if got := strings.Join(s.sitePaths(file), " "); got != want {
			t.Errorf("site of %s: got %s, want %s", file, got, want)
		}
	}
}

// Nothing stays in the editor of a test that is closed, and of a file that was removed.
func TestStaleDiagnostics(t *testing.T) {
	const text = "stage \"label\" \"l\" {\n  labels = { a = var.nope }\n}\n"
	s, dir, _ := openSite(t, map[string]string{"site.hcl": text, "b.prelettest.hcl": ""})
	e := watch(s)

	test := filepath.Join(dir, "b.prelettest.hcl")
	open := map[string]any{"uri": uriOf(test), "version": 1, "text": "run \"x\" {\n  hardwar = 1\n}\n"}
	for _, step := range []struct {
		method string
		params any
		want   bool
	}{
		{"didOpen", map[string]any{"textDocument": open}, true},
		{"didClose", map[string]any{"textDocument": textDocument{URI: uriOf(test)}}, false},
	} {
		send(t, s, "textDocument/"+step.method, step.params)
		if got := e.summaries(test); (got != "") != step.want {
			t.Errorf("diagnostics of a test after %s: got %q, want some: %v", step.method, got, step.want)
		}
	}

	file := filepath.Join(dir, "site.hcl")
	params := map[string]any{"textDocument": textDocument{URI: uriOf(file)}}
	send(t, s, "textDocument/didClose", params)
	s.validatePending()
	if got := e.summaries(file); got == "" {
		t.Error("diagnostics of a closed file: got none, want those of what is saved")
	}
	must(t, os.RemoveAll(dir))
	send(t, s, "workspace/didChangeWatchedFiles", map[string]any{})
	s.validatePending()
	if got := e.summaries(file); got != "" {
		t.Errorf("diagnostics of a removed file: got %q, want none", got)
	}
}
