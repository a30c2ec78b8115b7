package eval

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/lang/value"
)

// Bounds on what one local gives: one may double another (`"${local.a}${local.a}"`), forty in a row may not.
const (
	maxText     = 2 << 20 // bytes in all of its strings: a file of 1 MiB, and what is written around it
	maxElements = 100_000 // in all of its collections
	maxExponent = 2048    // of two: such a number is 600 digits as text
)

// tooLarge says what a value has too much of; "" for one that is fine.
func tooLarge(v cty.Value) string {
	bytes, elements, number := 0, 0, false
	_ = cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) { // the callback returns no error
		elements++
		if v.IsMarked() { // what is inside may be, too, and Plain takes all marks off
			v, _, _ = value.Plain(v)
		}
		switch {
		case !v.IsKnown() || v.IsNull():
		case v.Type() == cty.String:
			bytes += len(v.AsString())
		case v.Type() == cty.Number:
			f := v.AsBigFloat()
			number = number || f.IsInf() || f.MantExp(nil) > maxExponent || f.MantExp(nil) < -maxExponent
		}
		return bytes <= maxText && elements <= maxElements, nil
	})
	switch {
	case bytes > maxText:
		return fmt.Sprintf("more than %d MiB of text; large texts come in by file() and fetch-config, one by one", maxText>>20)
	case elements > maxElements:
		return fmt.Sprintf("more than %d elements", maxElements)
	case number:
		return "a number of more than 600 digits"
	}
	return ""
}
