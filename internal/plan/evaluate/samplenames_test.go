package evaluate

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/prelet/prelet/internal/model/tape"
)

// makeBareVM returns the facts of a small machine without devices.
func makeBareVM() *tape.Facts { return findSample("bare VM") }

// samplesAsJSON are the facts of the sample machines by name: many tests copy one, and their YAML takes longer to parse.
var samplesAsJSON = sync.OnceValue(func() map[string][]byte {
	texts := map[string][]byte{}
	for _, m := range SampleMachines() {
		text, err := json.Marshal(m.Facts)
		if err != nil {
			panic(err)
		}
		texts[m.Name] = text
	}

	return texts
})

// findSample returns a copy of the facts of a sample machine.
func findSample(name string) *tape.Facts {
	var facts tape.Facts
	if err := json.Unmarshal(samplesAsJSON()[name], &facts); err != nil {
		panic(err)
	}

	return &facts
}

// TestSampleNames wants of each text that a vendor or a person chooses a sample machine on which it is invalid as a label:
// else a site that puts it into a label is valid, and fails on a real machine.
func TestSampleNames(t *testing.T) {
	texts := map[string][]string{} // of each fact, on all samples
	var collect func(path string, v reflect.Value)
	collect = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			switch isText := v.Type().Elem().Kind() == reflect.String; {
			case !v.IsNil():
				collect(path, v.Elem())
			case isText && texts[path] == nil:
				texts[path] = []string{}
			}
		case reflect.Struct:
			for i := range v.NumField() {
				name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
				collect(strings.TrimPrefix(path+"."+name, "."), v.Field(i))
			}
		case reflect.Slice:
			for i := range v.Len() {
				collect(path, v.Index(i))
			}
		case reflect.String:
			texts[path] = append(texts[path], v.String())
		}
	}
	for _, m := range SampleMachines() {
		if m.Facts != nil {
			collect("", reflect.ValueOf(*m.Facts))
		}
	}

	// Texts that prelet chooses from a list, or that a kernel or a standard gives the form of a label.
	formed := []string{
		"cpu.vendor", "nics.vendor", "accelerators.vendor", "os.version_id", "block_devices.name", "runtime.name",
	}
	chosen := []string{
		"vendor", "model", "name", "sku", "serial", "version", "asset_tag", "release", "endpoint",
	}
	for path, got := range texts {
		isChosen := slices.Contains(chosen, path[strings.LastIndexByte(path, '.')+1:]) && !slices.Contains(formed, path)
		isInvalid := func(text string) bool { return len(validation.IsValidLabelValue(text)) > 0 }
		if isChosen && !slices.ContainsFunc(got, isInvalid) {
			t.Errorf("%s: got %q on the sample machines, want a real text that is invalid as a label", path, got)
		}
	}
}
