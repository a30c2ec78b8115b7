package kubelet

import (
	"strings"
	"testing"

	"github.com/distribution/reference"
)

// FuzzImageName compares with the package that the kubelet uses. An algorithm of a digest that the package does not
// know, or a digest of the wrong length, is left out: no runtime has one.
func FuzzImageName(f *testing.F) {
	digest := "@sha256:" + strings.Repeat("ab", 32)
	for _, image := range []string{
		"", "nginx", "nginx:1", "nginx" + digest, "NGINX", "team/NGINX:1", "Team/nginx", "team/app", "a/b/c:x.y-z",
		"library/nginx", "library/a/b", "docker.io/nginx", "docker.io/library/nginx:1" + digest, "docker.io/library/a/b",
		"index.docker.io/nginx", "index.docker.io/library/nginx", "docker.io/index.docker.io/nginx", "localhost/library/nginx",
		"localhost:5000/app", "[::1]:5000/app", "[fe80::1%eth0]/app", "registry.example:5000/app", "registry.example:/app",
		"a--b/c__d/e.f", "a..b", "a___b", "-a", "a-", "a//b", "/a", "a/", "a:", "a@", "a:1@", "https://registry.example/a",
		strings.Repeat("a", 255), strings.Repeat("a", 256), "registry.example/" + strings.Repeat("a", 255),
		"nginx:" + strings.Repeat("t", 128), "nginx:" + strings.Repeat("t", 129), "nginx\n", "é", strings.Repeat("ab", 32),
	} {
		f.Add(image)
	}

	f.Fuzz(func(t *testing.T, image string) {
		if strings.Contains(image, "@") && !strings.HasSuffix(image, digest) {
			t.Skip("a digest of another algorithm")
		}

		got := trimImageName(image)
		want := image
		if ref, err := reference.Parse(image); err == nil {
			want = ref.(reference.Named).Name()
		}
		familiar := familiarName(got)
		wantFamiliar := familiar
		if normal, err := reference.ParseNormalizedNamed(image); err == nil {
			wantFamiliar = reference.FamiliarName(normal)
		}
		if got != want || familiar != wantFamiliar {
			t.Errorf("%q: got names %q and %q, want %q and %q", image, got, familiar, want, wantFamiliar)
		}
	})
}
