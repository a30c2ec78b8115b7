package activation

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/kubelet"
)

// planReader is what a released version reads of a stored plan: testdata/readers/VERSION.txt.
type planReader struct {
	version string
	format  int
	fields  []string
	needs   []string
}

func loadPlanReaders(t *testing.T) (all []planReader) {
	t.Helper()
	files, err := filepath.Glob("testdata/readers/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %v, %v; want the readers of released versions", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		r := planReader{version: strings.TrimSuffix(filepath.Base(file), ".txt")}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch key {
			case "format":
				if r.format, err = strconv.Atoi(value); err != nil {
					t.Fatal(err)
				}
			case "field":
				r.fields = append(r.fields, value)
			case "needs":
				r.needs = append(r.needs, value)
			}
		}
		all = append(all, r)
	}

	return all
}

// understands returns the first field of a stored plan that the version does not know, or has in another meaning; "" if
// it reads the plan as it is meant.
func (r planReader) understands(doc map[string]any) (stranger string) {
	var walk func(prefix string, value any)
	walk = func(prefix string, value any) {
		switch v := value.(type) {
		case []any:
			for _, e := range v {
				walk(prefix, e)
			}
		case map[string]any:
			isMap := prefix != "" && !slices.ContainsFunc(r.fields, func(f string) bool {
				return strings.HasPrefix(f, prefix+".")
			})
			for key, e := range v {
				at := strings.TrimPrefix(prefix+"."+key, ".")
				switch {
				case isMap:
				case !slices.Contains(r.fields, at):
					stranger = at
				default:
					walk(at, e)
				}
			}
			for _, need := range r.needs {
				parent, key, _ := strings.Cut(need, ".")
				if parent == prefix && (v[key] == nil || v[key] == "") {
					stranger = need
				}
			}
		}
	}
	walk("", doc)

	return stranger
}

// fill sets a value to one that is not empty, with everything in it.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(2_000) // also milliseconds
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Interface:
		v.Set(reflect.ValueOf("x"))
	}
}

// TestEarlierReaders gives stored plans to the readers of released versions: what one of them would not understand, or
// understand in another way, has a format that it refuses; what it understands has one that it reads. So a new field of
// Spec, or a new meaning of one, needs a line in Spec.format.
func TestEarlierReaders(t *testing.T) {
	specs := map[string]Spec{
		"nothing":               {},
		"the log instead":       {KubeletState: KubeletState{Configz: &kubelet.Configz{Planned: map[string]any{"a": "b"}}}},
		"/configz, no password": {KubeletState: KubeletState{Configz: &kubelet.Configz{URL: "https://x", Planned: map[string]any{"a": "b"}}}},
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Spec]()) {
		if f.Anonymous {
			continue
		}
		var p Spec
		fill(reflect.ValueOf(&p).Elem().FieldByIndex(f.Index))
		specs[f.Name] = p
	}

	for _, r := range loadPlanReaders(t) {
		isRead := 0
		for name, p := range specs {
			text, err := p.Encode()
			var doc map[string]any
			if err == nil {
				err = json.Unmarshal(text, &doc)
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			stranger, format := r.understands(doc), p.format()
			switch {
			case stranger != "" && format <= r.format:
				t.Errorf("%s: prelet %s does not know %s as it is meant, and format %d does not keep it off; "+
					"want a line in Spec.format", name, r.version, stranger, format)
			case stranger == "" && format > r.format:
				t.Errorf("%s: prelet %s understands it, and format %d keeps it off", name, r.version, format)
			case stranger == "":
				isRead++
			}
		}
		if isRead < 20 {
			t.Errorf("prelet %s: got %d plans that it reads, want most of them", r.version, isRead)
		}
	}
}
