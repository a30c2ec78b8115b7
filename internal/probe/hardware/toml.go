package hardware

import (
	"context"
	"errors"
	"fmt"

	"github.com/pelletier/go-toml/v2"
)

// configLimit is the maximum size in bytes of one file of a container runtime's configuration. The parser's time grows
// with the square of the number of tables; a file of this size takes at most a second.
const configLimit = 128 << 10

// invalidTOMLError is a configuration file that its runtime cannot read either. It never contains text of the file,
// which may hold passwords of registries.
type invalidTOMLError struct{ file, reason string }

func (e *invalidTOMLError) Error() string { return "/" + e.file + " " + e.reason }

// readTOML reads one file of a container runtime's configuration, unless the context has ended.
func (d *detection) readTOML(name string) (table, error) {
	if err := context.Cause(d.ctx); err != nil {
		return nil, err
	}

	data, err := d.ReadFile(name, configLimit+1)
	if err != nil {
		return nil, err
	}

	if len(data) > configLimit {
		return nil, &invalidTOMLError{name, fmt.Sprintf("is larger than %d KiB, the most that is read", configLimit>>10)}
	}

	values, err := parseTOML(data)
	if decodeErr := (*toml.DecodeError)(nil); errors.As(err, &decodeErr) {
		line, column := decodeErr.Position()
		return nil, &invalidTOMLError{name, fmt.Sprintf("is not valid TOML: line %d, column %d", line, column)}
	}

	if err != nil {
		return nil, &invalidTOMLError{name, "is not valid TOML"}
	}

	return values, nil
}

// table is a TOML document, or a table in one.
type table map[string]any

func parseTOML(data []byte) (table, error) {
	var document table
	if err := toml.Unmarshal(data, &document); err != nil {
		return nil, err
	}

	return document, nil
}

// lookup returns the value at a path of keys, or nil.
func (t table) lookup(path ...string) any {
	var value any = map[string]any(t)

	for _, key := range path {
		below, _ := value.(map[string]any)
		value = below[key]
	}

	return value
}

// list returns the texts of an array of scalars, or of one scalar; nil if there is neither.
func (t table) list(path ...string) []string {
	switch value := t.lookup(path...).(type) {
	case nil, map[string]any:
		return nil
	case []any:
		list := []string{}
		for _, item := range value {
			if _, isTable := item.(map[string]any); !isTable {
				list = append(list, fmt.Sprint(item))
			}
		}
		return list
	default:
		return []string{fmt.Sprint(value)}
	}
}

// text returns a scalar as text, or absent if it is not set or empty.
func (t table) text(absent string, path ...string) string {
	if values := t.list(path...); len(values) == 1 && values[0] != "" {
		return values[0]
	}
	return absent
}

// merge sets in t what another document sets; of a value that both set, the other's counts.
func (t table) merge(other table) {
	for key, value := range other {
		below, isTable := t[key].(map[string]any)
		otherBelow, otherIsTable := value.(map[string]any)

		if isTable && otherIsTable {
			table(below).merge(otherBelow)
		} else {
			t[key] = value
		}
	}
}
