// Package demo is a small API server in this process, for `make demo`, tests and benchmarks: enough of Kubernetes for a
// node to verify the cluster and to read its ConfigMaps.
//
// It listens on loopback with its own CA, serves a signed kube-public/cluster-info to all, and other ConfigMaps to the
// bootstrap token and to client certificates of its CA. Nodes register and read themselves. Objects, Status responses
// and permissions are those of a kubeadm cluster. It records its requests. It has no side effects except its socket.
package demo

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options configure a server. The zero value is a cluster with a random token.
type Options struct {
	// Token is the bootstrap token. Default: a random one.
	Token string
	// Listen is the address. Default 127.0.0.1:0.
	Listen string
	// Names are additional host names or addresses of the serving certificate; it always has localhost and 127.0.0.1.
	Names []string
	// Now dates the certificates. Default time.Now.
	Now func() time.Time
	// Delay is added to each response, to simulate a network.
	Delay time.Duration
}

// Request is a request that the server received.
type Request struct {
	Method, Path  string
	Authorization bool   // it had the header, with any value
	User          string // "" if it was refused with 401
	Status        int
}

// Server is a running API server.
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
	nodesHidden bool                       // from joining nodes
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

// Start creates a CA, a certificate and cluster-info, and listens.
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

	names := []string{"localhost", "127.0.0.1", "::1", "kubernetes"}
	names = append(names, opts.Names...)
	cert, err := ca.issueServer(names)
	if err != nil {
		return nil, fmt.Errorf("demo: making a serving certificate: %w", err)
	}

	listener, err := net.Listen("tcp", opts.Listen)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	s := &Server{
		opts:     opts,
		listener: listener,
		ca:       ca,
		id:       id,
		secret:   secret,
		objects:  map[string]configMap{},
		denied:   map[string]bool{},
		nodes:    map[string]json.RawMessage{},
		version:  100,
	}
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
		ConnState:         s.countConnection,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // clients that refuse the certificate are expected
	}
	go func() { _ = s.http.ServeTLS(listener, "", "") }() // ends with ErrServerClosed
	return s, nil
}

// countConnection counts new connections.
func (s *Server) countConnection(_ net.Conn, state http.ConnState) {
	if state != http.StateNew {
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.connections++
}

// Close stops listening and ends every connection.
func (s *Server) Close() error {
	return s.http.Close()
}

// URL returns https://127.0.0.1:PORT.
func (s *Server) URL() string {
	return "https://" + s.listener.Addr().String()
}

// Token returns the bootstrap token that the server accepts.
func (s *Server) Token() string {
	return s.opts.Token
}

// CAPEM returns the cluster's CA certificate.
func (s *Server) CAPEM() []byte {
	return s.ca.pem()
}

// CAHash returns the pin of the CA, sha256:HEX.
func (s *Server) CAHash() string {
	return s.ca.hash()
}

// SetConfigMap creates or replaces a ConfigMap and gives it a new resourceVersion.
func (s *Server) SetConfigMap(namespace, name string, data map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.version++
	key := namespace + "/" + name
	made := s.opts.Now()
	old, exists := s.objects[key]
	if exists {
		made = old.made
	}
	s.objects[key] = configMap{
		version: s.version,
		made:    made,
		data:    maps.Clone(data),
	}
}

// Deny sets whether all users are denied to read a ConfigMap.
func (s *Server) Deny(namespace, name string, denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied[namespace+"/"+name] = denied
}

// SignClusterInfo sets kube-public/cluster-info, signed with the token, as the bootstrap signer does.
func (s *Server) SignClusterInfo() {
	text := s.clusterInfo()
	s.SetConfigMap("kube-public", "cluster-info", map[string]string{
		"kubeconfig":             text,
		"jws-kubeconfig-" + s.id: sign(text, s.id, s.secret),
	})
}

// ExpireToken expires the token, as the token cleaner does: it is refused, and its signature is removed from
// cluster-info. Nodes that have joined are not affected.
func (s *Server) ExpireToken() {
	unsigned := map[string]string{"kubeconfig": s.clusterInfo()}
	s.SetConfigMap("kube-public", "cluster-info", unsigned)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired = true
}

// Requests returns the requests received so far, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Connections returns the number of connections accepted so far.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections
}

// Authorizations returns the number of requests with an Authorization header.
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
	_, hasHeader := r.Header["Authorization"]
	s.requests = append(s.requests, Request{
		Method:        r.Method,
		Path:          r.URL.Path,
		Authorization: hasHeader,
		User:          user,
		Status:        status,
	})
	s.mu.Unlock()
	h := w.Header()
	h.Set("Audit-Id", "00000000-0000-0000-0000-000000000000")
	h.Set("Cache-Control", "no-cache, private")
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // it is JSON. The client may have closed the connection
}
