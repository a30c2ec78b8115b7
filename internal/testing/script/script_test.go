package script

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the page again")

// TestPage compares the tables of README.md with the words, of which each has an example or a reason to have none.
func TestPage(t *testing.T) {
	t.Parallel()
	const begin = "<!-- words -->\n"
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	head, got, _ := strings.Cut(string(text), begin)
	want := page()
	if *update {
		if err := os.WriteFile("README.md", []byte(head+begin+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("README.md: got other tables than the words have, want those of `go test ./internal/testing/script -update`")
	}
}

// TestFewCommands keeps the language small enough to be known.
func TestFewCommands(t *testing.T) {
	t.Parallel()
	const most = 60
	if got := len(Commands()); got > most {
		t.Errorf("commands: got %d, want %d at most", got, most)
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

// diskNode is a node that has a disk only.
func diskNode(t *testing.T) *Player {
	t.Helper()
	dir := t.TempDir()
	d := Disk{T: t, Path: func(name string) string { return filepath.Join(dir, name) }}

	return New(t, Node{Commands: d.Commands(), Facts: d.Facts()})
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
	l, err := parse("here", "repeat 1 write ${DIR}/a $DIR ; is file /etc/a /etc ; write /b x\\n ; is file /b x\\n ; fails any no move /x /y")
	if err != nil {
		t.Fatal(err)
	}
	p.Play([]Line{l})
	if p.Err == nil {
		t.Error("move of a file that is missing: got no error, want one")
	}
	for _, line := range []string{
		"is file /etc/a x", "! is file /etc/a /etc", "has file /etc/a x", "matches file /etc/a ^x",
	} {
		l, err := parse("here", line)
		if err != nil {
			t.Fatal(err)
		}
		p.Line = l
		if why := p.look(l.Words[0], l.Words[1:]); why == "" {
			t.Errorf("%s: got no difference, want one", line)
		}
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"2 1..3": true, "2 ..3": true, "2 2..": true, "4 ..3": false, "1 2..": false, "3s 2s..1m": true, "3s ..1s": false,
		"x 1..2": false, "2 x..3": false, "2 2": false,
	} {
		got, within, _ := strings.Cut(line, " ")
		if is := isWithin(got, within); is != want {
			t.Errorf("%s: got %t, want %t", line, is, want)
		}
	}
}
