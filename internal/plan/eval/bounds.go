package eval

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/secret"
)

// Bounds on the value of one local: one may double another (`"${local.a}${local.a}"`), forty in a row may not.
const (
	maxText     = 2 << 20 // bytes of all its strings: a file of 1 MiB, and the text around it
	maxElements = 100_000 // of all its collections
	maxExponent = 2048    // base 2: such a number has 600 digits
)

// describeExcess names the limit that a value exceeds, or returns "".
func describeExcess(v cty.Value) string {
	bytes := 0
	elements := 0
	hasLargeNumber := false
	_ = cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) { // the callback returns no error
		elements++
		if v.IsMarked() {
			v, _ = secret.Plain(v)
		}
		if v.IsKnown() && !v.IsNull() {
			switch v.Type() {
			case cty.String:
				bytes += len(v.AsString())
			case cty.Number:
				f := v.AsBigFloat()
				exponent := f.MantExp(nil)
				hasLargeNumber = hasLargeNumber || f.IsInf() ||
					max(exponent, -exponent) > maxExponent
			}
		}
		return bytes <= maxText && elements <= maxElements, nil
	})

	switch {
	case bytes > maxText:
		return fmt.Sprintf(
			"more than %d MiB of text; large texts come in by file() and fetch-config, one by one",
			maxText>>20,
		)
	case elements > maxElements:
		return fmt.Sprintf("more than %d elements", maxElements)
	case hasLargeNumber:
		return "a number of more than 600 digits"
	}

	return ""
}
