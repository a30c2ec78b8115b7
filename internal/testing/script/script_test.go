package script

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the page again")

// TestPage compares the tables of README.md with the words.
func TestPage(t *testing.T) {
	t.Parallel()
	const begin = "<!-- words -->\n"
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	head, got, _ := strings.Cut(string(text), begin)
	lines := readLines(t)
	want := page(func(f Form) string { return lines[f.keys()[0]] })
	if *update {
		if err := os.WriteFile("README.md", []byte(head+begin+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("README.md: got other tables than the words, want `go test ./internal/testing/script -update`")
	}
}

// TestFewCommands keeps the language small enough to be known: the commands, and in place of those with verbs the verbs.
func TestFewCommands(t *testing.T) {
	t.Parallel()
	const most = 141
	known := map[string]bool{}
	for _, w := range Commands() {
		known[w.Name] = !strings.HasPrefix(w.Args, "VERB") && w.Name != "enter"
	}
	for _, f := range Forms() {
		if args := f.arguments(); !known[f.Name] {
			for _, verb := range args[0].words {
				known[f.Name+" "+verb] = true
			}
		}
	}
	maps.DeleteFunc(known, func(_ string, is bool) bool { return !is })
	if got := len(known); got > most {
		t.Errorf("commands and verbs: got %d, want %d at most", got, most)
	}
	for _, words := range [][]Word{Commands(), Facts()} {
		seen := map[string]bool{}
		for _, w := range words {
			if seen[w.Name] || w.Does == "" {
				t.Errorf("%s: got it twice or without a text, want it once, with one", w.Name)
			}
			seen[w.Name] = true
		}
	}
}

// TestWords: each command has an example with it, which a node of the page plays. So has each fact that has one.
func TestWords(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	nodes := []string{"disk"}
	for _, row := range regexp.MustCompile(`(?m)^\| (\w+) \| \[`).FindAllStringSubmatch(string(text), -1) {
		nodes = append(nodes, row[1])
	}
	hasNone := func(w Word) bool { return w.Example == "" && w.On == "" }
	words := slices.Concat(Commands(), slices.DeleteFunc(Facts(), hasNone))
	for _, w := range words {
		if w.Name == "skip" { // which would skip its example
			continue
		}
		if !slices.Contains(nodes, w.On) || !slices.Contains(strings.Fields(w.Example), w.Name) {
			t.Errorf("%s: got the example %q of the node %q, want one with the word, of one of %v",
				w.Name, w.Example, w.On, nodes)
		}
	}
}

// diskNode is a node that has a disk only.
func diskNode(t *testing.T) *Player {
	t.Helper()
	dir := t.TempDir()
	d := Disk{T: t, Path: func(name string) string { return filepath.Join(dir, name) }}

	return New(t, Node{Name: "disk", Commands: d.Commands(), Facts: d.Facts()})
}

func TestExamples(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a file to another user")
	}
	Examples(t, "disk", func(t *testing.T, lines []Line) { diskNode(t).Play(lines) })
}

// TestLoad reads an archive with a matrix, conditions, parts and files.
func TestLoad(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "one.txtar")
	if err := os.WriteFile(file, []byte(`Prose.
-- one $X --
matrix X a b
write $X 'it''s $Y' # a comment
[X:a] ! is file a
[root] is file $Y
== act 1 2
write x
-- site.hcl --
text
`), 0o600); err != nil {
		t.Fatal(err)
	}
	scripts := Load(t, file)
	if len(scripts) != 2 || scripts[0].Name != "one a" || len(scripts[1].Lines) != 4 {
		t.Fatalf("scripts: got %+v, want `one a` and `one b`, of 5 and 4 lines", scripts)
	}
	got := scripts[0].Lines
	if want := "it's $Y"; got[0].Words[2] != want || !got[1].Not || got[2].If[0] != "root" {
		t.Errorf("lines: got %+v, want %q, `!`, and a condition", got, want)
	}
	parts, words := Parts(got)
	if len(parts["act"]) != 1 || strings.Join(words["act"], " ") != "1 2" || len(parts[""]) != 3 {
		t.Errorf("parts: got %v, %v; want one of act, with `1 2`, and three before it", parts, words)
	}
	dir := t.TempDir()
	if err := scripts[0].Extract(dir); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "site.hcl")); string(text) != "text\n" {
		t.Errorf("site.hcl: got %q, %v; want the script's", text, err)
	}
}

// TestPlay plays what Examples does not.
func TestPlay(t *testing.T) {
	t.Parallel()
	p := diskNode(t)
	p.Set("DIR", "/etc")
	p.Play([]Line{line(t, `repeat 1 write ${DIR}/a $DIR ; is file /etc/a /etc ; write /b x\n ; is file /b x\n ; `+
		"fails any no move /x /y")})
	if p.Err == nil {
		t.Error("move of a file that is missing: got no error, want one")
	}
}

func line(t *testing.T, text string) Line {
	t.Helper()
	l, err := parse("here", text)
	if err != nil {
		t.Fatal(err)
	}

	return l
}

// recorder is a test that notes why it fails.
type recorder struct {
	testing.TB
	text string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) { r.text += fmt.Sprintf(format, args...) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(r)
}

// failure returns why a test fails, or "".
func failure(t *testing.T, do func(t testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	func() {
		defer func() {
			if why := recover(); why != nil && why != any(r) {
				panic(why)
			}
		}()
		do(r)
	}()

	return r.text
}

// TestFailures plays lines that fail: a script never passes because of a mistake in it.
func TestFailures(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"is file /a x":             `here: is file /a x` + "\n" + `file: got "one", want is "x"`,
		"! is file /a one":         `want ! is "one"`,
		"has file /a one x":        `want has "x"`,
		"! has file /a x one":      `want ! has "one"`,
		"matches file /a ^x":       `want matches "^x"`,
		"matches file /a (":        "want an expression",
		"is file /a":               "want 1 and a text, such as ''",
		"has file /a":              "want 1 and a text",
		"is exists":                "want `is FACT TEXT…`",
		"is other /a x":            "want one that this node has",
		"is file /a/b ''":          `here: is file /a/b ''` + "\n" + `file: got "absent", want is ""`,
		"write /a":                 "want `write PATH TEXT [MODE]`",
		"move /x /y /z":            "want `move FROM TO`",
		"spoil /a":                 "want `spoil PATH flip`",
		"spoil /a other":           "want `spoil PATH flip` or `spoil PATH fifo|folder|socket`",
		"spoil /a flip x":          "want `spoil PATH flip`",
		"apply p1 a=1":             "want one that this node has",
		"other":                    "want one that this node has",
		"move /x /y":               "want no error",
		"! write /a one":           "got no error, want one",
		"fails any '' write /a 1":  "got <nil>, want any",
		"fails z '' move /x /y":    `want z and ""`,
		"fails any ? move /x /y":   `want any and "?"`,
		"! fails any '' write /a":  "got ! before fails",
		"! set X a":                "got ! before set",
		"repeat 0 write /a 1":      "want 1 at least",
		"repeat 1 write /a 1 ; ;":  "want one, also before and after each ;",
		"until !":                  "want `is`, `has` or `matches`",
		"until file /a one":        "want `is`, `has` or `matches`",
		"until ! has file /a x ne": `want ! has "ne"`,
		"[root] is file /a one":    "want one of the matrix",
		"later move /x /y":         "want no error",
		"spoil /empty flip":        "has no bit to flip",
	} {
		got := failure(t, func(r testing.TB) {
			p := diskNode(t)
			p.T = r
			p.Wait = func(_ string, check func() string) { r.Errorf("%s", check()) }
			p.Play([]Line{line(t, "write /a one"), line(t, "write /empty ''")})
			if command, isLater := strings.CutPrefix(text, "later "); isLater { // while something else may fail
				later := p.Later(strings.Fields(command))
				p.mayFail = true
				later()
				return
			}
			p.Play([]Line{line(t, text)})
		})
		if !strings.Contains(got, want) {
			t.Errorf("%s: got the failure %q, want %q", text, got, want)
		}
	}
}

// TestNodes makes nodes with commands and facts that the language does not have.
func TestNodes(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"other": "of a node", "set": "of a node", "write": "", "apply": "only the node",
	} {
		got := failure(t, func(r testing.TB) {
			d := Disk{T: t}
			one := map[string]Command{name: func([]string) error { return nil }}
			New(r, Node{Name: "disk", Commands: Merge(d.Commands(), one), Facts: d.Facts()})
		})
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("command %s: got the failure %q, want %q", name, got, want)
		}
	}
	got := failure(t, func(r testing.TB) {
		d := Disk{T: t}
		New(r, Node{Name: "disk", Commands: d.Commands(), Facts: Merge(d.Facts(), map[string]Fact{"other": {}})})
	})
	if want := "none in the language"; !strings.Contains(got, want) {
		t.Errorf("a fact: got the failure %q, want %q", got, want)
	}
}

// TestArchives loads archives with mistakes.
func TestArchives(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                               `script "x": got no line`,
		"-- a --\nwrite /a 1\n-- b --\n": `script "b": got no line`,
		"matrix X\nwrite /a 1\n":         "want a name and values",
		"matrix X a\n[X:b] write /a 1":   "x.txtar:2: got the condition X:b, want a value of the matrix",
		"[X:b] write /a 1":               "",
		"-- f.txt --\n\n-- a --\n\nx 'y": `x.txtar:5: got "x 'y", want the end of a quoted word`,
	} {
		got := failure(t, func(r testing.TB) {
			file := filepath.Join(t.TempDir(), "x.txtar")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			Load(r, file)
		})
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%q: got the failure %q, want %q", text, got, want)
		}
	}
}

// TestLines prints lines as they are written, after the matrix.
func TestLines(t *testing.T) {
	t.Parallel()
	text := "matrix A x y # values\nmatrix AB z\nwrite $A/$AB${A}b 'it''s $A' '' # why\n! is file '#' $OTHER"
	scripts := section{"one $A", 7, text}.parse(t, "f", nil)
	if len(scripts) != 2 || scripts[1].Name != "one y" || len(scripts[1].Lines) != 2 {
		t.Fatalf("scripts: got %+v, want `one x` and `one y`, of two lines each", scripts)
	}
	for i, want := range []string{"f:10: write y/zyb 'it''s y' ''", "f:11: ! is file '#' $OTHER"} {
		if got := scripts[1].Lines[i].String(); got != want {
			t.Errorf("line %d: got %s, want %s", i, got, want)
		}
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"2 1..3": true, "2 ..3": true, "2 2..": true, "4 ..3": false, "1 2..": false, "3s 2s..1m": true,
		"3s ..1s": false,
		"2 ..":    false, "x 1..2": false, "2 x..3": false, "2 2": false,
	} {
		got, within, _ := strings.Cut(line, " ")
		if is := isWithin(got, within); is != want {
			t.Errorf("%s: got %t, want %t", line, is, want)
		}
	}
}

// playedBy are the scripts of each node.
var playedBy = map[string][]string{
	"store": {"internal/machine/generation/testdata/scripts/*.txtar"},
	"machine": {
		"internal/machine/activation/testdata/scripts/*.txtar",
		"internal/machine/activation/testdata/stories*.txtar",
	},
	"run":     {"internal/machine/commit/testdata/runs.txtar"},
	"faults":  {"test/faults/testdata/rows.txtar"},
	"program": {"cmd/prelet/testdata/nodes/*.txtar"},
	"system":  {"test/boot/testdata/boots/*.txtar"},
}

// TestForms reads the scripts of all nodes, and their examples: each line has a form of its command, and each form, with
// each of its words, is that of a line of each node that has it.
func TestForms(t *testing.T) {
	t.Parallel()
	lines := readLines(t)
	for node := range playedBy {
		for _, f := range slices.Concat(slices.Collect(maps.Values(findForms(node)))...) {
			for _, key := range f.keys() {
				if key.node = node; f.In == "all" {
					key.node = ""
				}
				if lines[key] == "" && f.Name != "matrix" { // which Load removes
					t.Errorf("%+v: got no line in the scripts of %s, want one", key, cmp.Or(key.node, "all nodes"))
				}
			}
		}
	}
}

// formKey is one of the words of a form, or none, and a node that has it, or any.
type formKey struct{ node, in, form, word string }

// keys returns those of a form in any node, that of no word first.
func (f Form) keys() []formKey {
	keys := []formKey{{"", f.In, f.String(), ""}}
	for _, a := range f.arguments() {
		for _, word := range a.words {
			keys = append(keys, formKey{"", f.In, f.String(), word})
		}
	}

	return keys
}

// readLines returns the shortest line of the scripts, and of the examples of words, for each form, its words and nodes.
// The tests of the nodes play these scripts.
func readLines(t *testing.T) map[formKey]string {
	t.Helper()
	lines := map[formKey]string{}
	for node, patterns := range playedBy {
		r := &reader{T: t, node: node, forms: findForms(node), lines: lines}
		for _, w := range slices.Concat(Commands(), Facts()) {
			if w.On == node {
				r.read((section{w.Name, 0, w.Example}).parse(t, "example of "+w.Name, nil))
			}
		}
		for _, pattern := range patterns {
			files, err := filepath.Glob("../../../" + pattern)
			if err != nil || len(files) == 0 {
				t.Fatalf("%s: got %d files, %v; want some", pattern, len(files), err)
			}
			for _, file := range files {
				r.read(Load(t, file))
			}
		}
	}

	return lines
}

// reader reads the scripts of a node without playing them.
type reader struct {
	*testing.T
	node  string
	forms map[string][]Form
	lines map[formKey]string
}

func (r *reader) read(scripts []Script) {
	for _, s := range scripts {
		for _, l := range s.Lines {
			if l.Words[0] != "==" {
				r.line(l)
			}
		}
	}
}

// isOpen reports whether a word may be any.
func isOpen(word string) bool { return strings.Contains(word, "$") }

// line reads a line, in which $NAME may be any word, and the commands in it.
func (r *reader) line(l Line) {
	r.Helper()
	if len(l.Words) == 0 || r.forms[l.Words[0]] == nil {
		r.Errorf("%s: got no command of %s, want one", l, r.node)
		return
	}
	forms, args := r.forms[l.Words[0]], l.Words[1:]
	nearest, found := choose(forms, args, isOpen)
	if found == nil {
		r.Errorf("%s: got other arguments, want %s", l, nearest)
		return
	}
	r.keep(l, *found)
	if i := slices.Index(strings.Fields(found.Args), "COMMAND…"); i >= 0 {
		for _, inner := range Sequence(l.At, args[i:], nests...) {
			for _, value := range strings.Split(args[0], ",") {
				one := inner
				one.Words = slices.Clone(inner.Words)
				for i, word := range one.Words {
					one.Words[i] = strings.ReplaceAll(word, "%", value)
				}
				r.line(one)
			}
		}
	}
	if slices.Contains([]string{"is", "has", "matches"}, l.Words[0]) {
		isFact := func(w Word) bool { return w.Name == args[0] && includes(w.In, r.node) }
		if !isOpen(args[0]) && !slices.ContainsFunc(Facts(), isFact) {
			r.Errorf("%s: got no fact of %s, want one", l, r.node)
		}
	}
}

// keep keeps a line for its form and words, if it is the best so far: the shortest that succeeds, has no $NAME, and has
// all arguments of the form.
func (r *reader) keep(l Line, f Form) {
	text := strings.TrimPrefix(l.String(), l.At+": ")
	weigh := func(text string) string {
		isShort := len(strings.Fields(text)) <= len(f.arguments())
		return fmt.Sprintf("%t %t %t %3d %s", strings.HasPrefix(text, "! "), isOpen(text), isShort, len(text), text)
	}
	for _, key := range f.keys() {
		isUsed := key.word == "" || slices.ContainsFunc(l.Words[1:], func(w string) bool { return w == key.word || isOpen(w) })
		for _, key.node = range []string{"", r.node} {
			if old := r.lines[key]; isUsed && (old == "" || weigh(text) < weigh(old)) {
				r.lines[key] = text
			}
		}
	}
}
