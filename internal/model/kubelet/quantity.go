package kubelet

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/model/texts"
)

// hugeExponent matches exponents of five digits and more.
var hugeExponent = texts.LazyRegexp(`[eE][+-]?0*[1-9][0-9]{4,}$`)

// ParseQuantity is resource.ParseQuantity in bounded time: that function needs minutes for 1E50000001, because it
// computes the number with all its digits. No machine has such an amount.
func ParseQuantity(text string) (resource.Quantity, error) {
	if hugeExponent().MatchString(text) {
		return resource.Quantity{}, fmt.Errorf("the exponent of %q is too large", text)
	}

	return resource.ParseQuantity(text)
}
