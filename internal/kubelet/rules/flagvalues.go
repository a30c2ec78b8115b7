package rules

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/quantity"
)

// badFlag is a flag whose value cannot be parsed.
type badFlag struct {
	Flag
	err error
}

// applyFlag sets the field of the configuration that a flag sets.
func (c *checker) applyFlag(f Flag) {
	flag, isKnown := known.FlagAt(f.Name, c.minor)
	if !isKnown || f.Name == "register-with-taints" {
		return
	}
	if err := checkFlagValue(f.Value, flag); err != nil {
		c.badFlags = append(c.badFlags, badFlag{f, err})

		return
	}

	field, hasField := known.FieldAt(flag.Field, c.minor)
	setsNothing := f.Name == "reserved-memory" && f.Value == ""
	if !hasField || setsNothing {
		return
	}
	value, err := parseFlagValue(f, field.Type)
	if err != nil {
		c.badFlags = append(c.badFlags, badFlag{f, err})

		return
	}
	c.setField(f.Name, flag.Field, value)
}

// setField sets a field of the raw configuration. Feature gates are merged; other values are replaced.
func (c *checker) setField(flag, field string, value any) {
	if c.raw == nil {
		c.raw = map[string]any{}
	}
	c.flagOf[field] = flag

	path := strings.Split(field, ".")
	object := c.raw
	for _, name := range path[:len(path)-1] {
		inner, isObject := object[name].(map[string]any)
		if !isObject {
			inner = map[string]any{}
			object[name] = inner
		}
		object = inner
	}

	last := path[len(path)-1]
	gates, isObject := object[last].(map[string]any)
	if isObject && flag == "feature-gates" {
		maps.Copy(gates, value.(map[string]any))
	} else {
		object[last] = value
	}
}

// checkFlagValue parses a value as pflag does for flags that set no field, and for addresses.
func checkFlagValue(value string, flag known.Flag) error {
	bits := 64
	if strings.HasSuffix(flag.Takes, "32") {
		bits = 32
	}

	var err error
	switch strings.TrimRight(flag.Takes, "0123456789") {
	case "ip":
		if value != "" && !isAddress(value) { // pkg/util/flag, IPVar: ignores an empty one
			err = fmt.Errorf("%q is not a valid IP address", value)
		}
	case "int":
		_, err = strconv.ParseInt(value, 0, bits)
	case "uint":
		_, err = strconv.ParseUint(value, 0, bits)
	case "float":
		_, err = strconv.ParseFloat(value, bits)
	case "duration":
		_, err = time.ParseDuration(value)
	case "":
		if flag.Bool && flag.Field == "" {
			_, err = strconv.ParseBool(value)
		}
	}

	return err
}

// parseFlagValue parses a flag's value as the kubelet does, and returns it as a configuration would have it.
func parseFlagValue(f Flag, t known.Type) (any, error) {
	if f.Name == "log-flush-frequency" { // its field has nanoseconds up to 1.27
		t = known.Duration
	}

	switch t {
	case known.Bool:
		return strconv.ParseBool(f.Value)
	case known.Uint32: // the verbosity: k8s.io/component-base/logs/api/v1/pflags.go
		n, err := strconv.ParseUint(f.Value, 10, 31)

		return json.Number(strconv.FormatUint(n, 10)), err
	case known.Int32:
		return parseInteger(f.Value, 32)
	case known.Int64:
		return parseInteger(f.Value, 64)
	case known.Duration, known.DurationOrInt:
		_, err := time.ParseDuration(f.Value)

		return f.Value, err
	case known.Quantity:
		_, err := quantity.Parse(f.Value)

		return f.Value, err
	case known.StringList:
		return parseList(f.Value)
	case known.Bools:
		return parseGates(f.Value)
	case known.Strings:
		return parsePairs(f)
	case known.StringLists:
		return parseHeaders(f.Value)
	case known.ObjectList:
		if f.Name == "reserved-memory" {
			return parseReservedMemory(f.Value)
		}

		return parseVModule(f.Value)
	}

	return f.Value, nil
}

func parseInteger(text string, bits int) (any, error) {
	n, err := strconv.ParseInt(text, 0, bits)

	return json.Number(strconv.FormatInt(n, 10)), err
}

// parseList parses a list as pflag's StringSlice does: a line of CSV, which may have empty elements.
func parseList(value string) (any, error) {
	list := []any{}
	if value == "" {
		return list, nil
	}
	elements, err := csv.NewReader(strings.NewReader(value)).Read()
	for _, element := range elements {
		list = append(list, element)
	}

	return list, err
}

// parseGates parses A=true,B=false as k8s.io/component-base/featuregate does.
func parseGates(value string) (any, error) {
	gates := map[string]any{}
	for _, pair := range strings.Split(value, ",") {
		if pair == "" {
			continue
		}
		name, text, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("missing bool value for %s", pair)
		}
		isOn, err := strconv.ParseBool(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("invalid value of %s: %s, err: %w", name, text, err)
		}
		gates[strings.TrimSpace(name)] = isOn
	}

	return gates, nil
}

// parsePairs parses names and values as k8s.io/component-base/cli/flag does.
func parsePairs(f Flag) (any, error) {
	switch f.Name {
	case "eviction-hard", "eviction-soft":
		return splitPairs(strings.Split(f.Value, ","), "<")
	case "cpu-manager-policy-options": // MapStringStringNoSplit: one pair, which may not be empty
		if f.Value == "" {
			return nil, fmt.Errorf("malformed pair, expect string=string")
		}

		return splitPairs([]string{f.Value}, "=")
	}

	return splitPairs(strings.Split(f.Value, ","), "=")
}

func splitPairs(pairs []string, separator string) (map[string]any, error) {
	values := map[string]any{}
	for _, pair := range pairs {
		if pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, separator)
		if !ok {
			return nil, fmt.Errorf("malformed pair, expect string%sstring", separator)
		}
		values[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}

	return values, nil
}

// parseHeaders parses NAME:VALUE,NAME:VALUE.
func parseHeaders(value string) (any, error) {
	headers, err := splitPairs(strings.Split(value, ","), ":")
	for name, text := range headers {
		headers[name] = []any{text}
	}

	return headers, err
}

// parseVModule parses PATTERN=N,PATTERN=N.
func parseVModule(value string) (any, error) {
	list := []any{}
	for _, pair := range strings.Split(value, ",") {
		if pair == "" {
			continue
		}
		pattern, n, _ := strings.Cut(pair, "=")
		if pattern == "" || n == "" || strings.Contains(n, "=") {
			return nil, fmt.Errorf("%q does not have the pattern=N format", pair)
		}
		if _, err := strconv.ParseUint(n, 10, 31); err != nil {
			return nil, fmt.Errorf("parsing verbosity in %q: %w", pair, err)
		}
		list = append(list, map[string]any{"filePattern": pattern, "verbosity": json.Number(n)})
	}

	return list, nil
}

// parseReservedMemory parses 0:memory=1Gi,hugepages-2Mi=1Gi;1:memory=2Gi.
func parseReservedMemory(value string) (any, error) {
	list := []any{}
	for _, part := range strings.Split(value, ";") {
		node, amounts, ok := strings.Cut(part, ":")
		n, err := strconv.Atoi(node)
		if !ok || err != nil || strings.Contains(amounts, ":") {
			return nil, fmt.Errorf("the reserved memory has incorrect format, "+
				"expected numaNodeID:type=quantity[,type=quantity...], got %s", part)
		}

		limits := map[string]any{}
		for _, pair := range strings.Split(amounts, ",") {
			name, amount, ok := strings.Cut(pair, "=")
			if !ok || strings.Contains(amount, "=") {
				return nil, fmt.Errorf(
					"the reserved limit has incorrect value, expected type=quantity, got %s",
					pair,
				)
			}
			if _, err := quantity.Parse(amount); err != nil {
				return nil, fmt.Errorf("failed to parse the quantity: %s", amount)
			}
			limits[name] = amount
		}
		list = append(list, map[string]any{
			"numaNode": json.Number(strconv.Itoa(n)),
			"limits":   limits,
		})
	}

	return list, nil
}
