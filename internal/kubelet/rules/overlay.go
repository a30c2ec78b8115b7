package rules

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
)

// badFlag is a flag whose value does not parse.
type badFlag struct{ name, value, why string }

// overlay puts what flags say over the document, as the kubelet does: a flag wins without a word. Only of feature gates
// both count.
func (l *look) overlay() {
	l.byFlag, l.flagged = map[string]string{}, map[string]bool{}
	for _, f := range l.Flags {
		k, ok := known.FlagAt(f.Name, l.minor)
		if !ok || f.Name == "register-with-taints" {
			continue
		}
		if err := checkFlagValue(f.Value, k); err != nil {
			l.bad = append(l.bad, badFlag{f.Name, f.Value, err.Error()})
			continue
		}
		if k.Field == "" || f.Name == "reserved-memory" && f.Value == "" { // which sets nothing
			continue
		}
		field, ok := known.FieldAt(k.Field, l.minor)
		if !ok {
			continue
		}
		if f.Name == "log-flush-frequency" { // nanoseconds in the configuration up to 1.27
			field.Type = known.Duration
		}
		v, err := flagValue(f.Name, f.Value, field.Type)
		if err != nil {
			l.bad = append(l.bad, badFlag{f.Name, f.Value, err.Error()})
			continue
		}
		if l.whole == nil {
			l.whole = map[string]any{}
		}
		path := strings.Split(k.Field, ".")
		at := l.whole
		for _, name := range path[:len(path)-1] {
			next, ok := at[name].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[name] = next
			}
			at = next
		}
		last := path[len(path)-1]
		if gates, ok := at[last].(map[string]any); ok && f.Name == "feature-gates" {
			for name, on := range v.(map[string]any) {
				gates[name] = on
			}
			l.byFlag[path[0]] = f.Name
			continue
		}
		at[last] = v
		l.byFlag[path[0]], l.flagged[k.Field] = f.Name, true
	}
}

// checkFlagValue parses a value as pflag does for a flag that sets no field of the configuration, and for addresses.
func checkFlagValue(value string, k known.Flag) error {
	var err error
	switch {
	case k.Takes == "ip" && value != "" && !isAddress(value): // pkg/util/flag, IPVar: an empty one is ignored
		return fmt.Errorf("%q is not a valid IP address", value)
	case k.Bool && k.Field == "":
		_, err = strconv.ParseBool(value)
	case strings.HasPrefix(k.Takes, "int"):
		_, err = strconv.ParseInt(value, 0, bitsOf(k.Takes))
	case strings.HasPrefix(k.Takes, "uint"):
		_, err = strconv.ParseUint(value, 0, bitsOf(k.Takes))
	case strings.HasPrefix(k.Takes, "float"):
		_, err = strconv.ParseFloat(value, bitsOf(k.Takes))
	case k.Takes == "duration":
		_, err = time.ParseDuration(value)
	}

	return err
}

func bitsOf(goType string) int {
	if strings.HasSuffix(goType, "32") {
		return 32
	}

	return 64
}

// zeroIsUnset says whether 0 or an empty text of a field stands for its default: in a file, where the field is no pointer.
// A flag sets what it says.
func (l *look) zeroIsUnset(field string) bool { return !l.flagged[field] }

// flagValue reads a flag's value as the field that it sets would hold it.
func flagValue(name, value string, t known.Type) (any, error) {
	switch t {
	case known.Bool:
		b, err := strconv.ParseBool(value)
		if err != nil {
			return nil, fmt.Errorf("strconv.ParseBool: parsing %q: invalid syntax", value)
		}
		return b, nil
	case known.Uint32: // the verbosity: k8s.io/component-base/logs/api/v1/pflags.go
		n, err := strconv.ParseUint(value, 10, 31)
		return json.Number(strconv.FormatUint(n, 10)), err
	case known.Int32, known.Int64:
		bits := 32
		if t == known.Int64 {
			bits = 64
		}
		if _, err := strconv.ParseInt(value, 0, bits); err != nil {
			return nil, fmt.Errorf("%w", err)
		}
		n, _ := strconv.ParseInt(value, 0, bits)
		return json.Number(strconv.FormatInt(n, 10)), nil
	case known.Duration, known.DurationOrInt:
		if _, err := time.ParseDuration(value); err != nil {
			return nil, err
		}
		return value, nil
	case known.Quantity:
		if _, err := resource.ParseQuantity(value); err != nil {
			return nil, err
		}
		return value, nil
	case known.StringList:
		return listFlag(value)
	case known.Bools:
		return parseGates(value)
	case known.Strings:
		sep, parts := "=", strings.Split(value, ",")
		switch name {
		case "eviction-hard", "eviction-soft":
			sep = "<"
		case "cpu-manager-policy-options":
			return pairs([]string{value}, sep, false)
		}
		return pairs(parts, sep, true)
	case known.StringLists:
		m, err := pairs(strings.Split(value, ","), ":", true)
		for name, v := range m {
			m[name] = []any{v}
		}
		return m, err
	case known.ObjectList:
		if name == "reserved-memory" {
			return reservedMemoryFlag(value)
		}
		if name == "vmodule" {
			return []any{}, vmodule(value)
		}
		return []any{}, nil
	}
	return value, nil
}

// listFlag reads a list as pflag's StringSlice does: a line of CSV, in which an empty element is one.
func listFlag(value string) (any, error) {
	list := []any{}
	if value == "" {
		return list, nil
	}
	words, err := csv.NewReader(strings.NewReader(value)).Read()
	for _, w := range words {
		list = append(list, w)
	}

	return list, err
}

// pairs reads names and values (k8s.io/component-base/cli/flag). An empty one counts where it is the whole flag.
func pairs(parts []string, sep string, skipsEmpty bool) (map[string]any, error) {
	m := map[string]any{}
	for _, part := range parts {
		if part == "" && skipsEmpty {
			continue
		}
		k, v, ok := strings.Cut(part, sep)
		if !ok {
			return nil, fmt.Errorf("malformed pair, expect string%sstring", sep)
		}
		m[strings.TrimSpace(k)] = strings.TrimSpace(v)
	}

	return m, nil
}

// vmodule says what is wrong with PATTERN=N,PATTERN=N.
func vmodule(value string) error {
	for _, part := range strings.Split(value, ",") {
		if part == "" {
			continue
		}
		pattern, n, _ := strings.Cut(part, "=")
		if pattern == "" || n == "" || strings.Contains(n, "=") {
			return fmt.Errorf("%q does not have the pattern=N format", part)
		}
		if _, err := strconv.ParseUint(n, 10, 31); err != nil {
			return fmt.Errorf("parsing verbosity in %q: %w", part, err)
		}
	}
	return nil
}

// reservedMemoryFlag reads 0:memory=1Gi,hugepages-2Mi=1Gi;1:memory=2Gi.
func reservedMemoryFlag(value string) (any, error) {
	list := []any{}
	for _, part := range strings.Split(value, ";") {
		node, limits, ok := strings.Cut(part, ":")
		n, err := strconv.Atoi(node)
		if !ok || err != nil || strings.Contains(limits, ":") {
			return nil, fmt.Errorf("the reserved memory has incorrect format, expected numaNodeID:type=quantity[,type=quantity...], got %s", part)
		}
		m := map[string]any{}
		for _, l := range strings.Split(limits, ",") {
			name, q, ok := strings.Cut(l, "=")
			if !ok || strings.Contains(q, "=") {
				return nil, fmt.Errorf("the reserved limit has incorrect value, expected type=quantity, got %s", l)
			}
			m[name] = q
		}
		list = append(list, map[string]any{"numaNode": json.Number(strconv.Itoa(n)), "limits": m})
	}
	return list, nil
}

// logSize says what is wrong with containerLogMaxSize.
func logSize(s string) string {
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return err.Error()
	}
	// A negative size turns rotation off.
	if _, ok := q.AsInt64(); !ok {
		return "invalid max log size"
	}
	return ""
}

// setting is what the configuration itself says about the field of a flag.
func (l *look) setting(field string) (any, bool) {
	if l.Config == nil {
		return nil, false
	}
	v, ok := l.Config.Get(kubelet.Pointer(strings.Split(field, ".")...))
	return v, ok && v != nil
}
