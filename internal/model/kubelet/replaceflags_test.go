package kubelet

import (
	"slices"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

// An open word may be the value of a flag before it, and only of one that has no value yet.
func TestDropOpen(t *testing.T) {
	for _, c := range table.YAML[[]struct{ Words, Want []string }](t, `
- {words: [--node-ip, '']}
- {words: [--v=2, ''], want: [--v=2]}
- {words: [--fail-swap-on, '', --v=2], want: [--fail-swap-on, --v=2]}
- {words: [--cluster-dns, --node-ip, ''], want: [--cluster-dns, --node-ip]}
- {words: [--cluster-dns, --node-ip, --node-ip, ''], want: [--cluster-dns, --node-ip]}
- {words: ['', --v=2], want: [--v=2]}
`) {
		var words []Word
		for _, text := range c.Words {
			words = append(words, Word{Text: text, Open: text == ""})
		}
		var got []string
		for _, w := range DropOpen(words) {
			got = append(got, w.Text)
		}
		if !slices.Equal(got, c.Want) {
			t.Errorf("%q: got %q; want %q", c.Words, got, c.Want)
		}
	}
}
