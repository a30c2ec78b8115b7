package kubelet

import (
	"strings"
	"testing"

	"github.com/distribution/reference"
)

// FuzzImageName compares with the library that the kubelet uses.
func FuzzImageName(f *testing.F) {
	hex := strings.Repeat("0a", 64)
	for _, name := range []string{
		"nginx", "library/nginx", "docker.io", "docker.io/nginx", "docker.io/library/nginx:1", "index.docker.io/a/b", "docker.io/library/a/b",
		"docker.io/index.docker.io/a", "localhost/a", "localhost:5000/a:b", "a:5000", "registry.example/team/app", "Registry/a",
		"[fd00::1]:5000/a/b", "[fd00::1]", "a__b/c--d.e_f", "a___b", "a..b", "-a", "a-", "a//b", "/a", "a/", "A", "a/B", "", ":", "a:",
		"a:" + strings.Repeat("t", 128), "a:" + strings.Repeat("t", 129), strings.Repeat("a", 255), strings.Repeat("a", 256),
		"registry.example/" + strings.Repeat("a", 255), hex[:64],
		"a@sha256:" + hex[:64], "a:1@sha256:" + hex[:64], "a@sha384:" + hex[:96], "a@sha512:" + hex, "a@sha256:" + hex[:62],
		"a@sha1:" + hex[:40], "a@SHA256:" + hex[:64], "a@sha256:" + strings.ToUpper(hex[:64]),
	} {
		f.Add(name)
	}

	f.Fuzz(func(t *testing.T, text string) {
		name, err := parseImageName(text)
		parsed, wantErr := reference.Parse(text)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: got error %v, want %v", text, err, wantErr)
		}
		if err != nil {
			return
		}
		if want := parsed.(reference.Named).Name(); name != want {
			t.Errorf("%q: got %q, want %q", text, name, want)
		}

		normal, err := reference.ParseNormalizedNamed(text)
		if err != nil { // it has no short form
			return
		}
		if got, want := familiarImageName(name), reference.FamiliarName(normal); got != want {
			t.Errorf("%q: got short form %q, want %q", text, got, want)
		}
	})
}
