// Package demo is a small API server in this process, for `make demo`, tests and benchmarks: enough of Kubernetes for
// a node to find out who the cluster is and to read its ConfigMaps.
//
// It listens on loopback with a CA of its own, serves a signed kube-public/cluster-info to everybody, and other
// ConfigMaps to the bootstrap token and to client certificates of its CA. Nodes register and read themselves. Objects, Status answers and the rules of who
// may read are those of a kubeadm cluster. It counts what it is asked. It touches nothing but its socket, and needs
// only the standard library.
package demo

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options shape a server. The zero value is a whole cluster with a token of its own.
type Options struct {
	// Token is the bootstrap token. Default: a random one.
	Token string
	// Listen is the address. Default 127.0.0.1:0.
	Listen string
	// Names are further host names or addresses of the serving certificate, beside localhost and 127.0.0.1.
	Names []string
	// Now dates the certificates. Default time.Now.
	Now func() time.Time
	// Delay is how long each answer takes longer, as a stand-in for a network.
	Delay time.Duration
}

// Request is one that the server has seen.
type Request struct {
	Method, Path  string
	Authorization bool   // it carried the header, whatever stood in it
	User          string // as whom it was served; empty if it was refused with 401
	Status        int
}

// Server is a running one.
type Server struct {
	opts     Options
	listener net.Listener
	http     *http.Server
	ca       *authority
	id       string
	secret   string

	mu          sync.Mutex
	objects     map[string]configMap // by namespace/name
	denied      map[string]bool
	nodes       map[string]json.RawMessage // as they were registered
	nodesHidden bool                       // from those who join
	version     int
	requests    []Request
	connections int
	expired     bool // the token
}

type configMap struct {
	version int
	made    time.Time
	data    map[string]string
}

// Start makes a CA, a certificate and cluster-info, and listens.
func Start(opts Options) (*Server, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Listen == "" {
		opts.Listen = "127.0.0.1:0"
	}
	if opts.Token == "" {
		opts.Token = randomToken()
	}
	id, secret, ok := strings.Cut(opts.Token, ".")
	if !ok || len(id) != 6 || len(secret) != 16 {
		return nil, errors.New("demo: the token is not six characters, a dot, sixteen characters")
	}
	ca, err := newAuthority(opts.Now())
	if err != nil {
		return nil, fmt.Errorf("demo: making a CA: %w", err)
	}
	cert, err := ca.issueServer(append([]string{"localhost", "127.0.0.1", "::1", "kubernetes"}, opts.Names...))
	if err != nil {
		return nil, fmt.Errorf("demo: making a serving certificate: %w", err)
	}
	listener, err := net.Listen("tcp", opts.Listen)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	s := &Server{opts: opts, listener: listener, ca: ca, id: id, secret: secret, objects: map[string]configMap{}, denied: map[string]bool{}, nodes: map[string]json.RawMessage{}, version: 100}
	s.SignClusterInfo()
	clients := x509.NewCertPool()
	clients.AddCert(ca.cert)
	s.http = &http.Server{
		Handler: http.HandlerFunc(s.serve),
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{cert},
			MinVersion:   tls.VersionTLS12,
			ClientAuth:   tls.VerifyClientCertIfGiven,
			ClientCAs:    clients,
			Time:         opts.Now,
		},
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				s.mu.Lock()
				s.connections++
				s.mu.Unlock()
			}
		},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // clients that refuse us are no news
	}
	go func() { _ = s.http.ServeTLS(listener, "", "") }() // ends with ErrServerClosed
	return s, nil
}

// Close stops listening and ends every connection.
func (s *Server) Close() error { return s.http.Close() }

// URL is https://127.0.0.1:PORT.
func (s *Server) URL() string { return "https://" + s.listener.Addr().String() }

// Token is the bootstrap token that the server accepts.
func (s *Server) Token() string { return s.opts.Token }

// CAPEM is the cluster's CA certificate.
func (s *Server) CAPEM() []byte { return s.ca.pem() }

// CAHash is the pin of the CA, sha256:HEX.
func (s *Server) CAHash() string { return s.ca.hash() }

// SetConfigMap makes or replaces a ConfigMap and gives it a new resourceVersion.
func (s *Server) SetConfigMap(namespace, name string, data map[string]string) {
	copied := make(map[string]string, len(data))
	for k, v := range data {
		copied[k] = v
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	key := namespace + "/" + name
	made := s.opts.Now()
	if old, ok := s.objects[key]; ok {
		made = old.made
	}
	s.objects[key] = configMap{version: s.version, made: made, data: copied}
}

// DeleteConfigMap removes one.
func (s *Server) DeleteConfigMap(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, namespace+"/"+name)
}

// Deny takes the right to read a ConfigMap from everybody, or gives it back.
func (s *Server) Deny(namespace, name string, denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied[namespace+"/"+name] = denied
}

// SignClusterInfo puts kube-public/cluster-info in place, signed with the token, as the bootstrap signer does.
func (s *Server) SignClusterInfo() {
	text := s.clusterInfo()
	s.SetConfigMap("kube-public", "cluster-info", map[string]string{
		"kubeconfig":             text,
		"jws-kubeconfig-" + s.id: sign(text, s.id, s.secret),
	})
}

// ExpireToken makes the cluster forget the token, as the token cleaner does when its time is over: who shows it is refused,
// and its signature goes from cluster-info. A node that has joined does not notice.
func (s *Server) ExpireToken() {
	s.SetConfigMap("kube-public", "cluster-info", map[string]string{"kubeconfig": s.clusterInfo()})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired = true
}

// Requests are those seen so far, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Connections is how many were accepted so far.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections
}

// Authorizations is how many requests carried an Authorization header.
func (s *Server) Authorizations() int {
	n := 0
	for _, r := range s.Requests() {
		if r.Authorization {
			n++
		}
	}
	return n
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if s.opts.Delay > 0 {
		time.Sleep(s.opts.Delay)
	}
	user, groups, authenticated := s.authenticate(r)
	status, body := s.respond(r, user, groups, authenticated)
	s.mu.Lock()
	_, carried := r.Header["Authorization"]
	s.requests = append(s.requests, Request{Method: r.Method, Path: r.URL.Path, Authorization: carried, User: user, Status: status})
	s.mu.Unlock()
	h := w.Header()
	h.Set("Audit-Id", "00000000-0000-0000-0000-000000000000")
	h.Set("Cache-Control", "no-cache, private")
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that went away is no news
}
