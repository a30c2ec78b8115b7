package hardware

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/pelletier/go-toml/v2"
)

// configLimit is the maximum size in bytes of one file of a container runtime's configuration. The parser's time
// grows with the square of the number of tables; a file of this size takes at most a second.
const configLimit = 128 << 10

// invalidTOMLError is a configuration file that its runtime cannot read either. It never contains text of the file,
// which may hold passwords of registries.
type invalidTOMLError struct{ file, reason string }

func (e *invalidTOMLError) Error() string {
	return "/" + e.file + " " + e.reason
}

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
		return nil, &invalidTOMLError{name, fmt.Sprintf("is larger than %d KiB, which is the limit", configLimit>>10)}
	}

	values, err := parseTOML(data)
	if err == nil {
		return values, nil
	}

	reason := "is not valid TOML"

	var decodeErr *toml.DecodeError
	if errors.As(err, &decodeErr) {
		line, column := decodeErr.Position()
		reason += fmt.Sprintf(": line %d, column %d", line, column)
	}

	return nil, &invalidTOMLError{name, reason}
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

// text returns a scalar as text, or fallback if it is not set or empty.
func (t table) text(fallback string, path ...string) string {
	values := t.list(path...)
	if len(values) != 1 {
		return fallback
	}

	return cmp.Or(values[0], fallback)
}

// merge sets the values of another document, which override those of t.
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
