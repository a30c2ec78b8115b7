package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sourcegraph/jsonrpc2"
)

// endless is how long no request may take, on a busy machine.
const endless = time.Minute

// newTestServer returns a server that has been initialized, and whose log is searched for failures by the test.
func newTestServer(tb testing.TB) (*Server, *bytes.Buffer) {
	tb.Helper()
	var logged bytes.Buffer
	s := New(SessionOptions{Delay: time.Hour, Log: log.New(&logged, "", 0)})
	send(tb, s, "initialize", map[string]any{"rootUri": "file:///"})

	return s, &logged
}

// ask sends a message to a server without a stream.
func ask(tb testing.TB, s *Server, method string, params any) (any, error) {
	tb.Helper()
	body, err := json.Marshal(params)
	must(tb, err)
	raw := json.RawMessage(body)

	return s.Handle(&jsonrpc2.Request{Method: method, Params: &raw})
}

// send sends a message that has no error.
func send(tb testing.TB, s *Server, method string, params any) {
	tb.Helper()
	if _, err := ask(tb, s, method, params); err != nil {
		tb.Fatalf("%s: got %v, want no error", method, err)
	}
}

// must ends a test if what it needs fails.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("got %v, want no error", err)
	}
}

// features are the requests about a place in a document.
var features = []string{
	"completion", "hover", "signatureHelp", "definition", "references", "prepareRename", "rename", "formatting",
	"documentSymbol", "semanticTokens/full",
}

// documentNames has one file for each kind of document.
var documentNames = []string{"site.hcl", "x.prelet.vars", "x.prelettest.hcl", "x.tftpl", "x.preletdata.yaml"}

// FuzzDocument opens any text as a document of any kind and asks for everything at any place of it. No request may fail
// or take long.
func FuzzDocument(f *testing.F) {
	for _, text := range siteTexts(f) {
		f.Add(text, uint8(0), uint16(3), uint16(9))
		f.Add(text[:len(text)/2], uint8(0), uint16(12), uint16(4))
	}
	for _, text := range []string{
		"", "\x00", "\ufeff", "a = ", "locals { a = stage.", "locals {\n  a = \"${", "stage \"", "x = [", "\xff\xfe",
		"locals { a = \U0001F600 }", "locals { a = \"😀${var.x}\" }", "override {\nstage \"a\" \"b\" {", "/* ", "<<EOF\n",
		"locals { a = local.a\n b = local.c\n c = local.b }", "variable \"a\" { type = list(list(", "variable x {}",
		"stage label x { labels = { a = lo } }\r\n", "locals { a = [for x in y : x if", "a = b ? c : d.e[*].f.*.g\n",
	} {
		for kind := range documentNames {
			f.Add(text, uint8(kind), uint16(0), uint16(len(text)))
			f.Add(text, uint8(kind), uint16(1), uint16(0))
		}
	}

	s, logged := newTestServer(f)
	dir := f.TempDir()

	f.Fuzz(func(t *testing.T, text string, kind uint8, line, character uint16) {
		name := documentNames[int(kind)%len(documentNames)]
		at := position{Line: int(line), Character: int(character)}
		checkDocument(t, s, logged, filepath.Join(dir, name), text, at)
	})
}

// TestDeepDocuments opens texts that are nested more deeply than any that a person writes.
func TestDeepDocuments(t *testing.T) {
	texts := map[string]string{
		"lists":         strings.Repeat("[", 3000),
		"blocks":        strings.Repeat("a{", 3000),
		"parentheses":   "locals { a = " + strings.Repeat("(", 5000),
		"negations":     "locals { a = " + strings.Repeat("-", 5000) + "1 }",
		"attributes":    "locals { a = x" + strings.Repeat(".x", 5000) + " }",
		"conditions":    "locals { a = " + strings.Repeat("true ? ", 2000),
		"interpolation": "locals { a = \"" + strings.Repeat("${\"", 2000),
	}
	s, logged := newTestServer(t)
	dir := t.TempDir()

	for what, text := range texts {
		for _, name := range documentNames {
			t.Run(what+" in "+name, func(t *testing.T) {
				for _, at := range []position{{Line: 0, Character: len(text)}, {Line: 1}} {
					checkDocument(t, s, logged, filepath.Join(dir, name), text, at)
				}
			})
		}
	}
}

// checkDocument opens a document, asks for each feature at a place of it, and closes it.
func checkDocument(t *testing.T, s *Server, logged *bytes.Buffer, file, text string, at position) {
	t.Helper()
	document := map[string]any{"uri": uriOf(file), "text": text}
	checkAnswer(t, logged)(ask(t, s, "textDocument/didOpen", map[string]any{"textDocument": document}))

	for _, feature := range features {
		start := time.Now()
		result, err := ask(t, s, "textDocument/"+feature, map[string]any{
			"textDocument": document,
			"position":     at,
			"newName":      "x",
		})
		if feature != "rename" || err == nil {
			checkAnswer(t, logged)(result, err)
		}
		if took := time.Since(start); took > endless {
			t.Errorf("%s of %d bytes: got a response after %s, want it within %s", feature, len(text), took, endless)
		}
	}

	checkAnswer(t, logged)(ask(t, s, "textDocument/didClose", map[string]any{"textDocument": document}))
}

// checkAnswer fails the test for an error of a message that may have none, with the server's log.
func checkAnswer(t *testing.T, logged *bytes.Buffer) func(any, error) {
	return func(result any, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("got the error %v, want none; log: %s", err, logged)
		}
		if _, err := json.Marshal(result); err != nil {
			t.Fatalf("got a result that JSON cannot hold: %v", err)
		}
	}
}

// siteTexts returns the files of the test site.
func siteTexts(tb testing.TB) []string {
	tb.Helper()
	files, err := filepath.Glob("../../testdata/site/*")
	if err != nil || len(files) == 0 {
		tb.Fatalf("the test site: got %d files, %v; want some", len(files), err)
	}

	var out []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(tb, err)
		out = append(out, string(text))
	}

	return out
}

// FuzzMessages sends any bytes as messages. The session must end when they do, without a failure.
func FuzzMessages(f *testing.F) {
	initialize := frame(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
	for _, body := range []string{
		`{}`, `[]`, `null`, `{"jsonrpc":"2.0","id":2,"method":"shutdown"}`, `{"method":"exit"}`, `{"id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":"a","method":"textDocument/hover","params":[]}`, `{"id":-1,"method":"x"}`, `{"id":{},"method":""}`,
		`{"method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:///a/b.hcl","text":"a"}}}`,
		`{"method":"textDocument/didChange","params":{"textDocument":{"uri":"%"},"contentChanges":[{}]}}`,
		`{"id":3,"method":"textDocument/hover","params":{"textDocument":{"uri":"file:///a"},"position":{"line":-1,"character":-9}}}`,
		`{"id":3,"method":"textDocument/hover","params":{"position":{"line":1e99}}}`, `{"id":null,"method":"shutdown"}`, `{`,
	} {
		f.Add([]byte(initialize + frame(body) + initialize))
	}
	f.Add([]byte("Content-Length: -1\r\n\r\n"))
	f.Add([]byte("Content-Length: 99999999999\r\n\r\n{}"))
	f.Add([]byte("Content-Length: 5\n\n{}   " + initialize))
	f.Add([]byte("\r\n\r\n"))

	f.Fuzz(func(t *testing.T, sent []byte) {
		var logged bytes.Buffer
		s := New(SessionOptions{Delay: time.Hour, Log: log.New(&logged, "", 0)})
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Serve(t.Context(), bytes.NewReader(sent), io.Discard)
		}()
		select {
		case <-done:
		case <-time.After(endless):
			t.Fatalf("messages %q: got a session that does not end, want that it ends with its input", sent)
		}

		if strings.Contains(logged.String(), "goroutine") {
			t.Errorf("messages %q: got a failure, want none: %s", sent, logged.String())
		}
	})
}

func frame(body string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body) }
