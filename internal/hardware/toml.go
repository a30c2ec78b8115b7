package hardware

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pelletier/go-toml/v2"
)

// configLimit is the maximum size in bytes of one file of a container runtime's configuration. The parser's time grows
// with the square of the number of tables; a file of this size takes at most a second.
const configLimit = 128 << 10

// invalidTOMLError is a configuration file that its runtime cannot read either. It never contains text of the file,
// which may hold passwords of registries.
type invalidTOMLError struct{ file, reason string }

func (e *invalidTOMLError) Error() string { return "/" + e.file + " " + e.reason }

// readTOML reads one file of a container runtime's configuration.
func (d *detection) readTOML(name string) (table, error) {
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

// table is a TOML document as a flat map: values by their path. Scalars are text, arrays of scalars are lists of texts.
type table map[string][]string

func parseTOML(data []byte) (table, error) {
	var document map[string]any
	if err := toml.Unmarshal(data, &document); err != nil {
		return nil, err
	}

	values := table{}
	values.add(nil, document)

	return values, nil
}

// add adds a value and everything below it. Arrays of tables are left out: no setting of interest is in one.
func (t table) add(path []string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, item := range value {
			t.add(append(slices.Clone(path), name), item)
		}
	case []any:
		list := []string{}
		for _, item := range value {
			if _, isTable := item.(map[string]any); !isTable {
				list = append(list, fmt.Sprint(item))
			}
		}
		t[key(path)] = list
	default:
		t[key(path)] = []string{fmt.Sprint(value)}
	}
}
