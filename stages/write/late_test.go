package write

import (
	"slices"
	"testing"

	"github.com/prelet/prelet/internal/model/kubelet"
)

// The words behind those of the flags file are all read, but for the one that a flag at its end takes. A word whose
// text is not known may have a flag or not.
func TestLateWords(t *testing.T) {
	word := func(text string) kubelet.Word { return kubelet.Word{Text: text, Open: text == ""} }
	for _, between := range [][]string{
		nil, {""}, {"--cluster-dns"}, {"--v=2"}, {"--v=2", "--cluster-dns"}, {"--fail-swap-on"},
	} {
		for _, after := range [][]string{nil, {""}, {"--v=3"}, {"", "--v=3"}, {"10.0.0.10", "--v=3"}} {
			var own, late []kubelet.Word
			for _, text := range between {
				own = append(own, word(text))
			}
			for _, text := range after {
				late = append(late, word(text))
			}

			got := listLate(own, late)
			takes := len(between) > 0 && between[len(between)-1] == "--cluster-dns" && len(after) > 0 && after[0] != ""
			want := append([]kubelet.Word{{Open: true}}, late...)
			if takes {
				want = late[1:]
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q and then %q: got %v; want %v", between, after, got, want)
			}
		}
	}
}
