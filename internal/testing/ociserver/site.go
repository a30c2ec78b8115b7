package ociserver

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
)

// The types of a site as an artifact, as package registry has them.
const (
	ArtifactType = "application/vnd.prelet.site.v1"
	LayerType    = "application/vnd.prelet.site.layer.v1.tar"
)

// Entry is an entry of an archive.
type Entry struct {
	Name string
	Text string
	Type byte   // 0: a regular file
	Link string // its target
}

// Archive returns an archive. It panics for entries that no archive can have.
func Archive(entries ...Entry) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.Name, Typeflag: e.Type, Linkname: e.Link, Size: int64(len(e.Text)), Mode: 0o644}
		if e.Type == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err != nil {
			panic(err)
		}
		if _, err := w.Write([]byte(e.Text)); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}

	return out.Bytes()
}

// PutSite keeps a site with a layer under the tag of Reference, and returns its digest.
func PutSite(r *Registry, layer []byte) string {
	empty := []byte("{}")
	text := fmt.Sprintf(good, r.Put(Content{LayerType, layer}), len(layer), r.Put(Content{emptyType, empty}))

	return r.Put(Content{ManifestType, []byte(text)}, "stable")
}

const emptyType = "application/vnd.oci.empty.v1+json"

// good is the manifest of a site. Its first argument is the digest of the layer, the second its size, the third the
// digest of the configuration.
const good = `{"schemaVersion":2,"mediaType":"` + ManifestType + `","artifactType":"` + ArtifactType + `",` +
	`"config":{"mediaType":"` + emptyType + `","digest":"%[3]s","size":2},` +
	`"layers":[{"mediaType":"` + LayerType + `","digest":"%[1]s","size":%[2]d}]}`

// zip compresses a text of n zeros.
func zip(n int) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(make([]byte, n))
	_ = w.Close()

	return out.Bytes()
}

// many returns n files.
func many(n int) (out []Entry) {
	for i := range n {
		out = append(out, Entry{Name: fmt.Sprintf("%d.hcl", i)})
	}

	return out
}

// renamed returns an archive of one file, in whose header a name is replaced by another one of the same length.
func renamed(from, to string) []byte {
	text := Archive(Entry{Name: from})
	var sum int
	copy(text, to)
	copy(text[148:], "        ") // the place of the checksum counts as spaces
	for _, b := range text[:512] {
		sum += int(b)
	}
	copy(text[148:], fmt.Sprintf("%06o\x00 ", sum))

	return text
}

// sparse returns an archive of one file that claims 10 GB, of which the archive has none.
func sparse() []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "a.hcl", Size: 10 << 30, Mode: 0o644})

	return append(out.Bytes(), make([]byte, 1024)...)
}
