// Package registry stores sites in OCI registries and in OCI image layouts, which are folders, and gets them from
// there. A site is an artifact of one layer: a flat tar of the files of one folder. Its digest depends on them only.
//
// A server is not trusted: its content is bounded in size and time, and compared with its digest. Signatures are
// for the caller to check. The package must not write files, except for Push into a layout.
//
// Start with Client.Pull; parse.go has references, archive.go the layer, transport.go the bounds of HTTP.
package registry

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"

	"github.com/prelet/prelet/internal/fault"
)

// The types of a site as an artifact.
const (
	ArtifactType = "application/vnd.prelet.site.v1"
	LayerType    = "application/vnd.prelet.site.layer.v1.tar"
)

// The bounds of an artifact. The sizes are in bytes.
const (
	MaxManifest = 64 << 10
	MaxLayer    = 4 << 20
	MaxFiles    = 512
)

const (
	defaultPatience = 15 * time.Second
	defaultTotal    = 2 * time.Minute
)

// Client pulls and pushes sites. The zero value asks registries without credentials.
type Client struct {
	Roots *x509.CertPool // the CAs of registries; nil: those of the system
	// Proxy returns the proxy for a request; nil: there is none.
	Proxy func(*http.Request) (*url.URL, error)
	// Credential returns the password for a repository, "" for none. With the user IdentityToken it is such a token.
	// nil: there is none.
	Credential  Credential
	Passwords   string // the place of passwords, for messages
	Authorities string // where a caller names another CA, for messages
	PlainHTTP   bool   // without TLS, which only a registry on this machine may use

	// Dial connects to a registry; nil: as package net does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	Patience time.Duration // for the headers of a response, and for each next part of a body; 0 is 15 s
	Total    time.Duration // for a call; 0 is 2 minutes
}

// Credential finds the password for a repository of a host.
type Credential func(ctx context.Context, host, repository string) (user, password string, err error)

// Artifact is a site that was pulled.
type Artifact struct {
	Digest string // of the manifest
	Files  []File // by name
}

// File is a file of a site. Its name has no folder.
type File struct {
	Name string
	Text []byte
}

// source is where artifacts are.
type source interface {
	Resolve(ctx context.Context, tagOrDigest string) (ocispec.Descriptor, error)
	Fetch(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error)
}

// refusal is the error of content that is not a site, or not the site that was named.
type refusal struct{ why string }

func (r refusal) Error() string { return r.why }

func refuse(format string, args ...any) error { return refusal{fmt.Sprintf(format, args...)} }

// Resolve returns the digest that a reference has now.
func (c *Client) Resolve(ctx context.Context, ref Reference) (string, error) {
	var found ocispec.Descriptor
	err := c.call(ctx, "look up", ref, func(ctx context.Context, s *session) (err error) {
		found, err = resolve(ctx, s.source(ref), ref)
		return err
	})

	return found.Digest.String(), err
}

// Pull returns the site of a reference. It resolves a tag first, and then gets the content by digest.
func (c *Client) Pull(ctx context.Context, ref Reference) (*Artifact, error) {
	out := &Artifact{}
	err := c.call(ctx, "pull", ref, func(ctx context.Context, s *session) error {
		from := s.source(ref)
		found, err := resolve(ctx, from, ref)
		if err != nil {
			return err
		}
		text, err := read(ctx, from, found)
		if err != nil {
			return fmt.Errorf("manifest: %w", err)
		}
		layer, err := findLayer(text)
		if err != nil {
			return err
		}
		archive, err := read(ctx, from, layer)
		if err != nil {
			return fmt.Errorf("layer: %w", err)
		}
		out.Digest = found.Digest.String()
		out.Files, err = unpack(archive)

		return err
	})
	if err != nil {
		return nil, err
	}

	return out, nil
}

// Push stores files as the site of a reference with a tag, and returns its digest: the same files have the same digest.
func (c *Client) Push(ctx context.Context, ref Reference, files []File) (string, error) {
	if ref.Tag == "" || ref.Digest != "" {
		return "", fault.Usage.Errorf("%s: a site is pushed to a tag: %s:TAG", ref, ref.Name())
	}

	var pushed ocispec.Descriptor
	err := c.call(ctx, "push", ref, func(ctx context.Context, s *session) error {
		archive, err := pack(files)
		if err != nil {
			return err
		}
		if ref.Layout != "" {
			pushed, err = layout{ref.Layout}.push(ctx, ref.Tag, archive)
		} else {
			pushed, err = push(ctx, s.repo, ref.Tag, archive)
		}

		return err
	})

	return pushed.Digest.String(), err
}

func push(ctx context.Context, to oras.Target, tag string, archive []byte) (ocispec.Descriptor, error) {
	layer := content.NewDescriptorFromBytes(LayerType, archive)
	has, err := to.Exists(ctx, layer)
	if err == nil && !has {
		_, err = oras.PushBytes(ctx, to, LayerType, archive)
	}
	if err != nil {
		return ocispec.Descriptor{}, err
	}

	made, err := oras.PackManifest(ctx, to, oras.PackManifestVersion1_1, ArtifactType, oras.PackManifestOptions{
		Layers:              []ocispec.Descriptor{layer},
		ManifestAnnotations: map[string]string{ocispec.AnnotationCreated: noTime.Format(time.RFC3339)},
	})
	if err != nil {
		return ocispec.Descriptor{}, err
	}

	return made, to.Tag(ctx, made, tag)
}

// call runs one call within its time, and returns its error as a fault.
func (c *Client) call(ctx context.Context, verb string, ref Reference, f func(context.Context, *session) error) error {
	total := c.Total
	if total == 0 {
		total = defaultTotal
	}
	ctx, cancel := context.WithTimeoutCause(ctx, total, &stalledError{total})
	defer cancel()

	s, err := c.open(ref)
	if err != nil {
		return err
	}
	defer s.close()

	err = f(ctx, s)
	var stalled *stalledError
	if err != nil && errors.As(context.Cause(ctx), &stalled) {
		err = stalled
	}

	return s.describe(verb, ref, err)
}

// resolve returns the descriptor of a manifest that can be one of a site.
func resolve(ctx context.Context, from source, ref Reference) (ocispec.Descriptor, error) {
	name := ref.Tag
	if ref.Digest != "" {
		name = ref.Digest
	}
	found, err := from.Resolve(ctx, name)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	if ref.Digest != "" && found.Digest.String() != ref.Digest {
		return ocispec.Descriptor{}, refuse("it has the digest %s", found.Digest)
	}

	return found, check(found, ocispec.MediaTypeImageManifest, MaxManifest)
}

func findLayer(manifest []byte) (none ocispec.Descriptor, err error) {
	var m ocispec.Manifest
	if err := json.Unmarshal(manifest, &m); err != nil {
		return none, refuse("the manifest is not JSON of an image manifest: %s", err)
	}

	switch {
	case m.MediaType != "" && m.MediaType != ocispec.MediaTypeImageManifest:
		return none, refuse("the manifest calls itself %q", m.MediaType)
	case m.ArtifactType != ArtifactType:
		return none, refuse("its artifact type is %q, and that of a site is %s", m.ArtifactType, ArtifactType)
	case len(m.Layers) != 1:
		return none, refuse("it has %d layers, and a site has one", len(m.Layers))
	}

	return m.Layers[0], check(m.Layers[0], LayerType, MaxLayer)
}

// check refuses a descriptor of another type, above a size, or whose digest cannot be verified.
func check(d ocispec.Descriptor, mediaType string, most int64) error {
	switch {
	case d.MediaType != mediaType:
		return refuse("it has %q where a site has %s", d.MediaType, mediaType)
	case d.Size < 0 || d.Size > most:
		return refuse("%s has %d bytes, and may have at most %d", mediaType, d.Size, most)
	case d.Digest.Validate() != nil || d.Digest.Algorithm() != digest.SHA256:
		return refuse("the digest %q is not a sha256 one", d.Digest)
	}

	return nil
}

// read returns the content of a descriptor that was checked.
func read(ctx context.Context, from source, d ocispec.Descriptor) ([]byte, error) {
	body, err := from.Fetch(ctx, d)
	if err != nil {
		return nil, err
	}
	defer body.Close()

	return content.ReadAll(body, d)
}
