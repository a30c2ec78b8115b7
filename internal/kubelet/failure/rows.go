package failure

import (
	_ "embed"
	"strings"
)

//go:embed rows.txt
var table string

// row is one failure: how the kubelet says it, and what it means. See rows.txt.
type row struct {
	id       string
	says     string // a regular expression, over one entry
	sentence string
	items    []string
	final    bool // false also where a file or a cgroup is missing that another unit may yet make
	pods     bool // the kubelet is well, and its pods cannot start
}

// rows reads the table. It is text because a table of values is code as well, and this one is asked once in a bad day.
func rows() (out []row) {
	for _, text := range strings.Split(table, "\n\n") {
		var lines []string
		for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			if !strings.HasPrefix(l, "#") {
				lines = append(lines, l)
			}
		}
		if len(lines) == 3 { // a test holds that all are so
			words := strings.Fields(lines[0])
			out = append(out, row{id: words[0], says: lines[1], sentence: lines[2], items: words[2:], final: words[1] == "ends", pods: words[1] == "pods"})
		}
	}
	return out
}
