package condition

import (
	"reflect"
	"testing"
)

func TestChanges(t *testing.T) {
	t.Parallel()
	ready := Condition{"Ready", True, "KubeletReady", "kubelet is posting ready status"}
	was := Condition{"example.com/A", False, Booting, "m"}
	is := Condition{"example.com/A", True, Verified, "m"}
	other := Condition{"example.com/A", False, CheckFailed, "7 of 8"}
	b := Condition{"example.com/B", True, Verified, "m"}

	for _, c := range []struct {
		name       string
		have, want []Condition
		owned      []string
		out        Patch
	}{
		{"new", []Condition{ready}, []Condition{is}, nil, Patch{Set: []Condition{is}, Turned: []string{is.Type}}},
		{"equal", []Condition{ready, is}, []Condition{is}, []string{is.Type}, Patch{}},
		{"turned", []Condition{was}, []Condition{is}, nil, Patch{Set: []Condition{is}, Turned: []string{is.Type}}},
		{"another reason", []Condition{was}, []Condition{other}, nil, Patch{Set: []Condition{other}}},
		{"only what differs", []Condition{was, b}, []Condition{is, b}, nil,
			Patch{Set: []Condition{is}, Turned: []string{is.Type}}},
		{"dropped", []Condition{ready, is, b}, []Condition{b}, []string{is.Type, b.Type},
			Patch{Remove: []string{is.Type}}},
		{"dropped and not there", []Condition{ready}, nil, []string{is.Type}, Patch{}},
		{"of others", []Condition{ready, b}, nil, nil, Patch{}},
	} {
		got := Changes(c.have, c.want, c.owned)
		if !reflect.DeepEqual(got, c.out) {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.out)
		}
		if got.IsEmpty() != (len(c.out.Set)+len(c.out.Remove) == 0) {
			t.Errorf("%s: got IsEmpty %t for %+v", c.name, got.IsEmpty(), got)
		}
	}
}
