package printer

import (
	"fmt"
	"strconv"
	"strings"
)

// formatAmount returns a quantity of memory or storage for people: from one Mi on, bytes, k and Ki are converted to Mi
// or Gi with one decimal. Other quantities are returned as they are.
func formatAmount(resource, quantity string) string {
	isThreshold := strings.HasSuffix(resource, ".available")
	if resource != "memory" && resource != "ephemeral-storage" && !isThreshold {
		return quantity
	}
	number := quantity
	unit := 1.0
	for suffix, u := range map[string]float64{"Ki": 1 << 10, "k": 1e3} {
		if n, ok := strings.CutSuffix(quantity, suffix); ok {
			number = n
			unit = u
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
