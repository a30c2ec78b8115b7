package boot

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// registry is a registry that has an image for each name and tag.
type registry struct {
	t     *testing.T
	url   string
	layer []byte

	mu    sync.Mutex
	blobs map[string][]byte // by digest
	asked []string          // the manifests, as NAME:TAG
}

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar"
)

// newRegistry serves images that sleep. busybox is the path of their only program, a static one.
func newRegistry(t *testing.T, address, busybox string) *registry {
	t.Helper()
	program, err := os.ReadFile(busybox)
	must(t, err)

	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	must(t, w.WriteHeader(&tar.Header{Name: "busybox", Mode: 0o755, Size: int64(len(program))}))
	if _, err := w.Write(program); err != nil {
		t.Fatal(err)
	}
	must(t, w.Close())

	r := &registry{t: t, layer: layer.Bytes(), blobs: map[string][]byte{}}
	l, err := net.Listen("tcp", address)
	must(t, err)
	server := &http.Server{Handler: r}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	r.url = "http://" + l.Addr().String()

	return r
}

// makeManifest makes the image of a name and tag, which differs from all others, and returns its manifest.
func (r *registry) makeManifest(reference string) []byte {
	config := encode(r.t, map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config": map[string]any{
			"Entrypoint": []string{"/busybox", "sleep", "86400"},
			"Labels":     map[string]string{"reference": reference},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(r.layer)}},
	})
	manifest := encode(r.t, map[string]any{
		"schemaVersion": 2,
		"mediaType":     manifestType,
		"config":        r.add(configType, config),
		"layers":        []any{r.add(layerType, r.layer)},
	})
	r.add(manifestType, manifest)

	return manifest
}

// add keeps a blob and returns its descriptor.
func (r *registry) add(kind string, blob []byte) map[string]any {
	r.blobs[digest(blob)] = blob

	return map[string]any{"mediaType": kind, "digest": digest(blob), "size": len(blob)}
}

// ServeHTTP answers GET and HEAD of manifests and blobs: /v2/NAME/manifests/TAG, /v2/NAME/blobs/DIGEST.
func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()

	path := strings.TrimPrefix(q.URL.Path, "/v2/")
	body, kind := []byte("{}"), "application/json"
	if name, tag, isManifest := strings.Cut(path, "/manifests/"); isManifest {
		r.asked = append(r.asked, name+":"+tag)
		kind = manifestType
		if body = r.blobs[tag]; body == nil { // not a digest
			body = r.makeManifest(name + ":" + tag)
		}
	} else if _, blob, isBlob := strings.Cut(path, "/blobs/"); isBlob {
		body, kind = r.blobs[blob], "application/octet-stream"
	}
	if body == nil {
		http.NotFound(w, q)
		return
	}

	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Docker-Content-Digest", digest(body))
	if q.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// hasAsked reports whether the manifest of a name and tag was requested.
func (r *registry) hasAsked(reference string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	return slices.Contains(r.asked, reference)
}

func digest(blob []byte) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256(blob))
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)

	return text
}
