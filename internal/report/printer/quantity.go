package present

import (
	"fmt"
	"strconv"
	"strings"
)

// amount is a quantity of memory or storage for people: one that Kubernetes writes in bytes, k or Ki is shown in Mi or Gi
// with one decimal, from one Mi on. Others stay as they are, and so does what is written to files.
func amount(resource, quantity string) string {
	if resource != "memory" && resource != "ephemeral-storage" && !strings.HasSuffix(resource, ".available") {
		return quantity
	}
	number, unit := quantity, 1.0
	for suffix, u := range map[string]float64{"Ki": 1 << 10, "k": 1e3} {
		if n, ok := strings.CutSuffix(quantity, suffix); ok {
			number, unit = n, u
		}
	}
	n, err := strconv.ParseUint(number, 10, 64)
	bytes := float64(n) * unit
	switch {
	case err != nil || bytes < 1<<20:
		return quantity
	case bytes < 1<<30:
		return decimal(bytes/(1<<20), "Mi")
	}
	return decimal(bytes/(1<<30), "Gi")
}

func decimal(n float64, unit string) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0") + unit
}
