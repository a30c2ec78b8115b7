package hardware

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/model/tape"
)

// factCase is a case in testdata, whose files explain its fields.
type factCase struct {
	Name string
	PCI  []struct {
		At, ID, Class, Driver string
		Files                 map[string]string
	}
	Files    map[string]string
	Binary   map[string][]byte
	Errors   map[string]string
	Facts    map[string]any
	Unknown  map[string]string
	Degraded []string
}

func (c factCase) detect(t *testing.T) tape.Facts {
	t.Helper()
	files := map[string]string{}
	for _, f := range c.PCI {
		pci(files, f.At, f.ID, f.Class, f.Driver, f.Files)
	}
	for name, text := range c.Files {
		files[name] = text
	}
	for name, text := range c.Binary {
		files[name] = string(text)
	}
	numbers := map[string]error{"EACCES": syscall.EACCES, "EINVAL": syscall.EINVAL, "EIO": syscall.EIO}
	errs := map[string]error{}
	for name, number := range c.Errors {
		if errs[name] = numbers[number]; errs[name] == nil {
			t.Fatalf("%s: got error %q, want one of %v", name, number, numbers)
		}
	}
	return detect(t, ReadOptions{Tree: faulty{tree(t, files), func(name string) error { return errs[name] }}})
}

func readData(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	must(t, err)
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// TestFacts compares the facts of machines in testdata.
func TestFacts(t *testing.T) {
	names, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("got files %v, %v; want some", names, err)
	}
	for _, name := range names {
		name = filepath.Base(name)
		var cases []factCase
		readData(t, name, &cases)
		for _, c := range cases {
			t.Run(name+"/"+c.Name, func(t *testing.T) {
				facts := c.detect(t)
				var got map[string]any
				must(t, yaml.Unmarshal(encode(t, facts), &got))
				compareFacts(t, facts, "", c.Facts, got)
				for fact, want := range c.Unknown {
					if got := why(facts, fact); got != want {
						t.Errorf("reason of %s: got %q, want %q", fact, got, want)
					}
				}
				var names []string
				for _, u := range degraded(facts) {
					names = append(names, u.Fact)
				}
				if !reflect.DeepEqual(names, c.Degraded) {
					t.Errorf("degraded: got %q, want %q", names, c.Degraded)
				}
			})
		}
	}
}

// compareFacts looks for the wanted fields of objects, and for lists and maps of the same length.
func compareFacts(t *testing.T, facts tape.Facts, fact string, want, got any) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		fields, _ := got.(map[string]any)
		isWhole := strings.Contains(fact, "hugepages") || fact == "guids" // the names are facts as well
		if isWhole && len(fields) != len(want) && !strings.HasPrefix(fact, "evidence") {
			t.Errorf("%s: got %v, want %v", fact, got, want)
		}
		for name, value := range want {
			compareFacts(t, facts, strings.TrimPrefix(fact+"."+name, "."), value, fields[name])
		}
	case []any:
		list, _ := got.([]any)
		if len(list) != len(want) {
			t.Errorf("%s: got %v, want %v", fact, got, want)
			return
		}
		for i, value := range want {
			compareFacts(t, facts, fmt.Sprintf("%s[%d]", fact, i), value, list[i])
		}
	default:
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", fact, got, want)
		}
		if want == nil && !strings.Contains(fact, "[") && why(facts, fact) == "" {
			t.Errorf("%s is null: got no reason, want one", fact)
		}
	}
}
