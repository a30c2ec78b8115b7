package registry

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/testing/ociserver"
)

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// serve starts a registry with TLS, and returns a client that trusts it, and its host.
func serve(t *testing.T, r http.Handler) (*Client, string) {
	t.Helper()
	s := httptest.NewUnstartedServer(r)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())

	return &Client{Roots: roots}, strings.TrimPrefix(s.URL, "https://")
}

func aSite() []File {
	return []File{
		{"b.hcl", []byte("locals {\n  b = 1\n}\n")},
		{"a.hcl", []byte("locals {\n  a = \"ä\"\n}\n")},
		{"empty.tftpl", []byte{}},
	}
}

// places returns references of a registry and of a layout, with a client for both.
func places(t *testing.T) (*Client, []string) {
	t.Helper()
	c, host := serve(t, &ociserver.Registry{User: "u", Password: "canary-password"})
	c.Credential = func(context.Context, string, string) (string, string, error) { return "u", "canary-password", nil }

	return c, []string{host + "/sites/gpu:stable", "oci-layout:" + filepath.Join(t.TempDir(), "out") + ":stable"}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	c, refs := places(t)
	first := ""
	for _, text := range refs {
		ref := must[Reference](t)(Parse(text))
		digest := must[string](t)(c.Push(t.Context(), ref, aSite()))
		files := aSite()
		slices.Reverse(files)
		again := must[string](t)(c.Push(t.Context(), ref, files))
		found := must[string](t)(c.Resolve(t.Context(), ref))
		if first == "" {
			first = digest
		}
		if again != digest || found != digest || first != digest {
			t.Errorf("%s: got the digests %s, %s and %s, want all to be %s", ref, digest, again, found, first)
		}

		want := aSite()
		want[0], want[1] = want[1], want[0] // by name
		for _, ref := range []Reference{ref, ref.At(digest), must[Reference](t)(Parse(ref.String() + "@" + digest))} {
			got := must[*Artifact](t)(c.Pull(t.Context(), ref))
			if got.Digest != digest || !reflect.DeepEqual(got.Files, want) {
				t.Errorf("pull %s: got %s %q, want %s %q", ref, got.Digest, got.Files, digest, want)
			}
		}

		other := must[string](t)(c.Push(t.Context(), ref, aSite()[:1]))
		if got := must[string](t)(c.Resolve(t.Context(), ref)); got != other || other == digest {
			t.Errorf("%s: got %s after a push of %s, want that; before it was %s", ref, got, other, digest)
		}
		if got := must[*Artifact](t)(c.Pull(t.Context(), ref.At(digest))); len(got.Files) != 3 {
			t.Errorf("%s: got %d files by the first digest, want 3", ref, len(got.Files))
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	c, refs := places(t)
	denied := *c
	denied.Credential = func(context.Context, string, string) (string, string, error) { return "u", "canary-wrong", nil }
	anonymous := *c
	anonymous.Credential = nil
	untrusting := *c
	untrusting.Roots, untrusting.Authorities = nil, "ca_file there"
	plain := *c
	plain.PlainHTTP = true
	ended, end := context.WithCancel(t.Context())
	end()
	layout := t.TempDir()

	for _, row := range []struct {
		name string
		c    *Client
		ctx  context.Context
		ref  string
		code fault.Code
		text string
	}{
		{"no tag", c, nil, refs[0], fault.Registry, "does not exist"},
		{"no layout", c, nil, refs[1], fault.Registry, "no such file"},
		{"empty layout", c, nil, "oci-layout:" + layout, fault.Registry, "no such file"},
		{"wrong password", &denied, nil, refs[0], fault.RegistryDenied, "HTTP 401"},
		{"no password", &anonymous, nil, refs[0], fault.RegistryDenied, "none is known"},
		{"unknown CA", &untrusting, nil, refs[0], fault.Registry, "Name the CA of this registry: ca_file there"},
		{"no server", c, nil, "127.0.0.1:1/a/b:c", fault.Registry, "refused"},
		{"plain HTTP to TLS", &plain, nil, refs[0], fault.Registry, "400"},
		{"plain HTTP elsewhere", &plain, nil, "registry.example.com/a:b", fault.Usage, "without TLS"},
		{"stopped", c, ended, refs[0], fault.Interrupted, "stopped"},
	} {
		ctx := row.ctx
		if ctx == nil {
			ctx = t.Context()
		}
		got, err := row.c.Pull(ctx, must[Reference](t)(Parse(row.ref)))
		if fault.CodeOf(err) != row.code || !strings.Contains(fmt.Sprint(err), row.text) || got != nil ||
			strings.Contains(fmt.Sprint(err), "canary") {
			t.Errorf("%s: got %v, %v (%s); want the code %s and a text with %q, without a password",
				row.name, got, err, fault.CodeOf(err), row.code, row.text)
		}
	}
}

func TestPushRefuses(t *testing.T) {
	t.Parallel()
	c, refs := places(t)
	many := make([]File, MaxFiles+1)
	for i := range many {
		many[i].Name = fmt.Sprintf("%d.hcl", i)
	}
	for name, files := range map[string][]File{
		"no files":   nil,
		"too many":   many,
		"too large":  {{"a.hcl", make([]byte, MaxLayer)}},
		"twice":      {{"a.hcl", nil}, {"a.hcl", nil}},
		"folder":     {{"a/b.hcl", nil}},
		"above":      {{"..", nil}},
		"dotfile":    {{".a.hcl", nil}},
		"control":    {{"a\x07.hcl", nil}},
		"long":       {{strings.Repeat("a", 256), nil}},
		"no name":    {{"", nil}},
		"not UTF-8":  {{"\xff", nil}},
		"backslash":  {{`a\b`, nil}},
		"line break": {{"a\nb", nil}},
	} {
		for _, ref := range refs {
			digest, err := c.Push(t.Context(), must[Reference](t)(Parse(ref)), files)
			if fault.CodeOf(err) != fault.Registry || digest != "" {
				t.Errorf("push of %s: got %q, %v; want a refusal", name, digest, err)
			}
		}
	}
	for _, text := range []string{"h/r@" + ociserver.Digest(nil), "oci-layout:a"} {
		if _, err := c.Push(t.Context(), must[Reference](t)(Parse(text)), aSite()); fault.CodeOf(err) != fault.Usage {
			t.Errorf("push to %s: got %v, want that a tag is missing", text, err)
		}
	}
	if _, err := os.Stat(strings.TrimSuffix(strings.TrimPrefix(refs[1], layoutScheme), ":stable")); err == nil {
		t.Error("a refused push made the folder of the layout, want nothing written")
	}
}

// TestPushWaitsForNothing pushes into a layout of which a file is a pipe without a writer: oras would wait for it.
func TestPushWaitsForNothing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"index.json", "oci-layout"} {
		folder := t.TempDir()
		if err := syscall.Mkfifo(filepath.Join(folder, name), 0o600); err != nil {
			t.Fatal(err)
		}
		ref := must[Reference](t)(Parse("oci-layout:" + folder + ":stable"))
		ended := make(chan error, 1)
		go func() {
			_, err := (&Client{}).Push(t.Context(), ref, aSite())
			ended <- err
		}()
		select {
		case err := <-ended:
			if want := name + " is a FIFO"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("a push where %s is a pipe: got %v, want %q", name, err, want)
			}
		case <-time.After(time.Minute):
			t.Errorf("a push where %s is a pipe: got no end, want an error", name)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	sum := "sha256:" + strings.Repeat("0a", 32)
	for text, want := range map[string]Reference{
		"h/r:t":                                  {Host: "h", Repository: "r", Tag: "t"},
		"oci://h.example:5000/a/b/c:t":           {Host: "h.example:5000", Repository: "a/b/c", Tag: "t"},
		"[::1]:5000/r:t":                         {Host: "[::1]:5000", Repository: "r", Tag: "t"},
		"h/r@" + sum:                             {Host: "h", Repository: "r", Digest: sum},
		"oci://h/r:t@" + sum:                     {Host: "h", Repository: "r", Tag: "t", Digest: sum},
		"oci-layout:/run/media/site":             {Layout: "/run/media/site"},
		"oci-layout:out:t":                       {Layout: "out", Tag: "t"},
		"oci-layout:/a:b/c":                      {Layout: "/a:b/c"},
		"oci-layout:/a@b/c:t@" + sum:             {Layout: "/a@b/c", Tag: "t", Digest: sum},
		"oci-layout:./a//b/:t":                   {Layout: "a/b", Tag: "t"},
		"oci-layout:./a//b:t":                    {Layout: "a/b", Tag: "t"},
		"":                                       {},
		"h":                                      {},
		"h/r":                                    {},
		"oci://":                                 {},
		"oci-layout:":                            {},
		"oci-layout::t":                          {},
		"h/R:t":                                  {},
		"h/r:":                                   {},
		"h/r:t/u":                                {},
		"h/../r:t":                               {},
		"h/r@sha256:0a":                          {},
		"h/r@sha512:" + strings.Repeat("0a", 64): {},
		"h/r@" + sum + "@" + sum:                 {},
		"h/r:-t":                                 {},
		"http://h/r:t":                           {},
		"u:p@h/r:t":                              {},
		"h h/r:t":                                {},
		"h/r:t?x=1":                              {},
		"h/r:t#x":                                {},
		"h/r:t\n":                                {},
		"oci-layout:a\x00:t":                     {},
		"oci-layout:a:t@sha256:0a":               {},
		"h/" + strings.Repeat("r", 5000) + ":t":  {},
	} {
		got, err := Parse(text)
		if got != want && err == nil || (err == nil) != (want != Reference{}) {
			t.Errorf("Parse(%q): got %+v, %v; want %+v", text, got, err, want)
		}
		if err != nil && fault.CodeOf(err) != fault.Usage {
			t.Errorf("Parse(%q): got the code %s, want usage", text, fault.CodeOf(err))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"oci://h:1/r/s:t", "h/r@sha256:" + strings.Repeat("0", 64), "oci-layout:/a:b/c:t"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ref, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(ref.String()); err != nil || again != ref {
			t.Errorf("Parse(%q) is %+v, and Parse of its text %q is %+v, %v; want the same", text, ref, ref, again, err)
		}
	})
}

func FuzzUnpack(f *testing.F) {
	good, _ := pack(aSite())
	f.Add(good)
	f.Fuzz(func(t *testing.T, layer []byte) {
		if len(layer) > MaxLayer {
			return
		}
		files, err := unpack(layer)
		if err != nil {
			return
		}
		size := 0
		for _, file := range files {
			size += len(file.Text)
			if err := checkName(file.Name); err != nil {
				t.Error(err)
			}
		}
		if len(files) == 0 || len(files) > MaxFiles || size > len(layer) {
			t.Errorf("got %d files with %d bytes of a layer with %d", len(files), size, len(layer))
		}
		packed, err := pack(files)
		if err != nil {
			return // headers of another form may be shorter
		}
		if again, err := unpack(packed); err != nil || !reflect.DeepEqual(again, files) {
			t.Errorf("packed and unpacked: got %q, %v; want %q", again, err, files)
		}
	})
}

// TestHostileRegistries pulls from each hostile registry: it ends in time with the right code and one message, which has
// no secret, and no other host is given one.
func TestHostileRegistries(t *testing.T) {
	t.Parallel()
	const least = 60
	if n := len(ociserver.Manners()); n < least {
		t.Errorf("got %d manners, want at least %d", n, least)
	}
	for _, m := range ociserver.Manners() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { pullHostile(t, m) })
		})
	}
}

// pullHostile pulls from a registry with the clock of testing/synctest.
func pullHostile(t *testing.T, m ociserver.Manner) {
	s := m.Start()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CA)
	c := &Client{
		Roots: roots, Dial: s.Dial, Patience: time.Second, Total: 10 * time.Second,
		Credential: func(context.Context, string, string) (string, string, error) { return "u", "canary-password", nil },
	}

	began := time.Now()
	got, err := c.Pull(t.Context(), must[Reference](t)(Parse(s.Host+"/"+ociserver.Reference)))
	took := time.Since(began)
	text := fmt.Sprint(err)
	if got != nil || fault.CodeOf(err) != m.Code || !strings.Contains(text, m.Text) {
		t.Errorf("got %v, %s (%s); want nothing, a message with %q and the code %s", got, text,
			fault.CodeOf(err), m.Text, m.Code)
	}
	if strings.Contains(text, "canary") || strings.Contains(text, "dTpjYW5hcnk") || s.Leaked.Load() {
		t.Errorf("got %q, and another host was given a secret: %t; want no secret", text, s.Leaked.Load())
	}
	isOdd := func(r rune) bool { return !unicode.IsGraphic(r) }
	if len([]rune(text)) > 500 || strings.ContainsFunc(text, isOdd) {
		t.Errorf("got a message of %d characters, want one short line: %q", len([]rune(text)), text)
	}
	const most = 32 << 20 // with the buffers of sockets
	if took > c.Total || s.Requests.Load() > 30 || s.Endless.Load() > most {
		t.Errorf("got %s, %d requests and %d endless bytes, want at most %s, 30 and %d", took,
			s.Requests.Load(), s.Endless.Load(), c.Total, most)
	}
}

// TestBlobsElsewhere follows a redirect of the layer to another server with TLS, which gets no password.
func TestBlobsElsewhere(t *testing.T) {
	t.Parallel()
	own := &ociserver.Registry{User: "u", Password: "canary-password"}
	digest := ociserver.PutSite(own, ociserver.Archive(ociserver.Entry{Name: "a.hcl", Text: "locals {}\n"}))
	var leaked atomic.Bool
	_, elsewhere := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked.Store(leaked.Load() || r.Header.Get("Authorization") != "" || r.Header.Get("Referer") != "")
		r.SetBasicAuth(own.User, own.Password)
		own.ServeHTTP(w, r)
	}))
	c, host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/blobs/") {
			http.Redirect(w, r, "https://"+elsewhere+r.URL.Path, http.StatusTemporaryRedirect)
			return
		}
		own.ServeHTTP(w, r)
	}))
	c.Credential = func(context.Context, string, string) (string, string, error) { return own.User, own.Password, nil }

	got, err := c.Pull(t.Context(), must[Reference](t)(Parse(host+"/"+ociserver.Reference)))
	if err != nil || got.Digest != digest || len(got.Files) != 1 || leaked.Load() {
		t.Errorf("got %v, %v, another server was given a password or URL: %t; want %s with a file", got, err,
			leaked.Load(), digest)
	}
}
