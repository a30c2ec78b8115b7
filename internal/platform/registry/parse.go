package registry

import (
	"net"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	oras "oras.land/oras-go/v2/registry"

	"github.com/prelet/prelet/internal/fault"
)

// The schemes of references.
const (
	scheme       = "oci://"
	layoutScheme = "oci-layout:"
)

// maxReference bounds the text of a reference, in bytes.
const maxReference = 4096

// Reference names a site in a registry, or in an OCI image layout. A digest, if there is one, counts; the tag is
// only shown then.
type Reference struct {
	Host       string // of the registry, with its port
	Repository string // in the registry, as sites/gpu
	Layout     string // the folder of an OCI image layout, in place of Host and Repository
	Tag        string
	Digest     string // sha256:…
}

// IsReference reports whether a text that may be a path is a reference: it has a scheme.
func IsReference(text string) bool {
	return strings.HasPrefix(text, scheme) || strings.HasPrefix(text, layoutScheme)
}

// Parse parses HOST/REPOSITORY with :TAG or @sha256:…, with or without oci://, and oci-layout:FOLDER, where both may be
// missing if the layout has one manifest.
func Parse(text string) (Reference, error) {
	folder, isLayout := strings.CutPrefix(text, layoutScheme)
	switch {
	case len(text) > maxReference:
		return Reference{}, fault.Usage.Errorf("a reference of a site has %d bytes, at most %d are allowed",
			len(text), maxReference)
	case isLayout:
		return parseLayout(text, folder)
	}

	rest := strings.TrimPrefix(text, scheme)
	found, err := oras.ParseReference(rest)
	if err != nil || found.Reference == "" {
		return Reference{}, wrong(text)
	}
	out := Reference{Host: found.Registry, Repository: found.Repository}
	name, sum, _ := strings.Cut(rest[len(found.Registry)+1:], "@")
	out.Digest = sum
	_, out.Tag, _ = strings.Cut(name, ":")

	return out, out.check(text)
}

func parseLayout(text, folder string) (Reference, error) {
	out := Reference{}
	if at := strings.LastIndex(folder, "@"); at > strings.LastIndex(folder, "/") {
		folder, out.Digest = folder[:at], folder[at+1:]
	}
	if at := strings.LastIndex(folder, ":"); at > strings.LastIndex(folder, "/") {
		folder, out.Tag = folder[:at], folder[at+1:]
	}
	out.Layout = filepath.Clean(folder)
	if folder == "" || strings.ContainsRune(folder, 0) || strings.ContainsAny(filepath.Base(out.Layout), ":@") {
		return Reference{}, wrong(text)
	}

	return out, out.check(text)
}

// check refuses a tag and a digest that are not valid.
func (r Reference) check(text string) error {
	asTag := oras.Reference{Registry: "h", Repository: "r", Reference: r.Tag}
	sum := digest.Digest(r.Digest)
	if r.Tag != "" && asTag.ValidateReferenceAsTag() != nil ||
		r.Digest != "" && (sum.Validate() != nil || sum.Algorithm() != digest.SHA256) {
		return wrong(text)
	}

	return nil
}

func wrong(text string) error {
	return fault.Usage.Errorf("%q is not a reference of a site: write HOST/REPOSITORY:TAG, "+
		"HOST/REPOSITORY@sha256:…, or oci-layout:FOLDER:TAG", text)
}

// Name returns the reference without scheme, tag and digest.
func (r Reference) Name() string {
	if r.Layout != "" {
		return r.Layout
	}

	return r.Host + "/" + r.Repository
}

// String returns the reference as Parse reads it, with its scheme.
func (r Reference) String() string {
	text := scheme + r.Name()
	if r.Layout != "" {
		text = layoutScheme + r.Layout
	}
	if r.Tag != "" {
		text += ":" + r.Tag
	}
	if r.Digest != "" {
		text += "@" + r.Digest
	}

	return text
}

// At returns the reference of exactly one site, by its digest.
func (r Reference) At(digest string) Reference {
	r.Tag, r.Digest = "", digest

	return r
}

// isLocal reports whether a registry is on this machine.
func isLocal(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	address, err := netip.ParseAddr(strings.Trim(name, "[]"))

	return name == "localhost" || err == nil && address.IsLoopback()
}
