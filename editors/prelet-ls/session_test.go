package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sourcegraph/jsonrpc2"
)

var update = flag.Bool("update", false, "write the golden files again")

// asServer makes the test binary run the program instead of its tests.
const asServer = "PRELET_LS_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// session is an editor's side of a session with the program, which runs as a process.
type session struct {
	t       *testing.T
	conn    *jsonrpc2.Conn
	process *exec.Cmd
	log     *os.File // what the server writes to standard error
	site    string   // folder
	texts   map[string]string
	version map[string]int // by file
	shown   chan published
	golden  strings.Builder
}

type published struct {
	URI         string           `json:"uri"`
	Version     int              `json:"version"`
	Diagnostics []map[string]any `json:"diagnostics"`
}

// pipes are the streams of a process, as one.
type pipes struct {
	io.Reader
	io.WriteCloser
}

// startSession starts the program on a copy of the site in testdata/site.
func startSession(t *testing.T) *session {
	t.Helper()
	s := &session{t: t, site: t.TempDir(), texts: map[string]string{}, version: map[string]int{}, shown: make(chan published, 100)}
	must(t, os.CopyFS(s.site, os.DirFS("testdata/site")))

	s.process = exec.Command(os.Args[0])
	s.process.Env = append(os.Environ(), asServer+"=1")
	log, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	must(t, err)
	t.Cleanup(func() { _ = log.Close() })
	s.log, s.process.Stderr = log, log
	in, err := s.process.StdinPipe()
	must(t, err)
	out, err := s.process.StdoutPipe()
	must(t, err)
	must(t, s.process.Start())
	t.Cleanup(func() { _ = s.process.Process.Kill() })

	handler := jsonrpc2.HandlerWithError(func(_ context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
		var p published
		if r.Method == "textDocument/publishDiagnostics" && json.Unmarshal(*r.Params, &p) == nil {
			s.shown <- p
		}
		return nil, nil
	})
	stream := jsonrpc2.NewBufferedStream(pipes{out, in}, jsonrpc2.VSCodeObjectCodec{})
	s.conn = jsonrpc2.NewConn(t.Context(), stream, handler)

	return s
}

func (s *session) stderr() string {
	text, err := os.ReadFile(s.log.Name())
	if err != nil {
		return err.Error()
	}

	return string(text)
}

func (s *session) uri(name string) string { return "file://" + filepath.Join(s.site, name) }

// call sends a request and waits for its result.
func (s *session) call(method string, params any) (json.RawMessage, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	var result json.RawMessage
	err := s.conn.Call(ctx, method, params, &result)
	if ctx.Err() != nil {
		s.t.Fatalf("%s: got no response, want one; stderr: %s", method, s.stderr())
	}

	return result, err
}

func (s *session) inform(method string, params any) {
	s.t.Helper()
	if err := s.conn.Notify(s.t.Context(), method, params); err != nil {
		s.t.Fatalf("%s: got %v, want no error; stderr: %s", method, err, s.stderr())
	}
}

func (s *session) open(name string) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.site, name))
	must(s.t, err)
	s.version[name]++
	s.texts[name] = string(text)
	s.inform("textDocument/didOpen", map[string]any{
		"textDocument": map[string]any{"uri": s.uri(name), "languageId": "prelet", "version": s.version[name], "text": string(text)},
	})
}

// edit replaces the only occurrence of a text, and returns the position of the cursor, a | in the new text.
func (s *session) edit(name, before, after string) map[string]any {
	s.t.Helper()
	text := s.texts[name]
	if n := strings.Count(text, before); n != 1 {
		s.t.Fatalf("%s: got %q %d times, want once", name, before, n)
	}
	at, after := strings.Index(text, before), after
	cursor := at + strings.IndexByte(after+"|", '|')
	after = strings.Replace(after, "|", "", 1)
	text = strings.Replace(text, before, after, 1)

	s.change(name, text)
	line := text[:cursor]

	return map[string]any{
		"line":      strings.Count(line, "\n"),
		"character": len(line) - strings.LastIndex(line, "\n") - 1,
	}
}

// ask edits a document, sends a request about the place of the cursor, writes both to the golden text, and takes the
// edit back.
func (s *session) ask(method, name, before, after string, more map[string]any) {
	s.t.Helper()
	saved := s.texts[name]
	params := map[string]any{
		"textDocument": map[string]any{"uri": s.uri(name)},
		"position":     s.edit(name, before, after),
	}
	for k, v := range more {
		params[k] = v
	}

	result, err := s.call("textDocument/"+method, params)
	s.record(fmt.Sprintf("%s %s %s", method, name, after), result, err)
	s.change(name, saved)
}

func (s *session) change(name, text string) {
	s.t.Helper()
	s.version[name]++
	s.texts[name] = text
	s.inform("textDocument/didChange", map[string]any{
		"textDocument":   map[string]any{"uri": s.uri(name), "version": s.version[name]},
		"contentChanges": []any{map[string]any{"text": text}},
	})
}

// record writes a result to the golden text.
func (s *session) record(title string, result json.RawMessage, err error) {
	s.t.Helper()
	fmt.Fprintf(&s.golden, "== %s\n", strings.ReplaceAll(title, "\n", `\n`))
	if err != nil {
		fmt.Fprintf(&s.golden, "error: %s\n\n", strings.ReplaceAll(err.Error(), s.site, "SITE"))
		return
	}

	var list struct{ Items []map[string]any }
	if json.Unmarshal(result, &list) == nil && list.Items != nil {
		for _, item := range list.Items {
			edit := item["textEdit"].(map[string]any)
			fmt.Fprintf(&s.golden, "%s | %v | %q at %s\n", item["label"], item["detail"], edit["newText"], showSpan(edit["range"]))
		}
		fmt.Fprintln(&s.golden)
		return
	}

	var indented bytes.Buffer
	must(s.t, json.Indent(&indented, result, "", "  "))
	fmt.Fprintf(&s.golden, "%s\n\n", strings.ReplaceAll(indented.String(), s.site, "SITE"))
}

func showSpan(r any) string {
	var out []string
	for _, end := range []string{"start", "end"} {
		p := r.(map[string]any)[end].(map[string]any)
		out = append(out, fmt.Sprintf("%v:%v", p["line"], p["character"]))
	}

	return strings.Join(out, "-")
}

// wait waits until the editor is shown diagnostics of a file at its current version, and returns them as text.
func (s *session) wait(name string, want func([]string) bool) []string {
	s.t.Helper()
	deadline := time.After(time.Minute)
	var last []string
	for {
		select {
		case p := <-s.shown:
			if p.URI != s.uri(name) || p.Version != 0 && p.Version != s.version[name] {
				continue
			}
			last = nil
			for _, d := range p.Diagnostics {
				page, _ := d["codeDescription"].(map[string]any)
				last = append(last, fmt.Sprintf("%s severity %v [%v] %v\n  %v", showSpan(d["range"]), d["severity"], d["code"], page["href"],
					strings.ReplaceAll(d["message"].(string), "\n", "\n  ")))
			}
			if want(last) {
				return last
			}
		case <-deadline:
			s.t.Fatalf("%s: got the diagnostics %q, want others; stderr: %s", name, last, s.stderr())
		}
	}
}

// recordWait writes the diagnostics of a file to the golden text.
func (s *session) recordWait(title, name string) {
	s.t.Helper()
	fmt.Fprintf(&s.golden, "== diagnostics of %s\n%s\n\n", title, strings.Join(s.wait(name, isNotEmpty), "\n"))
}

// end ends the session and checks the exit status of the program.
func (s *session) end() {
	s.t.Helper()
	if _, err := s.call("shutdown", nil); err != nil {
		s.t.Errorf("shutdown: got %v, want no error", err)
	}
	s.inform("exit", nil)
	if err := s.process.Wait(); err != nil {
		s.t.Errorf("exit after shutdown: got %v, want status 0; stderr: %s", err, s.stderr())
	}
	if got := s.stderr(); got != "" {
		s.t.Errorf("stderr: got %q, want nothing", got)
	}
}

func (s *session) initialize(options map[string]any) {
	s.t.Helper()
	result, err := s.call("initialize", map[string]any{
		"processId": nil, "rootUri": "file://" + s.site, "capabilities": map[string]any{}, "initializationOptions": options,
	})
	if err != nil {
		s.t.Fatalf("initialize: got %v, want no error", err)
	}
	s.record("initialize", result, nil)
	s.inform("initialized", map[string]any{})
}

func isNotEmpty(found []string) bool { return len(found) > 0 }
func isEmpty(found []string) bool    { return len(found) == 0 }

// TestSession is a session of an editor with the program: what it offers and shows while one types, and how it ends.
// The golden file has each request, with a | at the cursor, and its result.
func TestSession(t *testing.T) {
	s := startSession(t)
	if _, err := s.call("textDocument/hover", map[string]any{}); err == nil {
		t.Error("hover before initialize: got no error, want one")
	}
	s.initialize(nil)
	const main = "main.hcl"
	s.open(main)
	if found := s.wait(main, func([]string) bool { return true }); len(found) > 0 {
		t.Errorf("the site as it is: got the diagnostics %q, want none", found)
	}

	text, err := os.ReadFile("testdata/requests.json")
	must(t, err)
	var file struct {
		Requests []struct {
			Method, Before, After string
			Params                map[string]any
		}
	}
	must(t, json.Unmarshal(text, &file))
	for _, r := range file.Requests {
		s.ask(r.Method, main, r.Before, r.After, r.Params)
	}

	s.open("zone.prelettest.hcl")
	s.wait("zone.prelettest.hcl", isEmpty)
	s.ask("completion", "zone.prelettest.hcl", "  assert {", "  |\n  assert {", nil)
	s.edit("zone.prelettest.hcl", "variables = {", "variabels = {")
	s.recordWait("a test", "zone.prelettest.hcl")
	s.edit("zone.prelettest.hcl", "variabels = {", "variables = {")

	s.edit(main, "= var.zone", "= var.zoen")
	s.recordWait("an unknown variable", main)
	s.edit(main, "var.zoen", "var.zone")
	s.wait(main, isEmpty)
	s.edit(main, "locals {", "locals {{")
	s.recordWait("a syntax error", main)
	s.edit(main, "locals {{", "locals {")
	s.wait(main, isEmpty)

	// A change that is not saved counts for the whole site, and errors are shown in files that are not open as well.
	s.open("variables.hcl")
	s.edit("variables.hcl", `"zone"`, `"region"`)
	s.recordWait("site.preletvars.hcl after a change of variables.hcl", "site.preletvars.hcl")
	s.end()

	compareGolden(t, "testdata/session.golden", strings.ReplaceAll(s.golden.String(), s.site, "SITE"))
}

func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		must(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got; -update writes it):\n%s", file, diff)
	}
}

// A client that goes away without shutdown ends the program, with a status that says so.
func TestClientGoesAway(t *testing.T) {
	s := startSession(t)
	s.initialize(nil)
	s.open("main.hcl")
	must(t, s.conn.Close())
	err := s.process.Wait()
	if code := s.process.ProcessState.ExitCode(); code != 1 {
		t.Errorf("a client that goes away: got status %d (%v), want 1; stderr: %s", code, err, s.stderr())
	}
}

// A site whose evaluation cannot be stopped is evaluated in a process that ends: the server stays small, and validates
// what is typed next.
func TestHugeSite(t *testing.T) {
	const huge = `
locals {
  a = range(0, 1000)
  s = join(",", [for x in local.a : "a text that is about sixty-four bytes long, and a little longer"])
  u = [for x in local.a : [for y in local.a : "${x}${y}${local.s}"]]
}
stage "label" "place" { labels = { "example.com/n" = length(local.u) } }
`
	s := startSession(t)
	s.initialize(nil)
	const main = "main.hcl"
	s.open(main)
	s.wait(main, isEmpty)
	good := s.texts[main]
	for i := range 3 {
		s.edit(main, s.texts[main], strings.Replace(huge, "1000", fmt.Sprint(1000-i), 1))
		found := s.wait(main, func(found []string) bool { return strings.Contains(strings.Join(found, ""), "limit") })
		if !strings.Contains(strings.Join(found, "\n"), "MiB of memory") {
			t.Errorf("got %q; want text with %q", found, "MiB of memory")
		}
	}
	s.edit(main, s.texts[main], good)
	s.wait(main, isEmpty)

	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Process.Pid))
	if err != nil {
		t.Skip("this needs /proc")
	}
	peak := 0
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			_, _ = fmt.Sscanf(text, "%d kB", &peak)
		}
	}
	if peak == 0 || peak > 300<<10 {
		t.Errorf("the server had %d KiB of memory at its peak; want at most 300 MiB", peak)
	}
	s.end()
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
