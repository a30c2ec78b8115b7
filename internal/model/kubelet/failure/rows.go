package failure

import (
	_ "embed"
	"strings"
)

//go:embed rows.txt
var table string

// row is one failure: a pattern of the log, and its meaning. See rows.txt.
type row struct {
	id       string
	pattern  string // a regular expression for one entry
	sentence string
	items    []string
	final    bool // false also for a missing file or cgroup that another unit may create later
	pods     bool // the kubelet is healthy, and its pods cannot start
}

// parseRows parses the table. It is a text because it is rarely needed.
func parseRows() []row {
	var rows []row
	for _, text := range strings.Split(table, "\n\n") {
		var lines []string
		for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			if !strings.HasPrefix(l, "#") {
				lines = append(lines, l)
			}
		}
		if len(lines) != 3 { // only comments; a test checks the rows
			continue
		}
		words := strings.Fields(lines[0])
		rows = append(rows, row{
			id:       words[0],
			pattern:  lines[1],
			sentence: lines[2],
			items:    words[2:],
			final:    words[1] == "ends",
			pods:     words[1] == "pods",
		})
	}

	return rows
}
