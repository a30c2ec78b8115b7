package intelnet

import (
	_ "embed"
	"strconv"
	"strings"
)

//go:embed cards.txt
var table string

// card is a model with its device id.
type card struct {
	id        string
	family    string
	model     string
	gbps      int // the speed that a port was built for; 0: several speeds have this id
	isVirtual bool
}

// cards returns the known cards, in the order of the table.
func cards() (all []card) {
	for line := range strings.Lines(table) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 4 {
			continue // a comment
		}
		gbps, _ := strconv.Atoi(fields[2])
		all = append(all, card{
			id:        fields[0],
			family:    fields[1],
			model:     fields[3],
			gbps:      gbps,
			isVirtual: fields[2] == "virtual",
		})
	}

	return all
}
