package printer

import (
	"bytes"
	"math/rand"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/testing/table"
)

// No line is wider than it may be, unless one word is, and no word is lost.
func TestTablesKeepTheirWidth(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	word := func(most int) string { return strings.Repeat("w", 1+r.Intn(most)) }
	for range 500 {
		var rows [][]string
		cells := 1 + r.Intn(9)
		var all []string
		for range 1 + r.Intn(6) {
			row := make([]string, cells)
			for i := range row {
				row[i] = word(14)
			}
			for range r.Intn(12) {
				row[cells-1] += " " + word(14)
			}
			if cells > 3 { // folded rows are not broken
				row[cells-1] = word(14)
			}
			rows = append(rows, row)
			all = append(all, strings.Fields(strings.Join(row, " "))...)
		}
		ls := Style{}.table(rows, 78, nil)
		for _, l := range ls {
			if columns(l) > 78 && cells <= 5 {
				t.Fatalf("got %d columns, want no more than the width: %q", columns(l), l)
			}
			if strings.TrimRight(l, " ") != l {
				t.Fatalf("got %q, want no spaces at the end", l)
			}
		}
		if got := strings.Fields(strings.Join(ls, " ")); strings.Join(got, " ") != strings.Join(all, " ") {
			t.Fatalf("got  %q\nwant %q", got, all)
		}
	}
}

func TestALongFirstCellDoesNotPushTheOthers(t *testing.T) {
	got := strings.Join(
		Style{}.table(
			[][]string{
				{"a=1", "label.a site.hcl:1"},
				{strings.Repeat("b", 70), "label.b site.hcl:2"},
				{"cc=1", "label.c site.hcl:3"},
			},
			78,
			nil,
		),
		"\n",
	)
	want := "a=1   label.a site.hcl:1\n" + strings.Repeat(
		"b",
		70,
	) + "\n    label.b site.hcl:2\ncc=1  label.c site.hcl:3"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// An unreachable cluster affects every stage that reads from it: the reason is printed once.
func TestOneReasonIsToldOnce(t *testing.T) {
	const reason = "https://10.0.0.11:6443: connection refused (tried 12 times). Check that `servers` in the " +
		"cluster block is right and that this node reaches it."
	at := func(line int) hcl.Range {
		return hcl.Range{Filename: "site.hcl", Start: hcl.Pos{Line: line, Column: 1}}
	}
	var b bytes.Buffer
	err := Diagnostics(&b, nil, hcl.Diagnostics{
		origin.Error(fault.ClusterUnreachable, at(1), "Cannot reach the cluster for the cluster's CA", "%s", reason),
		origin.Error(
			fault.ClusterUnreachable,
			at(2),
			"Cannot reach the cluster for ConfigMap kube-system/kubelet-config",
			"%s",
			reason,
		),
	}, Style{Width: 80})
	want := `Error: Cannot reach the cluster for the cluster's CA [cluster-unreachable]
  site.hcl:1:1
  https://10.0.0.11:6443: connection refused (tried 12 times). Check that
  ` + "`servers`" + ` in the cluster block is right and that this node reaches it.

Error: Cannot reach the cluster for ConfigMap kube-system/kubelet-config
       [cluster-unreachable]
  site.hcl:2:1
  For the same reason as above.

`
	if err != nil || b.String() != want {
		t.Errorf("got %v and\n%s\nwant no error and\n%s", err, b.String(), want)
	}
}

// What a file holds is shown, and does not act on the terminal.
func TestSnippetsAreHarmless(t *testing.T) {
	src := []byte("# \x1b]0;title\a\x00\xe9 grün\n")
	if got := snippet(t, src, 2, 3); !strings.Contains(got, "   1 │ # ·]0;title··") ||
		!strings.Contains(got, "grün\n     │   ^\n") ||
		strings.ContainsAny(got, "\x1b\a\x00") {
		t.Errorf("got %q, want no control character", got)
	}
}

// snippet is the message about some bytes of a file.
func snippet(t *testing.T, src []byte, from, to int) string {
	t.Helper()
	place := hcl.Range{
		Filename: "x.hcl",
		Start:    hcl.Pos{Line: 1, Column: from + 1, Byte: from},
		End:      hcl.Pos{Line: 1, Column: to + 1, Byte: to},
	}
	d := origin.Error(fault.WrongType, place, "Wrong", "It is.")
	var b bytes.Buffer
	must(t, Diagnostics(&b, map[string][]byte{"x.hcl": src}, hcl.Diagnostics{d}, Style{Width: 80}))

	return b.String()
}

// TestSnippetsHideUsers hides the user and the password of a URL, and keeps the mark below its place.
func TestSnippetsHideUsers(t *testing.T) {
	src := []byte("discovery_file = \"https://me:canary@boot.example/x\" wrong\n")
	at := bytes.Index(src, []byte("wrong"))
	want := "   1 │ discovery_file = \"https://*********@boot.example/x\" wrong\n     │ " +
		strings.Repeat(" ", at) + "^^^^^\n"
	if got := snippet(t, src, at, at+5); !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Of a long line the part around the place is shown, as much of it as there is room for.
func TestSnippetsOfLongLines(t *testing.T) {
	src := []byte(strings.Repeat("a", 90) + " wrong " + strings.Repeat("b", 90))
	text := snippet(t, src, 91, 96)
	ls := strings.Split(text, "\n")
	line, mark := []rune(ls[2]), []rune(ls[3])
	from := strings.IndexRune(string(mark), '^')
	from = len([]rune(string(mark)[:from]))
	if len(line) != 80 || len(mark) > 80 || string(line[from:from+5]) != "wrong" || string(mark[from:]) != "^^^^^" {
		t.Errorf("got %d, %d columns, want 80 with a mark below the word:\n%s", len(line), len(mark), text)
	}
}

// Colour is for terminals, unless somebody wants none.
func TestColour(t *testing.T) {
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("needs a pseudo terminal:", err)
	}
	defer tty.Close()
	for _, c := range table.YAML[[]struct {
		Env    map[string]string
		Colour bool
	}](t, `
- {colour: true}
- {env: {NO_COLOR: '1'}}
- {env: {NO_COLOR: ''}, colour: true}
- {env: {TERM: dumb}}
`) {
		if got := StyleOf(tty, func(k string) string { return c.Env[k] }); got.Colour != c.Colour || got.Width != 80 {
			t.Errorf("%v: %+v", c.Env, got)
		}
	}
	if StyleOf(&bytes.Buffer{}, func(string) string { return "" }).Colour {
		t.Error("got a terminal of a buffer, want none")
	}
}

// A command in a message is pasted as one line.
func TestCommandsAreNotBroken(t *testing.T) {
	const command = "    kubectl -n kube-system create rolebinding prelet:kubelet-config " +
		"--role=prelet:kubelet-config --group=system:nodes"
	if got := (Style{}).wrap("Allow it:\n"+command, 40); len(got) != 2 || got[1] != command {
		t.Errorf("%q", got)
	}
}
