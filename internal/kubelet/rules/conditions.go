package rules

import (
	"math"
	"slices"

	"github.com/prelet/prelet/internal/kubelet"
)

const noMax = math.MaxInt64

// at is a check of one condition.
func at(where string, isBad func(value) bool, hint, message string) check {
	return check{where: where, isBad: isBad, hint: hint, message: message}
}

// invalid is at for a message of the kubelet's validation.
func invalid(where string, isBad func(value) bool, hint, message string) check {
	return at(where, isBad, hint, "invalid configuration: "+message)
}

// by is a check that reports its findings itself.
func by(find func(*checker)) check { return check{find: find} }

// within is a check of the range of numbers. It includes a 0 that selects the default or disables something.
func within(where string, least, most int64, message string) check {
	isOutside := func(v value) bool {
		n, ok := v.number()

		return ok && (n < least || n > most)
	}

	return invalid(where, isOutside, "", message)
}

// oneOf is a check of the words of a field. An empty one selects the default unless a flag sets it.
func oneOf(field, message string, words ...string) check {
	isOther := func(v value) bool {
		_, isText := v.raw.(string)
		isUnset := v.text() == "" && (v.isZeroUnset(field) || field == "tlsMinVersion")

		return isText && !isUnset && v.isOther(v.text(), words)
	}

	return at(field, isOther, "", message)
}

// needsGate is a check of a field that needs a feature gate while isUsed holds.
func needsGate(gate, where string, isUsed func(value) bool, message string) check {
	return invalid(where, lacksGate(gate, isUsed), "set featureGates: {"+gate+": true}, or remove it", message)
}

func lacksGate(gate string, isUsed func(value) bool) func(value) bool {
	return func(v value) bool {
		_, hasGate := v.findGate(gate)

		return hasGate && isUsed(v) && !v.isGateOn(gate)
	}
}

// isOther reports whether a word is not valid, and sets the hint.
func (v value) isOther(word string, valid []string) bool {
	if slices.Contains(valid, word) {
		return false
	}
	v.hint = suggest(word, valid)

	return true
}

// isRepeated reports whether an earlier place has the same key.
func (v value) isRepeated(where string, key func(value) string) bool {
	for _, path := range v.places(where) {
		if slices.Equal(path, v.path) {
			break
		}
		if key(value{v.checker, path, dig(v.config, path...)}) == key(v) {
			return true
		}
	}

	return false
}

// rejectedBy is the condition that a text cannot be parsed. {why} is the error.
func rejectedBy[T any](parse func(string) (T, error)) func(value) bool {
	return func(v value) bool {
		_, err := parse(v.text())

		return v.fails(err)
	}
}

// The following are conditions of a value.

func isSet(v value) bool { return v.raw != nil }

func isTrue(v value) bool { return v.raw == true }

func hasText(v value) bool { return v.text() != "" }

func hasElements(v value) bool { return len(namesIn(v.raw)) > 0 }

func isNegative(v value) bool {
	d, _ := v.duration()

	return d < 0
}

func isSignal(v value) bool { return slices.Contains(kubelet.EvictionSignals(), v.key()) }

func above(most int64) func(value) bool {
	return func(v value) bool {
		n, _ := v.number()

		return n > most
	}
}
