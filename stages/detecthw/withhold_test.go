package detecthw

import (
	"testing"

	"github.com/zclconf/go-cty/cty"
)

// A part that a recording leaves out is unknown, and nothing else changes.
func TestWithhold(t *testing.T) {
	text := cty.StringVal
	object := func(mac, name cty.Value) cty.Value {
		return cty.ObjectVal(map[string]cty.Value{"mac": mac, "name": name})
	}
	value := func(mac, serial, last cty.Value) cty.Value {
		return cty.ObjectVal(map[string]cty.Value{
			"by_name": cty.MapVal(map[string]cty.Value{
				"a/b": object(mac, text("a")),
				"c":   object(text("02:03"), text("c")),
			}),
			"disks":  cty.ListVal([]cty.Value{object(text("04"), serial), object(text("05"), text("d1"))}),
			"report": cty.TupleVal([]cty.Value{text("first"), last}),
			"null":   cty.NullVal(cty.Map(cty.String)),
		})
	}
	whole := value(text("02:01"), text("d0"), cty.True)
	unknown := cty.UnknownVal(cty.String)

	for _, c := range []struct {
		name     string
		pointers []string
		want     cty.Value // cty.NilVal: an error
	}{
		{"nothing", nil, whole},
		{
			"in a map, a list and a tuple",
			[]string{"/by_name/a~1b/mac", "/disks/0/name", "/report/1"},
			value(unknown, unknown, cty.UnknownVal(cty.Bool)),
		},
		{"twice", []string{"/disks/0/name", "/disks/0/name"}, value(text("02:01"), unknown, cty.True)},
		{"the whole value", []string{""}, cty.NilVal},
		{"no such attribute", []string{"/disks/0/serial"}, cty.NilVal},
		{"no such key", []string{"/by_name/x/mac"}, cty.NilVal},
		{"behind the end", []string{"/disks/2/name"}, cty.NilVal},
		{"in a null", []string{"/null/x"}, cty.NilVal},
		{"in a text", []string{"/disks/0/name/0"}, cty.NilVal},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := withhold(whole, "facts", c.pointers)
			if c.want == cty.NilVal {
				if err == nil {
					t.Errorf("withhold(%q): got no error, want one", c.pointers)
				}
				return
			}
			if err != nil || !got.RawEquals(c.want) {
				t.Errorf("withhold(%q): got %#v, %v; want %#v", c.pointers, got, err, c.want)
			}
		})
	}

	got, err := withhold(whole, "facts", []string{"/disks", "/disks/0/name"})
	if err != nil || got.GetAttr("disks").IsKnown() {
		t.Errorf("a part and one in it: got %#v, %v; want unknown disks", got, err)
	}
}
