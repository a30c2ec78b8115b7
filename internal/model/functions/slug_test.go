package functions

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestSlugVectors: the same file is the table in the docs.
func TestSlugVectors(t *testing.T) {
	b, err := os.ReadFile("testdata/slug.json")
	noError(t, err)
	var vectors []struct{ Text, Slug, Why string }
	noError(t, json.Unmarshal(b, &vectors))
	if len(vectors) < 15 {
		t.Errorf("got %d vectors, want at least 15", len(vectors))
	}
	for _, v := range vectors {
		if got := Slug(v.Text); got != v.Slug || v.Why == "" {
			t.Errorf("slug of %q is %q, want %q: %s", v.Text, got, v.Slug, v.Why)
		}
	}
	if got := Slug(strings.Repeat("._ ", 1000) + "end"); got != "end" {
		t.Errorf("slug after a long run: got %q, want end", got)
	}
}

// labelValue is the syntax of Kubernetes: k8s.io/apimachinery/pkg/api/validate/content, IsLabelValue.
var labelValue = regexp.MustCompile(`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`)

func FuzzSlug(f *testing.F) {
	for _, s := range []string{"", "NVIDIA H100", "-._", strings.Repeat("a", 64), strings.Repeat("a-", 40), "a -- b", "İ", "\xff", "a" + strings.Repeat(" ", 80) + "b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Slug(s)
		switch {
		case len(got) > maxLabel || !labelValue.MatchString(got):
			t.Errorf("slug of %q: got %q, want a valid label value", s, got)
		case got != strings.ToLower(got):
			t.Errorf("slug of %q: got %q, want lower case", s, got)
		case Slug(got) != got:
			t.Errorf("slug of %q: got %q, and %q of that; want the same", s, got, Slug(got))
		case len(s) <= maxLabel && s == strings.ToLower(s) && labelValue.MatchString(s) && got != s:
			t.Errorf("slug of the slug %q: got %q, want it unchanged", s, got)
		case regexp.MustCompile(`[a-z0-9]`).MatchString(s) && got == "":
			t.Errorf("slug of %q: got none, want its letters and digits", s)
		}
	})
}
