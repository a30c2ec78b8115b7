// Package server is a language server for prelet's sites: it answers an editor's requests over JSON-RPC. hcl-lang does
// completion, hover and colours by the language that package language declares; names, types and references come from
// the index there; diagnostics are those of `prelet validate`. It must not write files.
package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"path"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/prelet/prelet/editors/prelet-ls/internal/language"
)

// SessionOptions are the parameters of a session with one editor.
type SessionOptions struct {
	Version string        // of prelet, which required_version is compared with
	Delay   time.Duration // between the last change of a text and the validation of its site
	Log     *log.Logger
	// Validate validates a site; nil: in this process. An evaluation cannot be stopped, so a server for people does it
	// in a process that ends.
	Validate func(context.Context, Request) (Validated, error)
}

type document struct {
	uri     string
	version int
	text    string
}

// Server is one session with an editor. Requests are handled one after another; only validation runs in parallel.
type Server struct {
	options  SessionOptions
	language *language.Language

	mu          sync.Mutex
	documents   map[string]*document // by path
	parsed      map[string]parsed    // by path
	roots       []string             // folders of the workspace
	sites       [][]string           // absolute paths of the configured site, in each folder of the workspace
	settings    settings
	hasSnippets bool
	state       progress
	validation  validation
	notify      func(method string, params any)
	ending      context.Context // of the session
	end         context.CancelFunc
}

// progress is how far a session has come.
type progress int

const (
	started progress = iota
	initialized
	shutDown
)

// codeNotInitialized is the protocol's error for a request before initialize.
const codeNotInitialized = -32002

// New returns a server that has no client yet. Its notifications are dropped until Serve.
func New(o SessionOptions) *Server {
	if o.Validate == nil {
		o.Validate = func(_ context.Context, r Request) (Validated, error) { return Validate(r), nil }
	}
	ending, end := context.WithCancel(context.Background())

	return &Server{
		ending:    ending,
		end:       end,
		options:   o,
		language:  language.New(),
		documents: map[string]*document{},
		parsed:    map[string]parsed{},
		notify:    func(string, any) {},
	}
}

// Serve handles a session until the client ends it or closes its stream, and reports whether it ended as the protocol
// asks for: shutdown, then exit.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) bool {
	isClean := false
	handler := jsonrpc2.HandlerWithError(
		func(_ context.Context, conn *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
			if r.Method == "exit" {
				s.mu.Lock()
				isClean = s.state == shutDown
				s.mu.Unlock()
				return nil, conn.Close()
			}
			return s.Handle(r)
		}).SuppressErrClosed()

	stream := jsonrpc2.NewBufferedStream(streams{in, out}, jsonrpc2.VSCodeObjectCodec{})
	silent := log.New(io.Discard, "", 0) // it would log after the end of Serve
	conn := jsonrpc2.NewConn(ctx, stream, handler, jsonrpc2.SetLogger(silent))
	s.mu.Lock()
	s.notify = func(method string, params any) { _ = conn.Notify(ctx, method, params) } // the client may have gone
	s.mu.Unlock()
	<-conn.DisconnectNotify()
	s.end()
	s.validation.stop()

	return isClean
}

// streams are the two streams of a session. The caller of Serve closes them.
type streams struct {
	io.Reader
	io.Writer
}

// Close implements io.Closer.
func (streams) Close() error { return nil }

// Handle answers one message. A failure in the handling is an error for this message only.
func (s *Server) Handle(r *jsonrpc2.Request) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.options.Log.Printf("%s: %v\n%s", r.Method, p, debug.Stack())
			result, err = nil, &jsonrpc2.Error{
				Code:    jsonrpc2.CodeInternalError,
				Message: fmt.Sprintf("prelet-ls failed while it handled %s; its log has the reason", r.Method),
			}
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()

	switch {
	case s.state == started && r.Method != "initialize":
		return nil, &jsonrpc2.Error{Code: codeNotInitialized, Message: "initialize comes first"}
	case s.state == shutDown:
		return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidRequest, Message: "the session is shut down"}
	}

	return s.dispatch(r)
}

func (s *Server) dispatch(r *jsonrpc2.Request) (any, error) {
	switch r.Method {
	case "initialize":
		return with(r, s.initialize)
	case "shutdown":
		s.state = shutDown
		return nil, nil
	case "textDocument/didOpen":
		return with(r, s.open)
	case "textDocument/didChange":
		return with(r, s.change)
	case "textDocument/didSave":
		return with(r, s.save)
	case "textDocument/didClose":
		return with(r, s.close)
	case "workspace/didChangeConfiguration":
		return with(r, s.configure)
	case "workspace/didChangeWatchedFiles":
		s.scheduleAll()
		s.checkTests()
		return nil, nil
	case "textDocument/formatting":
		return with(r, s.format)
	case "textDocument/documentSymbol":
		return s.withPlace(r, s.symbols)
	case "textDocument/semanticTokens/full":
		return s.withPlace(r, s.tokens)
	case "textDocument/completion":
		return s.withPlace(r, s.complete)
	case "textDocument/hover":
		return s.withPlace(r, s.hover)
	case "textDocument/signatureHelp":
		return s.withPlace(r, s.signature)
	case "textDocument/definition":
		return s.withPlace(r, s.definition)
	case "textDocument/references":
		return s.withPlace(r, s.references)
	case "textDocument/prepareRename":
		return s.withPlace(r, s.prepareRename)
	case "textDocument/rename":
		return s.withPlace(r, s.rename)
	}
	if r.Notif { // such as initialized, $/cancelRequest and $/setTrace
		return nil, nil
	}

	return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeMethodNotFound, Message: "unknown method " + r.Method}
}

// with decodes the parameters of a message and handles it.
func with[T any](r *jsonrpc2.Request, handle func(T) (any, error)) (any, error) {
	var params T // those that are missing are zero
	if r.Params != nil {
		if err := json.Unmarshal(*r.Params, &params); err != nil {
			return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: err.Error()}
		}
	}

	return handle(params)
}

// withPlace handles a request about a place. The result is null where its document is not open, is not native HCL, or
// cannot be parsed at all.
func (s *Server) withPlace(r *jsonrpc2.Request, handle func(at) (any, error)) (any, error) {
	return with(r, func(p documentParams) (any, error) {
		file, d := s.find(p.TextDocument.URI)
		if d == nil {
			return nil, nil
		}
		x := s.readSite(file)
		if x.files[file] == nil {
			return nil, nil
		}

		return handle(at{
			site:   x,
			params: p,
			file:   file,
			text:   d.text,
			offset: offsetOf(d.text, p.Position),
		})
	})
}

func (s *Server) initialize(p initializeParams) (any, error) {
	if s.state != started {
		return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidRequest, Message: "initialize comes once"}
	}
	s.state = initialized
	s.roots = p.roots()
	s.hasSnippets = p.Capabilities.TextDocument.Completion.CompletionItem.SnippetSupport
	s.use(p.InitializationOptions)

	type object = map[string]any

	return object{
		"serverInfo": object{"name": "prelet-ls", "version": s.options.Version},
		"capabilities": object{
			"positionEncoding":           "utf-16",
			"textDocumentSync":           object{"openClose": true, "change": syncFull, "save": true},
			"completionProvider":         object{"triggerCharacters": []string{".", "\""}},
			"signatureHelpProvider":      object{"triggerCharacters": []string{"(", ","}},
			"hoverProvider":              true,
			"definitionProvider":         true,
			"referencesProvider":         true,
			"renameProvider":             object{"prepareProvider": true},
			"documentFormattingProvider": true,
			"documentSymbolProvider":     true,
			"semanticTokensProvider": object{
				"legend": object{"tokenTypes": tokenTypes, "tokenModifiers": []string{}},
				"full":   true,
			},
		},
	}, nil
}

// use applies the user's settings. One of another type than expected is reported and left out.
func (s *Server) use(raw json.RawMessage) {
	if len(raw) == 0 || string(raw) == "null" {
		return // those that an editor sent before stay
	}
	var o settings
	if err := json.Unmarshal(raw, &o); err != nil {
		s.notify("window/showMessage", showMessageParams{Type: messageError, Message: describeSetting(err)})
	}

	s.settings = o
	s.sites = nil
	for _, root := range s.roots {
		if len(o.Config) > 0 {
			s.sites = append(s.sites, placesIn(root, o.Config))
		}
	}
}

// placesIn returns the absolute paths of places in a folder of the workspace.
func placesIn(root string, places []string) []string {
	var out []string
	for _, place := range places {
		if !path.IsAbs(place) {
			place = path.Join(root, place)
		}
		out = append(out, path.Clean(place))
	}

	return out
}

// describeSetting describes settings that cannot be decoded.
func describeSetting(err error) string {
	place, why := "prelet", err.Error()
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		place = strings.TrimSuffix(place+"."+wrong.Field, ".")
		why = "it is a " + wrong.Value
	}

	return fmt.Sprintf("invalid setting %s, which is not used: %s. Write prelet.config as a list, such as "+
		`["base", "gpu"], and prelet.kubeletVersion as a text, such as "1.36".`, place, why)
}

func (s *Server) configure(p configurationParams) (any, error) {
	s.use(p.Settings.Prelet)
	s.scheduleAll()

	return nil, nil
}

func (s *Server) open(p documentParams) (any, error) {
	file, ok := pathOf(p.TextDocument.URI)
	if !ok {
		return nil, nil // a text without a file has no site
	}
	s.documents[file] = &document{
		uri:     p.TextDocument.URI,
		version: p.TextDocument.Version,
		text:    p.TextDocument.Text,
	}
	s.check(file)

	return nil, nil
}

func (s *Server) change(p documentParams) (any, error) {
	file, d := s.find(p.TextDocument.URI)
	if d == nil || len(p.ContentChanges) == 0 {
		return nil, nil
	}
	d.version = p.TextDocument.Version
	d.text = p.ContentChanges[len(p.ContentChanges)-1].Text
	s.check(file)

	return nil, nil
}

func (s *Server) save(p documentParams) (any, error) {
	if file, d := s.find(p.TextDocument.URI); d != nil {
		s.schedule(file)
		s.checkTests()
	}

	return nil, nil
}

// close forgets a document. Its site is checked again, with the saved file; a test is checked only while it is open.
func (s *Server) close(p documentParams) (any, error) {
	file, d := s.find(p.TextDocument.URI)
	if d == nil {
		return nil, nil
	}
	delete(s.documents, file)
	delete(s.parsed, file)
	if isApart(file) {
		s.publish(file, []diagnostic{})
	}
	s.schedule(file)

	return nil, nil
}

// find returns an open document and its path; nil if it is not open.
func (s *Server) find(uri string) (string, *document) {
	file, ok := pathOf(uri)
	if !ok {
		return "", nil
	}

	return file, s.documents[file]
}

// texts returns the open documents by path.
func (s *Server) texts() map[string]string {
	out := map[string]string{}
	for file, d := range s.documents {
		out[file] = d.text
	}

	return out
}

// rangeIn converts a range of a file of the site.
func (x site) rangeIn(r hcl.Range) span {
	return spanOf(x.texts[r.Filename], r)
}
