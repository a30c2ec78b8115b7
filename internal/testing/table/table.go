// Package table reads the cases of a test from a text: one row in a line, its cells separated by " | ". It is for tests
// only.
//
// A cell is a text, a number, true or false, a duration, or a list of words. It is empty for a zero value. Where a text
// has another meaning without them, as with a space at its end, it is in double quotes as in Go. A line that begins
// with "| " continues the row above it, and a line that begins with "# " is a comment. {NAME} in a text is replaced,
// where NAME and its text are given. An empty list in the first cell is "".
package table

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Rows returns the rows. T is a struct with a field for each cell, or the type of the only cell.
func Rows[T any](t testing.TB, text string, names ...string) (rows []T) {
	t.Helper()
	for _, cells := range split(text) {
		rows = append(rows, read[T](t, cells, names))
	}

	return rows
}

// Map returns the rows by their first cell. T is a struct with a field for each other cell, or the type of the only
// one.
func Map[T any](t testing.TB, text string, names ...string) map[string]T {
	t.Helper()
	rows := map[string]T{}
	for _, cells := range split(text) {
		name := read[string](t, cells[:1], names)
		if _, exists := rows[name]; exists {
			t.Fatalf("table: got two rows %q, want one", name)
		}
		rows[name] = read[T](t, cells[1:], names)
	}

	return rows
}

// split returns the cells of each row.
func split(text string) (rows [][]string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		rest, continues := strings.CutPrefix(line+" ", "| ")
		switch {
		case line == "" || strings.HasPrefix(line, "# "):
		case continues:
			last := len(rows) - 1
			rows[last] = append(rows[last], splitCells(rest)...)
		default:
			rows = append(rows, splitCells(line))
		}
	}

	return rows
}

// splitCells splits a line at each " | " that is outside of quotes.
func splitCells(line string) (cells []string) {
	rest := line + " "
	for {
		start := strings.TrimLeft(rest, " ")
		quoted, _ := strconv.QuotedPrefix(start)
		cell, next, found := strings.Cut(start[len(quoted):], "| ")
		if quoted == "" && !strings.HasPrefix(start, "| ") {
			cell, next, found = strings.Cut(start, " | ")
		}
		cells = append(cells, strings.TrimSpace(quoted+cell))
		if !found {
			return cells
		}
		rest = next
	}
}

// read reads the cells of a row.
func read[T any](t testing.TB, cells, names []string) (row T) {
	t.Helper()
	var pairs []string
	for i := 0; i+1 < len(names); i += 2 {
		pairs = append(pairs, "{"+names[i]+"}", names[i+1])
	}
	replace := strings.NewReplacer(pairs...).Replace
	v := reflect.ValueOf(&row).Elem()
	fields := []reflect.Value{v}
	if v.Kind() == reflect.Struct {
		fields = nil
		for i := range v.NumField() {
			fields = append(fields, v.Field(i))
		}
	}
	if len(cells) != len(fields) {
		t.Fatalf("table: got %d cells %q, want %d, one for each field of %T", len(cells), cells, len(fields), row)
	}
	for i, cell := range cells {
		if err := set(fields[i], cell, replace); err != nil {
			t.Fatalf("table: cell %d of %q: %v", i+1, cells, err)
		}
	}

	return row
}

// set sets a value to the content of a cell.
func set(v reflect.Value, cell string, replace func(string) string) error {
	isList := v.Kind() == reflect.Slice
	if cell == "" || isList && cell == `""` {
		return nil
	}
	if isList {
		return setList(v, cell, replace)
	}
	if strings.HasPrefix(cell, `"`) {
		text, err := strconv.Unquote(cell)
		if err == nil {
			cell = text
		}
	}

	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(cell)
		v.SetInt(int64(d))
		return err
	case v.Kind() == reflect.String:
		v.SetString(replace(cell))
	case v.Kind() == reflect.Bool:
		is, err := strconv.ParseBool(cell)
		v.SetBool(is)
		return err
	case v.CanInt():
		n, err := strconv.ParseInt(cell, 0, 64)
		v.SetInt(n)
		return err
	case v.CanUint():
		n, err := strconv.ParseUint(cell, 0, 64)
		v.SetUint(n)
		return err
	case v.CanFloat():
		n, err := strconv.ParseFloat(cell, 64)
		v.SetFloat(n)
		return err
	default:
		return fmt.Errorf("got a field of type %s, want a text, a number, a boolean or a list of them", v.Type())
	}

	return nil
}

// setList sets a list to words, each with or without quotes.
func setList(v reflect.Value, cell string, replace func(string) string) error {
	for cell != "" {
		word, err := strconv.QuotedPrefix(cell)
		if err != nil {
			word, _, _ = strings.Cut(cell, " ")
		}
		cell = strings.TrimSpace(cell[len(word):])
		element := reflect.New(v.Type().Elem()).Elem()
		if err := set(element, word, replace); err != nil {
			return err
		}
		v.Set(reflect.Append(v, element))
	}

	return nil
}
