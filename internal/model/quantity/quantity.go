// Package quantity parses amounts of resources, and time spans of systemd, in texts from a site, a cluster or a node.
package quantity

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/model/lazy"
)

// hugeExponent matches exponents of five digits and more.
var hugeExponent = lazy.Regexp(`[eE][+-]?0*[1-9][0-9]{4,}$`)

// Parse is resource.ParseQuantity in bounded time: that function needs minutes for 1E50000001, because it computes the
// number with all its digits. No machine has such an amount.
func Parse(text string) (resource.Quantity, error) {
	if hugeExponent().MatchString(text) {
		return resource.Quantity{}, fmt.Errorf("the exponent of %q is too large", text)
	}

	return resource.ParseQuantity(text)
}
