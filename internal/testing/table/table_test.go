package table

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type row struct {
	Text, Quoted string
	Mode         os.FileMode
	Is           bool
	Wait         time.Duration
	Words        []string
	Numbers      []int
}

func TestRows(t *testing.T) {
	got := Rows[row](t, `
		# text     | quoted    | mode  | is    | wait  | words     | numbers
		a|b "c"    | " d|\n"   | 0o640 | true  | 1m30s | a "b c" | 1 -2
		""         |           |       | false |       |           |
		a | b | 7 | true | 2s
		  | "x y" z
		  | 3
	`)
	want := []row{
		{`a|b "c"`, " d|\n", 0o640, true, 90 * time.Second, []string{"a", "b c"}, []int{1, -2}},
		{"a", "b", 7, true, 2 * time.Second, []string{"x y", "z"}, []int{3}},
	}
	want = append(want[:1:1], row{}, want[1])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestMap(t *testing.T) {
	got := Map[bool](t, `
		one | true
		""  | false
	`)
	if diff := cmp.Diff(map[string]bool{"one": true, "": false}, got); diff != "" {
		t.Errorf("rows by name (-want +got):\n%s", diff)
	}
	named := Map[[]string](t, `
		{dir}/a | {dir}/b {other}
		none | ""
		last | a ""
	`, "dir", "/x | y")
	if diff := cmp.Diff(map[string][]string{"/x | y/a": {"/x | y/b", "{other}"}, "none": nil, "last": {"a", ""}}, named); diff != "" {
		t.Errorf("texts by name (-want +got):\n%s", diff)
	}
}
