package generation

import (
	"regexp"
	"strings"
	"testing"
)

// FuzzNames compares what is read by hand with the rules as they would be written down.
func FuzzNames(f *testing.F) {
	blob := regexp.MustCompile(`^[a-z][a-z0-9_-]{0,60}(\.[a-z0-9]{1,16})?$`)
	sha := regexp.MustCompile(`^[0-9a-f]{64}$`)
	for _, s := range []string{
		"", "a", "A", "1", "-a", "a-", "a_1", "recording.json", "plan.json.gz", "a.", ".a", "a.JSON", "../a", "a/b", "a\n", "a.b\n", "ä", "aä",
		strings.Repeat("a", 61), strings.Repeat("a", 62), "a." + strings.Repeat("x", 16), "a." + strings.Repeat("x", 17),
		strings.Repeat("0f", 32), strings.Repeat("0F", 32), strings.Repeat("0", 63), strings.Repeat("0", 65), strings.Repeat("0", 63) + "\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for rule, agrees := range map[string]bool{
			"blob": isBlob(s) == blob.MatchString(s), "sha": isSHA(s) == sha.MatchString(s),
		} {
			if !agrees {
				t.Errorf("%q: the rule of a %s's name says otherwise", s, rule)
			}
		}
	})
}

func TestScratchIsSwept(t *testing.T) {
	b := newBox(t)
	s := b.open()
	b.apply(s, plan("p1", file("/etc/kubernetes/a", "1")))
	names := map[string]bool{".kubelet.json.123": true, "kubelet.json": false, ".kubelet.json": false, ".json.1": false, ".kubelet.json.12x": false, ".kubelet.json.": false}
	for n := range names {
		b.write("/var/lib/prelet/"+n, "x", 0o600)
	}
	if _, err := s.Recover(); err != nil {
		t.Fatal(err)
	}
	for n, gone := range names {
		if (b.read("/var/lib/prelet/"+n) == "absent") != gone {
			t.Errorf("%s: gone is not %v", n, gone)
		}
	}
}
