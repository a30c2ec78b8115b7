package ociserver

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/prelet/prelet/internal/fault"
)

// Reference is what each Manner has under its host: HOST/Reference.
const Reference = "sites/gpu:stable"

// Manner is one way in which a registry can do harm to its clients.
type Manner struct {
	Name string
	Code fault.Code // of the pull
	Text string     // in its message

	isPlain bool   // the server has no TLS
	host    string // in place of 127.0.0.1
	handle  func(x *Exchange)
}

// Exchange is one request to a registry of a Manner.
type Exchange struct {
	http.ResponseWriter
	Request *http.Request
	Good    *Registry // has a site
	Server  *Server
}

// Server is a running registry of a Manner. It is reached by Dial only, so that a test can run it on the clock of
// testing/synctest, on which no other program of the machine makes it late.
type Server struct {
	Host string // with its port
	CA   []byte // PEM

	// Elsewhere is the host of another server, which never asked for a password.
	Elsewhere string

	Requests atomic.Int64
	Endless  atomic.Int64 // bytes of endless responses that the client has taken, or that are on their way
	Leaked   atomic.Bool  // Elsewhere has got a password or a token

	own, other *httptest.Server
	listeners  map[string]*listener // by port
}

// listener is one in memory.
type listener struct {
	*bufconn.Listener
	port string
}

func (l *listener) Addr() net.Addr  { return l }
func (l *listener) Network() string { return "memory" }
func (l *listener) String() string  { return "127.0.0.1:" + l.port }

// Close ends the server, and what hangs in it.
func (s *Server) Close() {
	for _, each := range []*httptest.Server{s.own, s.other} {
		each.CloseClientConnections()
		each.Close()
	}
}

// Dial connects to the server with an address, whatever the name of its host is.
func (s *Server) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	_, port, _ := net.SplitHostPort(address)
	if l, ok := s.listeners[port]; ok {
		return l.DialContext(ctx)
	}

	return nil, errors.New("nothing listens at " + address)
}

// Start starts the registry of a Manner.
func (m Manner) Start() *Server {
	s := &Server{listeners: map[string]*listener{}}
	good := &Registry{}
	PutSite(good, Archive(Entry{Name: "site.hcl", Text: "locals {}\n"}))
	s.own = s.start("5001", !m.isPlain, func(w http.ResponseWriter, r *http.Request) {
		s.Requests.Add(1)
		m.handle(&Exchange{w, r, good, s})
	})
	s.other = s.start("5002", true, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			s.Leaked.Store(true)
		}
		switch {
		case strings.Contains(r.URL.Path, "/hang"):
			<-r.Context().Done()
		case strings.Contains(r.URL.Path, "/next/"):
			w.Header().Set("Location", r.URL.Path+"x")
			w.WriteHeader(http.StatusTemporaryRedirect)
		default:
			_, _ = io.WriteString(w, "something else")
		}
	})
	s.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.other.Certificate().Raw})
	s.Elsewhere = s.listeners["5002"].String()
	s.Host = s.listeners["5001"].String()
	if m.host != "" {
		s.Host = strings.Replace(s.Host, "127.0.0.1", m.host, 1)
	}

	return s
}

func (s *Server) start(port string, hasTLS bool, handle http.HandlerFunc) *httptest.Server {
	const buffer = 64 << 10
	l := &listener{bufconn.Listen(buffer), port}
	s.listeners[port] = l
	server := &httptest.Server{
		Listener: l,
		Config: &http.Server{
			Handler:           handle,
			ErrorLog:          log.New(io.Discard, "", 0),
			ReadHeaderTimeout: time.Minute,
		},
	}
	if hasTLS {
		server.StartTLS()
	} else {
		server.Start()
	}

	return server
}

// IsManifest and IsLayer report the kind of the request.
func (x *Exchange) IsManifest() bool { return strings.Contains(x.Request.URL.Path, "/manifests/") }
func (x *Exchange) IsLayer() bool    { return strings.Contains(x.Request.URL.Path, "/blobs/") }

// isBody reports whether the manifest itself is asked for, and not only its digest.
func (x *Exchange) isBody() bool { return x.IsManifest() && x.Request.Method == http.MethodGet }

// Behave answers as a good registry does.
func (x *Exchange) Behave() { x.Good.ServeHTTP(x.ResponseWriter, x.Request) }

// hang waits until the client has gone.
func (x *Exchange) hang() {
	_ = http.NewResponseController(x.ResponseWriter).Flush()
	<-x.Request.Context().Done()
}

// raw writes bytes to the connection, and closes it.
func (x *Exchange) raw(text string, more func(w io.Writer)) {
	c, _, err := http.NewResponseController(x.ResponseWriter).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = io.WriteString(c, text)
	if more != nil {
		more(c)
	}
}

// status answers with a status, and with a text in the form of the specification.
func (x *Exchange) status(status int, headers ...string) {
	for i := 0; i+1 < len(headers); i += 2 {
		x.Header().Set(headers[i], headers[i+1])
	}
	x.WriteHeader(status)
	_, _ = fmt.Fprintf(x, `{"errors":[{"code":"DENIED","message":"\u001b[31m%s %s"}]}`,
		x.Request.Header.Get("Authorization"), strings.Repeat("no ", 300))
}

// content returns the requested content.
func (x *Exchange) content() Content {
	c, _ := x.Good.Get(x.Request.URL.Path[strings.LastIndex(x.Request.URL.Path, "/")+1:])

	return c
}

// send answers with the headers of a content and with another body, without a length.
func (x *Exchange) send(body func(c Content, w io.Writer)) {
	c := x.content()
	x.Header().Set("Content-Type", c.Type)
	body(c, x.ResponseWriter)
}

// endless writes until the client has gone.
func (x *Exchange) endless(w io.Writer, part string, pause time.Duration) {
	for {
		n, err := io.WriteString(w, part)
		x.Server.Endless.Add(int64(n))
		if err != nil {
			return
		}
		if f, ok := w.(http.Flusher); ok && pause > 0 {
			f.Flush()
		}
		time.Sleep(pause)
	}
}

// onAll, onManifest and onLayer return a handler that misbehaves for some of the requests.
func onAll(f func(*Exchange)) func(*Exchange) { return f }
func onManifest(f func(*Exchange)) func(*Exchange) {
	return on((*Exchange).isBody, f)
}
func onLayer(f func(*Exchange)) func(*Exchange) { return on((*Exchange).IsLayer, f) }

func on(is func(*Exchange) bool, f func(*Exchange)) func(*Exchange) {
	return func(x *Exchange) {
		if is(x) {
			f(x)
		} else {
			x.Behave()
		}
	}
}

// with returns a handler of a good registry with another manifest.
func with(c func(layer string, size int) Content) func(*Exchange) {
	return func(x *Exchange) {
		layer := Archive(Entry{Name: "site.hcl", Text: "locals {}\n"})
		x.Good.Put(c(x.Good.Put(Content{LayerType, layer}), len(layer)), "stable")
		x.Behave()
	}
}

// manifest returns a handler of a good registry with a manifest of another text, where SUM is the digest of the layer,
// and SIZE its size.
func manifest(text string) func(*Exchange) {
	return with(func(layer string, size int) Content {
		fill := strings.NewReplacer("SUM", layer, "SIZE", strconv.Itoa(size))
		return Content{ManifestType, []byte(fill.Replace(text))}
	})
}

// ofType returns a handler of a good registry with a manifest of another type.
func ofType(mediaType, text string) func(*Exchange) {
	return with(func(string, int) Content { return Content{mediaType, []byte(text)} })
}

// layer returns a handler of a good registry with another layer.
func layer(text []byte) func(*Exchange) {
	return func(x *Exchange) {
		PutSite(x.Good, text)
		x.Behave()
	}
}

// archive returns a handler of a good registry with another archive as the layer.
func archive(entries ...Entry) func(*Exchange) { return layer(Archive(entries...)) }

// asks returns a handler that asks for a token, at a server that misbehaves, and accepts none.
func asks(realm string, token func(*Exchange)) func(*Exchange) {
	return func(x *Exchange) {
		if x.Request.URL.Path == "/token" {
			token(x)
			return
		}
		url := strings.NewReplacer("HOST", x.Server.Host, "ELSEWHERE", x.Server.Elsewhere).Replace(realm)
		x.status(http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="`+url+`",service="r"`)
	}
}

func gives(text string) func(*Exchange) {
	return func(x *Exchange) { _, _ = io.WriteString(x, text) }
}

func answers(status int, headers ...string) func(*Exchange) {
	return func(x *Exchange) { x.status(status, headers...) }
}

// redirects returns a handler that redirects to a URL.
func redirects(url string) func(*Exchange) {
	return func(x *Exchange) {
		fill := strings.NewReplacer("HOST", x.Server.Host, "ELSEWHERE", x.Server.Elsewhere, "PATH", x.Request.URL.Path)
		x.Header().Set("Location", fill.Replace(url))
		x.WriteHeader(http.StatusTemporaryRedirect)
	}
}
