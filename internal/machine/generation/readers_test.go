package generation

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// listMembers returns the paths of the members of a JSON document with the type t.
func listMembers(prefix string, t reflect.Type) (out []string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return listMembers(prefix, t.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		at := prefix + "." + name
		out = append(out, at)
		out = append(out, listMembers(at, t.Field(i).Type)...)
	}

	return out
}

// TestEarlierReaders compares the documents of the store with those that released versions read, and refuse otherwise:
// another member needs a higher format.
func TestEarlierReaders(t *testing.T) {
	var written []string
	for name, document := range map[string]any{
		"journal":    Journal{},
		"generation": manifest{},
		"verdict":    status{},
		"held":       held{},
	} {
		written = append(written, listMembers(name, reflect.TypeOf(document))...)
	}
	slices.Sort(written)

	files, err := filepath.Glob("testdata/readers/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %v, %v; want the readers of released versions", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		format, members := 0, []string{}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch key {
			case "format":
				if format, err = strconv.Atoi(value); err != nil {
					t.Fatal(err)
				}
			case "member":
				members = append(members, value)
			}
		}
		for _, m := range written {
			if !slices.Contains(members, m) && formatVersion <= format {
				t.Errorf("%s: it does not know %s; want a format above %d", file, m, format)
			}
		}
	}
}
