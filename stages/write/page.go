package write

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed page.tmpl
var pathsText string

// PathsPage is docs/reference/paths.md: page.tmpl with the rows of its table.
func PathsPage() string {
	var rows strings.Builder
	for _, r := range listRefusals() {
		fmt.Fprintf(&rows, "| `%s` | %s |\n", strings.Join(r.places, "`, `"), r.why)
	}
	fmt.Fprintf(
		&rows,
		"| `%s*`, in any folder, and what is below | prelet's own temporaries begin with it |\n",
		ownTemporaries,
	)
	fmt.Fprintf(
		&rows,
		"| `%s`, and their `.d`, `.wants`, `.requires` and `.upholds`, in any folder of units | "+
			"it is a unit of prelet's, or changes one |\n",
		strings.Join(listOwnUnits(), "`, `"),
	)

	return strings.Replace(pathsText, "ROWS\n", rows.String(), 1)
}
