package kubelet

import (
	"slices"
	"testing"
)

// An open word may be the value of a flag before it, and only of one that has no value yet.
func TestDropOpen(t *testing.T) {
	for _, c := range []struct{ words, want []string }{
		{[]string{"--node-ip", ""}, nil},
		{[]string{"--v=2", ""}, []string{"--v=2"}},
		{[]string{"--fail-swap-on", "", "--v=2"}, []string{"--fail-swap-on", "--v=2"}},
		{[]string{"--cluster-dns", "--node-ip", ""}, []string{"--cluster-dns", "--node-ip"}},
		{[]string{"--cluster-dns", "--node-ip", "--node-ip", ""}, []string{"--cluster-dns", "--node-ip"}},
		{[]string{"", "--v=2"}, []string{"--v=2"}},
	} {
		var words []Word
		for _, text := range c.words {
			words = append(words, Word{Text: text, Open: text == ""})
		}
		var got []string
		for _, w := range DropOpen(words) {
			got = append(got, w.Text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q; want %q", c.words, got, c.want)
		}
	}
}
