package rules

import (
	"cmp"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/model/kubelet"
)

// parametric are the conditions with an argument: limits, words, or the name of a field, a flag or a feature gate.
var parametric = map[string]func(v value, argument string) bool{
	"above":       value.isAbove,
	"below":       value.isBelow,
	"equals":      value.hasWord,
	"excludes":    value.excludes,
	"exceeds":     value.exceeds,
	"has":         value.has,
	"hasGate":     value.isGateOn,
	"hasItems":    value.hasItems,
	"is":          value.isExactly,
	"isBadOption": value.isBadOption,
	"isNoCipher":  value.isNoCipher,
	"isNoneOf":    value.isNoneOf,
	"isOneOf":     value.isOneOf,
	"isOtherKey":  value.isOtherKey,
	"lacksFlag":   value.lacksFlag,
	"lacksGate":   value.lacksGate,
	"matches":     value.matches,
	"on":          value.isOn,
	"outside":     value.isOutside,
	"reserves":    value.reserves,
	"sets":        value.sets,
	"since":       value.isSince,
}

// compare compares a number with a limit, or a duration with a limit that has a unit. ok is false for other values.
func (v value) compare(limit string) (order int, ok bool) {
	if most, err := strconv.ParseFloat(limit, 64); err == nil {
		number, isNumber := v.raw.(json.Number)
		n, err := number.Float64()

		return cmp.Compare(n, most), isNumber && err == nil
	}
	most, _ := time.ParseDuration(limit)
	d, isDuration := v.duration()

	return cmp.Compare(d, most), isDuration
}

func (v value) isAbove(limit string) bool {
	order, ok := v.compare(limit)

	return ok && order > 0 && v.because("", "{value} must be at most %s", limit)
}

func (v value) isBelow(limit string) bool {
	order, ok := v.compare(limit)

	return ok && order < 0 && v.because("", "{value} must be at least %s", limit)
}

func (v value) isOutside(limits string) bool {
	least, most, _ := strings.Cut(limits, " ")

	return (v.isBelow(least) || v.isAbove(most)) &&
		v.because("", "{value} must be between %s and %s, inclusive", least, most)
}

// isExactly compares a text or, with true and false, a boolean.
func (v value) isExactly(word string) bool {
	if word == "true" || word == "false" {
		return v.raw == (word == "true")
	}

	return v.raw == word
}

// hasWord reports whether another field has a word, or a default that equals it.
func (v value) hasWord(argument string) bool {
	field, word, _ := strings.Cut(argument, " ")

	return v.textOf(field) == word
}

// isNoneOf reports a word that a field does not have. An empty one selects the default unless a flag sets it.
func (v value) isNoneOf(words string) bool {
	_, isText := v.raw.(string)
	isUnset := v.text() == "" && !isSetByFlag(v)

	return isText && !isUnset && v.isOther(v.text(), strings.Fields(words))
}

func (v value) isNoCipher(suites string) bool { return v.isOther(v.text(), strings.Fields(suites)) }

func (v value) matches(expression string) bool {
	return regexp.MustCompile(expression).MatchString(v.text())
}

// exceeds reports whether a duration is above that of another field, which is {why}.
func (v value) exceeds(field string) bool {
	d, _ := v.duration()
	most := v.durationOf(field)
	v.why = most.String()

	return d > most
}

func (v value) isOtherKey(words string) bool { return v.isOther(v.key(), strings.Fields(words)) }

func (v value) isOneOf(words string) bool { return slices.Contains(strings.Fields(words), v.text()) }

func (v value) lacksGate(gate string) bool {
	_, hasGate := v.findGate(gate)

	return hasGate && !v.isGateOn(gate) && v.because("set featureGates: {"+gate+": true}, or remove it",
		"it needs the feature gate %s, which is off", gate)
}

func (v value) isSince(minor string) bool { return v.minor >= mustParse(minor) }

func (v value) sets(field string) bool { return v.valueAt(field) != nil }

func (v value) hasItems(field string) bool { return len(v.listOf(field)) > 0 }

// isOther reports whether a word is none of the valid ones.
func (v value) isOther(word string, valid []string) bool {
	if slices.Contains(valid, word) {
		return false
	}

	return v.because(suggest(word, valid), "unknown word %q", word)
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

func isSet(v value) bool { return v.raw != nil }

func isSetByFlag(v value) bool { return !v.isZeroUnset(strings.Join(v.path, ".")) }

func hasText(v value) bool { return v.text() != "" }

func hasElements(v value) bool { return len(namesIn(v.raw)) > 0 }

func isRelative(v value) bool { return !path.IsAbs(v.text()) }

func isSignal(v value) bool { return slices.Contains(kubelet.EvictionSignals(), v.key()) }
