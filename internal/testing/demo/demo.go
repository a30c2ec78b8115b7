// Package demo is a small API server in this process, for `make demo`, tests and benchmarks: enough of Kubernetes for a
// node to verify the cluster and to read its ConfigMaps.
//
// It listens on loopback with its own CA, serves a signed kube-public/cluster-info to all, and other ConfigMaps to the
// bootstrap token and to client certificates of its CA. Nodes register and read themselves. Objects, Status responses
// and permissions are those of a kubeadm cluster. It records its requests. Tests make it misbehave (Server.Intercept,
// BadResponse). It has no side effects except its socket.
package demo

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"
)

// Token is the bootstrap token of all servers. Tests look for its secret in what may not contain it.
const (
	TokenID     = "canary"
	TokenSecret = "0canary1secret23"
	Token       = TokenID + "." + TokenSecret
)

// ServerConfig configures a server.
type ServerConfig struct {
	// Authority is the cluster's CA. Default: a new one.
	Authority *Authority
	// Delay is added to each response, to simulate a network.
	Delay time.Duration
	// PatchStatus is nodestatus.Patch, for a server whose nodes change their status; nil refuses that.
	PatchStatus func(node, patch []byte) ([]byte, error)
}

// Request is a request that the server received.
type Request struct {
	Path          string
	Authorization bool   // it had the header, with any value
	User          string // "" if it was refused with 401
}

// Server is an API server.
type Server struct {
	*httptest.Server
	*Authority

	// Intercept, if set, sees each request first, with its number from 1, and reports whether it has responded.
	Intercept func(w http.ResponseWriter, r *http.Request, n int) bool

	opts ServerConfig

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

// Start starts a server. It panics if it cannot listen, as httptest does.
func Start(opts ServerConfig) *Server {
	s := New(opts)
	s.StartTLS()

	return s
}

// New returns a server with a certificate and cluster-info whose TLS may be changed before StartTLS.
func New(opts ServerConfig) *Server {
	if opts.Authority == nil {
		opts.Authority = NewAuthority("kubernetes")
	}
	s := &Server{
		Authority: opts.Authority,
		opts:      opts,
		objects:   map[string]configMap{},
		denied:    map[string]bool{},
		nodes:     map[string]json.RawMessage{},
		version:   100,
	}
	clients := x509.NewCertPool()
	clients.AddCert(s.Cert)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.TLS = &tls.Config{
		Certificates: []tls.Certificate{s.IssueServer()},
		MinVersion:   tls.VersionTLS12,
		ClientAuth:   tls.VerifyClientCertIfGiven,
		ClientCAs:    clients,
	}
	s.Config.ConnState = s.countConnection
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that refuse the certificate are expected
	s.SignClusterInfo(s.clusterInfo())

	return s
}

func (s *Server) countConnection(_ net.Conn, state http.ConnState) {
	if state != http.StateNew {
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.connections++
}

// Close stops listening and ends every connection.
func (s *Server) Close() {
	s.CloseClientConnections()
	s.Server.Close()
}

// SetConfigMap creates or replaces a ConfigMap and gives it a new resourceVersion.
func (s *Server) SetConfigMap(namespace, name string, data map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.version++
	key := namespace + "/" + name
	made := time.Now()
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

// SetIntercept sets Intercept while requests may come.
func (s *Server) SetIntercept(respond func(w http.ResponseWriter, r *http.Request, n int) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Intercept = respond
}

// SignClusterInfo sets the kubeconfig in kube-public/cluster-info, signed with the token.
func (s *Server) SignClusterInfo(kubeconfig string) {
	s.SetConfigMap("kube-public", "cluster-info", SignInfo(kubeconfig))
}

// clusterInfo returns the kubeconfig in cluster-info.
func (s *Server) clusterInfo() string {
	return ClusterInfo("https://"+s.Listener.Addr().String(), s.CAPEM())
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
	time.Sleep(s.opts.Delay)
	user, groups, authenticated := s.authenticate(r)
	s.mu.Lock()
	_, hasHeader := r.Header["Authorization"]
	s.requests = append(s.requests, Request{
		Path:          r.URL.Path,
		Authorization: hasHeader,
		User:          user,
	})
	n := len(s.requests)
	intercept := s.Intercept
	s.mu.Unlock()
	if intercept != nil && intercept(w, r, n) {
		return
	}
	status, body := s.respond(r, user, groups, authenticated)
	write(w, status, body)
}

func write(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Audit-Id", "00000000-0000-0000-0000-000000000000")
	h.Set("Cache-Control", "no-cache, private")
	h.Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // it is JSON. The client may have closed the connection
}
