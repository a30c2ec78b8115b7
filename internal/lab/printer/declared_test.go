package printer

import (
	"bytes"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/lab/fleet"
)

// TestFleetDeclares holds that each form of a fleet's report has the features that only some nodes would declare.
func TestFleetDeclares(t *testing.T) {
	r := fleet.NewReport("1")
	r.Declares = fleet.Declares{Nodes: 3, Features: []fleet.Feature{
		{Name: "OnAll", Nodes: 3},
		{Name: "OnSome", ByRuntime: true, Nodes: 1},
	}}
	var text, markdown, page bytes.Buffer
	errs := []error{
		FleetText(&text, FleetView{r, FleetSummary}, Style{Width: 100}),
		FleetMarkdown(&markdown, FleetView{r, FleetSummary}, Style{Width: 100}),
		FleetHTML(&page, r, htmlRedactor()),
	}

	for i, got := range []string{text.String(), markdown.String(), page.String()} {
		hasSome := strings.Contains(got, "OnSome") && strings.Contains(got, "1 of 3, if their runtime supports it")
		if errs[i] != nil || !hasSome || strings.Contains(got, "OnAll") {
			t.Errorf("form %d: got %v and\n%s\nwant only OnSome, on 1 of 3", i, errs[i], got)
		}
	}
}
