package write

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed page.tmpl
var pathsText string

// PathsPage is docs/reference/paths.md: page.tmpl with the rows of its tables.
func PathsPage() string {
	var own, system, root strings.Builder
	addRows(&own, listRefusals())
	fmt.Fprintf(
		&own,
		"| `%s*`, in any folder, and what is below | prelet's own temporaries begin with it |\n",
		ownTemporaries,
	)
	fmt.Fprintf(
		&own,
		"| `%s`, and their `.d`, `.wants`, `.requires` and `.upholds`, in any folder of units | "+
			"it is a unit of prelet's, or changes one |\n",
		strings.Join(listOwnUnits(), "`, `"),
	)
	addRows(&system, listSystemPlaces())
	fmt.Fprintf(
		&system,
		"| `systemd-*`, `%s`, in any folder of units | it replaces a unit that each boot or login needs |\n",
		strings.Join(strings.Fields(systemUnits), "`, `"),
	)
	addRows(&root, listRootFolders())

	rows := strings.NewReplacer("OWN\n", own.String(), "SYSTEM\n", system.String(), "ROOT\n", root.String())

	return rows.Replace(pathsText)
}

func addRows(b *strings.Builder, refusals []refusal) {
	for _, r := range refusals {
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.Join(r.places, "`, `"), r.why)
	}
}
