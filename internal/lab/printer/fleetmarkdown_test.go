package printer

import (
	"bytes"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/lab/compare"
	"github.com/prelet/prelet/internal/lab/fleet"
)

// TestFleetMarkdownEscapes holds that a value has no meaning in Markdown, and does not mention users. A summary is
// HTML, in which a backslash would be shown.
func TestFleetMarkdownEscapes(t *testing.T) {
	r := &fleet.FleetEffect{Groups: []fleet.Group{{
		Count:    1,
		State:    fleet.Changed,
		Changes:  []compare.NodeChange{{Kind: "config", Name: "cluster_DNS", Action: "create", To: "[\"<b>\"]"}},
		Machines: []fleet.Member{{Source: "a.prelet", Reason: "see @all"}},
	}}}
	var b bytes.Buffer
	must(t, FleetMarkdown(&b, FleetView{r, FleetNames}, Style{Width: 100}))

	for _, want := range []string{
		`<summary>1 machine: + config cluster_DNS = ["&lt;b&gt;"]</summary>`,
		`| 1 | + config cluster\_DNS = \["&lt;b&gt;"\] |`,
		"see @<!-- -->all",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got\n%s\nwant it to contain %s", b.String(), want)
		}
	}
}
