// Package ociserver has registries in memory for tests: a good registry, and one for each way in which a registry can
// do harm.
//
// Start with Registry; hostile.go has Manners.
package ociserver

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// ManifestType is the media type of an image manifest.
const ManifestType = "application/vnd.oci.image.manifest.v1+json"

func Digest(text []byte) string {
	sum := sha256.Sum256(text)

	return "sha256:" + hex.EncodeToString(sum[:])
}

// Content is a blob or a manifest.
type Content struct {
	Type string
	Text []byte
}

// Registry is a registry in memory, which has all its content in each repository. It is an http.Handler.
type Registry struct {
	User, Password string // "": it asks for none

	mu   sync.Mutex
	kept map[string]Content // by digest, and by tag
}

// Put keeps a content under its digest and under names, and returns the digest.
func (r *Registry) Put(c Content, names ...string) string {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.kept == nil {
		r.kept = map[string]Content{}
	}
	digest := Digest(c.Text)
	for _, name := range append(names, digest) {
		r.kept[name] = c
	}

	return digest
}

// Get returns the content of a digest or a tag.
func (r *Registry) Get(name string) (Content, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.kept[name]

	return c, ok
}

// ServeHTTP answers as the distribution specification says.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if user, password, _ := req.BasicAuth(); r.User != "" && (user != r.User || password != r.Password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="r"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}

	path := req.URL.Path
	name := path[strings.LastIndex(path, "/")+1:]
	switch req.Method {
	case http.MethodPost:
		w.Header().Set("Location", path+"upload")
		w.WriteHeader(http.StatusAccepted)
	case http.MethodPut:
		r.receive(w, req, name)
	default:
		c, ok := r.Get(name)
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		Send(w, req, c)
	}
}

// receive keeps a blob or a manifest.
func (r *Registry) receive(w http.ResponseWriter, req *http.Request, name string) {
	text, err := io.ReadAll(req.Body)
	want := req.URL.Query().Get("digest")
	isManifest := strings.Contains(req.URL.Path, "/manifests/")
	if err != nil || !isManifest && want != Digest(text) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}

	c := Content{req.Header.Get("Content-Type"), text}
	if isManifest {
		r.Put(c, name)
	} else {
		r.Put(c)
	}
	w.Header().Set("Docker-Content-Digest", Digest(text))
	w.WriteHeader(http.StatusCreated)
}

// Send sends a content with the headers of a registry.
func Send(w http.ResponseWriter, req *http.Request, c Content) {
	w.Header().Set("Content-Type", c.Type)
	w.Header().Set("Docker-Content-Digest", Digest(c.Text))
	w.Header().Set("Content-Length", strconv.Itoa(len(c.Text)))
	if req.Method != http.MethodHead {
		_, _ = w.Write(c.Text) // a client that hangs up has read enough
	}
}
