package rules

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/known"
)

// badFlag is a flag whose value cannot be parsed.
type badFlag struct {
	kubelet.Use
	err error
}

// applyFlag sets the field of a configuration that a flag sets. Feature gates are merged; other values are replaced.
func (c *checker) applyFlag(config func() *kubelet.Config, f kubelet.Use) {
	flag, isKnown := known.FlagAt(f.Name, c.minor)
	if !isKnown || f.Name == "register-with-taints" {
		return
	}
	field, hasField := known.FieldAt(flag.Field, c.minor)
	value, err := parseFlagValue(f, flag, field.Type)
	if err != nil {
		c.badFlags = append(c.badFlags, badFlag{f, err})
	}
	if err != nil || !hasField || value == nil {
		return
	}

	if gates, isMap := value.(map[string]any); isMap && f.Name == "feature-gates" {
		for name := range gates {
			c.flagOf[flag.Field+"."+name] = f.Name // the configuration may set others
		}
		_ = config().Merge(map[string]any{flag.Field: value})
		return
	}
	c.flagOf[flag.Field] = f.Name
	err = config().Set(strings.Split(flag.Field, "."), value)
	if err != nil {
		delete(c.flagOf, flag.Field) // the value around the field has another type: config-wrong-type reports it
	}
}

// parseFlagValue parses a flag's value as pflag and the kubelet do, and returns it as a configuration would have it. t
// is the type of the field that the flag sets.
func parseFlagValue(f kubelet.Use, flag known.Flag, t known.Type) (value any, err error) {
	kind := cmp.Or(flag.Takes, string(t))
	switch {
	case flag.Bool:
		kind = "bool"
	case f.Name == "log-flush-frequency" && t != "": // its field has nanoseconds up to 1.27
		kind = "duration"
	case f.Value == "" && (f.Name == "reserved-memory" || kind == "ip"): // pkg/util/flag: it sets nothing
		return nil, nil
	case f.Name == "reserved-memory":
		return parseReservedMemory(f.Value)
	}

	value = f.Value
	switch kind {
	case "ip":
		if !isAddress(f.Value) {
			err = fmt.Errorf("%q is not a valid IP address", f.Value)
		}
	case "bool":
		value, err = strconv.ParseBool(f.Value)
	case "int32":
		value, err = parseInteger(f.Value, 32)
	case "int", "int64":
		value, err = parseInteger(f.Value, 64)
	case "uint32": // the verbosity: k8s.io/component-base/logs/api/v1/pflags.go
		n, failure := strconv.ParseUint(f.Value, 10, 31)
		value, err = json.Number(strconv.FormatUint(n, 10)), failure
	case "uint64":
		_, err = strconv.ParseUint(f.Value, 0, 64)
	case "float64":
		_, err = strconv.ParseFloat(f.Value, 64)
	case "duration", "durationorint":
		_, err = time.ParseDuration(f.Value)
	case "quantity":
		_, err = kubelet.ParseQuantity(f.Value)
	case "stringlist":
		value, err = parseList(f.Value)
	case "bools":
		value, err = parseGates(f.Value)
	case "strings":
		value, err = parsePairs(f)
	case "stringlists":
		value, err = parseHeaders(f.Value)
	case "objectlist":
		value, err = parseVModule(f.Value)
	}

	return value, err
}

func parseInteger(text string, bits int) (any, error) {
	n, err := strconv.ParseInt(text, 0, bits)

	return json.Number(strconv.FormatInt(n, 10)), err
}

// parseList parses a list as pflag's StringSlice does: a line of CSV, which may have empty elements.
func parseList(text string) (any, error) {
	list := []any{}
	if text == "" {
		return list, nil
	}
	elements, err := csv.NewReader(strings.NewReader(text)).Read()
	for _, element := range elements {
		list = append(list, element)
	}

	return list, err
}

// splitList returns the elements between commas that are not empty.
func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

// parseGates parses A=true,B=false as k8s.io/component-base/featuregate does.
func parseGates(text string) (any, error) {
	gates := map[string]any{}
	for _, pair := range splitList(text) {
		name, word, _ := strings.Cut(pair, "=")
		isOn, err := strconv.ParseBool(strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("%q does not have the form GATE=true or GATE=false", pair)
		}
		gates[strings.TrimSpace(name)] = isOn
	}

	return gates, nil
}

// parsePairs parses names and values as k8s.io/component-base/cli/flag does.
func parsePairs(f kubelet.Use) (any, error) {
	pairs, separator := splitList(f.Value), "="
	switch f.Name {
	case "eviction-hard", "eviction-soft":
		separator = "<"
	case "cpu-manager-policy-options": // MapStringStringNoSplit: one pair, which may not be empty
		pairs = []string{f.Value}
	}

	return splitPairs(pairs, separator)
}

func splitPairs(pairs []string, separator string) (map[string]any, error) {
	values := map[string]any{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, separator)
		if !ok {
			return nil, fmt.Errorf("malformed pair, expect string%sstring", separator)
		}
		values[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}

	return values, nil
}

// parseHeaders parses NAME:VALUE,NAME:VALUE.
func parseHeaders(text string) (any, error) {
	headers, err := splitPairs(splitList(text), ":")
	for name, value := range headers {
		headers[name] = []any{value}
	}

	return headers, err
}

// parseVModule parses PATTERN=N,PATTERN=N.
func parseVModule(text string) (any, error) {
	list := []any{}
	for _, pair := range splitList(text) {
		pattern, n, _ := strings.Cut(pair, "=")
		if _, err := strconv.ParseUint(n, 10, 31); err != nil || pattern == "" {
			return nil, fmt.Errorf("%q does not have the pattern=N format", pair)
		}
		list = append(list, map[string]any{"filePattern": pattern, "verbosity": json.Number(n)})
	}

	return list, nil
}

// parseReservedMemory parses 0:memory=1Gi,hugepages-2Mi=1Gi;1:memory=2Gi.
func parseReservedMemory(text string) (any, error) {
	list := []any{}
	for _, part := range strings.Split(text, ";") {
		node, amounts, _ := strings.Cut(part, ":")
		_, err := strconv.Atoi(node)
		isValid := err == nil
		limits := map[string]any{}
		for _, pair := range strings.Split(amounts, ",") {
			name, amount, _ := strings.Cut(pair, "=")
			_, err := kubelet.ParseQuantity(amount)
			isValid = isValid && err == nil && (name == "memory" || strings.HasPrefix(name, "hugepages-"))
			limits[name] = amount
		}
		if !isValid {
			return nil, fmt.Errorf("%q does not have the format NODE:TYPE=AMOUNT[,TYPE=AMOUNT]", part)
		}
		list = append(list, map[string]any{"numaNode": json.Number(node), "limits": limits})
	}

	return list, nil
}
