package ociserver

import (
	"archive/tar"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/fault"
)

const year = "31536000" // seconds

// Manners returns the manners of hostile registries.
func Manners() (all []Manner) {
	for _, group := range [][]Manner{timeManners(), statusManners(), tokenManners(), redirectManners(), bodyManners(),
		manifestManners(), archiveManners()} {
		all = append(all, group...)
	}
	for i := range all {
		if all[i].Code == "" {
			all[i].Code = fault.Registry
		}
	}

	return all
}

func timeManners() []Manner {
	const late = "did not answer within"
	hang := (*Exchange).hang

	return []Manner{
		{Name: "hangs before headers", Text: late, handle: func(x *Exchange) { <-x.Request.Context().Done() }},
		{Name: "hangs before the manifest's headers", Text: late, handle: onManifest(func(x *Exchange) {
			<-x.Request.Context().Done()
		})},
		{Name: "hangs after the manifest's headers", Text: late, handle: onManifest(func(x *Exchange) {
			x.send(func(Content, io.Writer) { hang(x) })
		})},
		{Name: "hangs in the manifest", Text: late, handle: onManifest(func(x *Exchange) {
			x.send(func(c Content, w io.Writer) { _, _ = w.Write(c.Text[:9]); hang(x) })
		})},
		{Name: "hangs before the layer's headers", Text: late, handle: onLayer(func(x *Exchange) {
			<-x.Request.Context().Done()
		})},
		{Name: "hangs in the layer", Text: late, handle: onLayer(func(x *Exchange) {
			x.send(func(c Content, w io.Writer) { _, _ = w.Write(c.Text[:9]); hang(x) })
		})},
		{Name: "hangs after the layer", Text: late, handle: onLayer(func(x *Exchange) {
			x.send(func(c Content, w io.Writer) { _, _ = w.Write(c.Text); hang(x) })
		})},
		{Name: "one byte at a time", Text: late, handle: onLayer(func(x *Exchange) {
			x.send(func(_ Content, w io.Writer) { x.endless(w, "x", 100*time.Millisecond) })
		})},
	}
}

func statusManners() []Manner {
	return []Manner{
		{Name: "404", Text: "does not exist", handle: answers(http.StatusNotFound)},
		{Name: "404 for the layer", Text: "does not exist", handle: onLayer(answers(http.StatusNotFound))},
		{Name: "403", Code: fault.RegistryDenied, Text: "HTTP 403", handle: answers(http.StatusForbidden)},
		{Name: "403 for the layer", Code: fault.RegistryDenied, Text: "HTTP 403",
			handle: onLayer(answers(http.StatusForbidden))},
		{Name: "500", Text: "HTTP 500", handle: answers(http.StatusInternalServerError)},
		{Name: "500 for the layer", Text: "HTTP 500", handle: onLayer(answers(http.StatusInternalServerError))},
		{Name: "503 for a year", Text: "HTTP 503",
			handle: answers(http.StatusServiceUnavailable, "Retry-After", year)},
		{Name: "429", Text: "HTTP 429", handle: answers(http.StatusTooManyRequests)},
		{Name: "429 for a year", Text: "HTTP 429", handle: answers(http.StatusTooManyRequests, "Retry-After", year)},
		{Name: "204", Text: "HTTP 204", handle: answers(http.StatusNoContent)},
		{Name: "206 for the layer", Text: "HTTP 206", handle: onLayer(answers(http.StatusPartialContent))},
		{Name: "999", Text: "HTTP 999", handle: answers(999)},
		{Name: "401 for ever", Code: fault.RegistryDenied, Text: "HTTP 401",
			handle: answers(http.StatusUnauthorized, "WWW-Authenticate", `Basic realm="r"`)},
		{Name: "401 without a challenge", Code: fault.RegistryDenied, Text: "HTTP 401",
			handle: answers(http.StatusUnauthorized)},
		{Name: "401 with an unknown challenge", Code: fault.RegistryDenied, Text: "HTTP 401",
			handle: answers(http.StatusUnauthorized, "WWW-Authenticate", `Negotiate "`)},
		{Name: "repeats the password", Code: fault.RegistryDenied, Text: "HTTP 403", handle: func(x *Exchange) {
			switch {
			case x.Request.Header.Get("Authorization") == "":
				x.status(http.StatusUnauthorized, "WWW-Authenticate", `Basic realm="r"`)
			case x.isBody():
				x.status(http.StatusForbidden)
			default:
				x.Behave()
			}
		}},
	}
}

func tokenManners() []Manner {
	const realm = "https://HOST/token"

	return []Manner{
		{Name: "token: hangs", Text: "did not answer within", handle: asks(realm, func(x *Exchange) {
			<-x.Request.Context().Done()
		})},
		{Name: "token: 401", Code: fault.RegistryDenied, Text: "HTTP 401",
			handle: asks(realm, answers(http.StatusUnauthorized))},
		{Name: "token: 403", Code: fault.RegistryDenied, Text: "HTTP 403",
			handle: asks(realm, answers(http.StatusForbidden))},
		{Name: "token: 500", Text: "HTTP 500", handle: asks(realm, answers(http.StatusInternalServerError))},
		{Name: "token: endless", Text: "pull oci", handle: asks(realm, func(x *Exchange) {
			_, _ = io.WriteString(x, `{"token":"`)
			x.endless(x, strings.Repeat("x", 4096), 0)
		})},
		{Name: "token: empty", Text: "empty token", handle: asks(realm, gives(`{"token":""}`))},
		{Name: "token: not JSON", Text: "decode", handle: asks(realm, gives("<html>"))},
		{Name: "token: not accepted", Code: fault.RegistryDenied, Text: "HTTP 401",
			handle: asks(realm, gives(`{"token":"canary-token"}`))},
		{Name: "token: with a line break", Text: "invalid header", handle: asks(realm, gives(`{"token":"a\r\nb: c"}`))},
		{Name: "token: without TLS", Text: "http", handle: asks("http://HOST/token", gives("{}"))},
		{Name: "token: in a file", Text: "unsupported scheme", handle: asks("file:///etc/passwd", gives("{}"))},
		{Name: "token: no realm", Text: "pull oci", handle: asks("", gives("{}"))},
		{Name: "token: at the metadata service", Text: "blocked",
			handle: asks("https://169.254.169.254/x", gives("{}"))},
		{Name: "token: redirects", Text: "redirects to", handle: asks(realm, redirects("https://ELSEWHERE/token"))},
	}
}

func redirectManners() []Manner {
	return []Manner{
		{Name: "redirects all", Text: "redirects to", handle: onAll(redirects("https://ELSEWHEREPATH"))},
		{Name: "redirects the manifest", Text: "redirects to", handle: onManifest(redirects("https://ELSEWHEREPATH"))},
		{Name: "redirects the manifest to itself", Text: "redirects to", handle: onManifest(redirects("PATH"))},
		{Name: "redirects the layer without TLS", Text: "without TLS",
			handle: onLayer(redirects("http://ELSEWHERE/a"))},
		{Name: "redirects the layer to itself", Text: "in a circle", handle: onLayer(redirects("PATH"))},
		{Name: "redirects the layer for ever", Text: "more than 5 times",
			handle: onLayer(redirects("https://ELSEWHERE/next/"))},
		{Name: "redirects the layer to a file", Text: "without TLS", handle: onLayer(redirects("file:///etc/passwd"))},
		{Name: "redirects the layer nowhere", Text: "HTTP 307", handle: onLayer(redirects(""))},
		{Name: "redirects the layer to what hangs", Text: "did not answer",
			handle: onLayer(redirects("https://ELSEWHERE/hang"))},
		{Name: "redirects the layer to something else", Text: "pull oci",
			handle: onLayer(redirects("https://ELSEWHERE/a?X-Signature=canary-signature"))},
	}
}

func bodyManners() []Manner {
	another := func(c Content) []byte {
		text := []byte(strings.Repeat("x", len(c.Text)))
		return text
	}
	const head = "HTTP/1.1 200 OK\r\n"

	return []Manner{
		{Name: "another manifest", Text: "not that of its digest", handle: onManifest(func(x *Exchange) {
			x.send(func(c Content, w io.Writer) { _, _ = w.Write(another(c)) })
		})},
		{Name: "another layer", Text: "not that of its digest", handle: onLayer(func(x *Exchange) {
			x.send(func(c Content, w io.Writer) { _, _ = w.Write(another(c)) })
		})},
		{Name: "half a manifest", Text: "EOF", handle: onManifest(func(x *Exchange) {
			x.Header().Set("Content-Length", strconv.Itoa(len(x.content().Text)))
			x.send(func(c Content, w io.Writer) { _, _ = w.Write(c.Text[:len(c.Text)/2]) })
		})},
		{Name: "half a layer", Text: "EOF", handle: onLayer(func(x *Exchange) {
			x.Header().Set("Content-Length", strconv.Itoa(len(x.content().Text)))
			x.send(func(c Content, w io.Writer) { _, _ = w.Write(c.Text[:9]) })
		})},
		{Name: "a longer layer", Text: "not that of its digest", handle: onLayer(func(x *Exchange) {
			x.send(func(c Content, w io.Writer) { _, _ = w.Write(append(c.Text, 'x')) })
		})},
		{Name: "an endless manifest", Text: "not that of its digest", handle: onManifest(func(x *Exchange) {
			x.send(func(c Content, w io.Writer) { x.endless(w, strings.Repeat("x", 1<<16), 0) })
		})},
		{Name: "an endless layer", Text: "not that of its digest", handle: onLayer(func(x *Exchange) {
			x.send(func(c Content, w io.Writer) { x.endless(w, strings.Repeat("x", 1<<16), 0) })
		})},
		{Name: "a compressed layer", Text: "pull oci", handle: onLayer(func(x *Exchange) {
			x.Header().Set("Content-Encoding", "gzip")
			x.send(func(_ Content, w io.Writer) { _, _ = w.Write(zip(64 << 20)) })
		})},
		{Name: "a length of 10 GB", Text: "has 10000000000 bytes", handle: func(x *Exchange) {
			x.Header().Set("Content-Length", "10000000000")
			x.Header().Set("Docker-Content-Digest", Digest(nil))
			x.send(func(Content, io.Writer) {})
		}},
		{Name: "no digest", Text: "pull oci", handle: func(x *Exchange) {
			x.Header().Set("Content-Length", "9")
			x.send(func(Content, io.Writer) {})
		}},
		{Name: "no length", Text: "Content-Length", handle: func(x *Exchange) {
			x.Header().Set("Transfer-Encoding", "chunked")
			x.Header().Set("Docker-Content-Digest", Digest(nil))
			x.send(func(Content, io.Writer) {})
		}},
		{Name: "a wrong digest", Text: "pull oci", handle: on((*Exchange).IsManifest, func(x *Exchange) {
			c := x.content()
			c.Text = append(c.Text, ' ')
			Send(x.ResponseWriter, x.Request, c)
		})},
		{Name: "a digest that is none", Text: "pull oci", handle: func(x *Exchange) {
			x.Header().Set("Docker-Content-Digest", "sha256:../../etc/passwd")
			x.Header().Set("Content-Length", "9")
			x.send(func(Content, io.Writer) {})
		}},
		{Name: "a tag that flips", Text: "pull oci", handle: onManifest(func(x *Exchange) {
			PutSite(x.Good, Archive(Entry{Name: "other.hcl"}))
			c, _ := x.Good.Get("stable")
			Send(x.ResponseWriter, x.Request, c)
		})},
		{Name: "no type", Text: "pull oci", handle: on((*Exchange).IsManifest, func(x *Exchange) {
			c := x.content()
			c.Type = ""
			Send(x.ResponseWriter, x.Request, c)
		})},
		{Name: "headers of 1 MB", Text: "pull oci", handle: func(x *Exchange) {
			x.status(http.StatusOK, "X", strings.Repeat("x", 1<<20))
		}},
		{Name: "endless headers", Text: "pull oci", handle: func(x *Exchange) {
			x.raw(head, func(w io.Writer) { x.endless(w, "X: "+strings.Repeat("x", 4096)+"\r\n", 0) })
		}},
		{Name: "endless 103", Text: "pull oci", handle: func(x *Exchange) {
			x.raw("", func(w io.Writer) { x.endless(w, "HTTP/1.1 103 Early Hints\r\n\r\n", 0) })
		}},
		{Name: "not HTTP", Text: "malformed", handle: func(x *Exchange) { x.raw("SSH-2.0-OpenSSH_9.6\r\n", nil) }},
		{Name: "hangs up", Text: "EOF", handle: func(x *Exchange) { x.raw("", nil) }},
		{Name: "hangs up in the headers", Text: "EOF", handle: func(x *Exchange) { x.raw(head+"X: ", nil) }},
		{Name: "no TLS", isPlain: true, Text: "HTTP response to HTTPS", handle: (*Exchange).Behave},
		{Name: "another name in its certificate", host: "localhost", Text: "certificate", handle: (*Exchange).Behave},
	}
}

func manifestManners() []Manner {
	const index = "application/vnd.oci.image.index.v1+json"
	const docker = "application/vnd.docker.distribution.manifest.v2+json"
	head := `{"mediaType":"` + ManifestType + `","artifactType":"` + ArtifactType + `","layers":[`
	one := func(mediaType, digest, size string) string {
		return `{"mediaType":"` + mediaType + `","digest":"` + digest + `","size":` + size + `}`
	}
	const sum, size = "SUM", "SIZE"
	real := one(LayerType, sum, size)

	return []Manner{
		{Name: "index", Text: index, handle: ofType(index, `{"manifests":[`+one(ManifestType, Digest(nil), "2")+`]}`)},
		{Name: "index of indexes", Text: index,
			handle: ofType(index, `{"manifests":[`+one(index, Digest(nil), "2")+`]}`)},
		{Name: "image of docker", Text: docker, handle: ofType(docker, head+`]}`)},
		{Name: "web page", Text: "text/html", handle: ofType("text/html", "<html>")},
		{Name: "another type inside", Text: index, handle: manifest(`{"mediaType":"` + index + `"}`)},
		{Name: "an image", Text: "artifact type", handle: manifest(`{"layers":[` + real + `]}`)},
		{Name: "another artifact type", Text: "application/x", handle: manifest(`{"artifactType":"application/x"}`)},
		{Name: "no layer", Text: "0 layers", handle: manifest(head + `]}`)},
		{Name: "two layers", Text: "2 layers", handle: manifest(head + real + "," + real + `]}`)},
		{Name: "a million layers", Text: "bytes", handle: manifest(head + strings.Repeat("{},", 1e6) + `{}]}`)},
		{Name: "a layer of another type", Text: "application/x",
			handle: manifest(head + one("application/x", sum, size) + `]}`)},
		{Name: "a layer of 10 GB", Text: "10000000000 bytes",
			handle: manifest(head + one(LayerType, sum, "10000000000") + `]}`)},
		{Name: "a layer of -1 bytes", Text: "-1 bytes", handle: manifest(head + one(LayerType, sum, "-1") + `]}`)},
		{Name: "a layer of 1e99 bytes", Text: "not JSON", handle: manifest(head + one(LayerType, sum, "1e99") + `]}`)},
		{Name: "a smaller layer", Text: "Content-Length", handle: manifest(head + one(LayerType, sum, "9") + `]}`)},
		{Name: "a layer with MD5", Text: "not a sha256", handle: manifest(head +
			one(LayerType, "md5:d41d8cd98f00b204e9800998ecf8427e", size) + `]}`)},
		{Name: "a layer with SHA-512", Text: "not a sha256", handle: manifest(head +
			one(LayerType, "sha512:"+strings.Repeat("0a", 64), size) + `]}`)},
		{Name: "a layer above", Text: "not a sha256", handle: manifest(head +
			one(LayerType, "sha256:../../../etc/passwd", size) + `]}`)},
		{Name: "a layer that is missing", Text: "does not exist", handle: manifest(head +
			one(LayerType, Digest([]byte("no")), size) + `]}`)},
		{Name: "not JSON", Text: "not JSON", handle: manifest("<html>")},
		{Name: "JSON of a list", Text: "not JSON", handle: manifest("[]")},
		{Name: "JSON of null", Text: "artifact type", handle: manifest("null")},
		{Name: "deep JSON", Text: "not JSON", handle: manifest(strings.Repeat("[", 60_000))},
		{Name: "a manifest of 1 MB", Text: "bytes", handle: manifest(strings.Repeat(" ", 1<<20) + "{}")},
	}
}

func archiveManners() []Manner {
	const notPlain = "not the plain name"
	const notRegular = "not a regular file"

	return []Manner{
		{Name: "archive: above", Text: notPlain, handle: archive(Entry{Name: "../a.hcl"})},
		{Name: "archive: two dots", Text: notPlain, handle: archive(Entry{Name: ".."})},
		{Name: "archive: absolute", Text: notPlain, handle: archive(Entry{Name: "/etc/passwd"})},
		{Name: "archive: below", Text: notPlain, handle: archive(Entry{Name: "a/b.hcl"})},
		{Name: "archive: backslash", Text: notPlain, handle: archive(Entry{Name: `a\b.hcl`})},
		{Name: "archive: dotfile", Text: notPlain, handle: archive(Entry{Name: ".prelet.hcl"})},
		{Name: "archive: control character", Text: notPlain, handle: archive(Entry{Name: "a\x1b[2J.hcl"})},
		{Name: "archive: line break", Text: notPlain, handle: archive(Entry{Name: "a\nb.hcl"})},
		{Name: "archive: turned text", Text: notPlain, handle: archive(Entry{Name: "a\u202eb.hcl"})},
		{Name: "archive: not UTF-8", Text: notPlain, handle: layer(renamed("aa.hcl", "\xff\xfe.hcl"))},
		{Name: "archive: NUL", Text: notPlain, handle: layer(renamed("aa.hcl", "\x00a.hcl"))},
		{Name: "archive: long name", Text: notPlain, handle: archive(Entry{Name: strings.Repeat("a", 4096)})},
		{Name: "archive: link", Text: notRegular,
			handle: archive(Entry{Name: "a.hcl", Type: tar.TypeSymlink, Link: "/etc"})},
		{Name: "archive: hard link", Text: notRegular,
			handle: archive(Entry{Name: "a.hcl", Type: tar.TypeLink, Link: "b"})},
		{Name: "archive: device", Text: notRegular, handle: archive(Entry{Name: "a.hcl", Type: tar.TypeBlock})},
		{Name: "archive: terminal", Text: notRegular, handle: archive(Entry{Name: "a.hcl", Type: tar.TypeChar})},
		{Name: "archive: FIFO", Text: notRegular, handle: archive(Entry{Name: "a.hcl", Type: tar.TypeFifo})},
		{Name: "archive: folder", Text: notPlain, handle: archive(Entry{Name: "a/", Type: tar.TypeDir})},
		{Name: "archive: twice", Text: "twice", handle: archive(Entry{Name: "a.hcl"}, Entry{Name: "a.hcl", Text: "x"})},
		{Name: "archive: 8,000 files", Text: "more than 512 files", handle: archive(many(8000)...)},
		{Name: "archive: a million files", Text: "at most", handle: archive(many(10_000)...)},
		{Name: "archive: 10 GB in nothing", Text: "more than its layer", handle: layer(sparse())},
		{Name: "archive: no files", Text: "no files", handle: archive()},
		{Name: "archive: no bytes", Text: "no files", handle: layer(nil)},
		{Name: "archive: not an archive", Text: "not a tar", handle: layer([]byte(strings.Repeat("x", 4096)))},
		{Name: "archive: a gzip bomb", Text: "not a tar", handle: layer(zip(64 << 20))},
		{Name: "archive: cut off", Text: "ends within",
			handle: layer(Archive(Entry{Name: "a.hcl", Text: strings.Repeat("x", 1500)})[:1600])},
	}
}
