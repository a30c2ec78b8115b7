package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/prelet/prelet/internal/machine/probe/hardware/hwtree"
	"github.com/prelet/prelet/internal/testing/osfile"
)

const tutorial = "../../docs/tutorial.md"

// step is one command of the tutorial and what the page says that it prints. A line "…" stands for any number of lines.
type step struct {
	command string
	says    []string
}

// steps are the commands in the page's ```console blocks. A here-document belongs to its command.
func steps(page string) (out []step) {
	for _, block := range regexp.MustCompile("(?ms)^```console\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		document := false
		for _, line := range strings.Split(strings.TrimSuffix(block[1], "\n"), "\n") {
			command, ok := strings.CutPrefix(line, "$ ")
			switch {
			case document:
				out[len(out)-1].command += "\n" + line
				document = line != "EOF"
			case ok:
				out = append(out, step{command: command})
				document = strings.HasSuffix(command, "<<'EOF'")
			default:
				last := &out[len(out)-1]
				last.says = append(last.says, line)
			}
		}
	}
	return out
}

// like reports whether the lines have the words that the page shows. A page breaks its lines as a terminal does, and a
// pipe does not.
func like(page, lines []string) bool {
	pattern := ""
	for _, line := range page {
		if line == "…" {
			pattern += `(\S+ )*?`
			continue
		}
		for _, word := range strings.Fields(line) {
			pattern += regexp.QuoteMeta(word) + " "
		}
	}
	words := ""
	for _, word := range strings.Fields(strings.Join(lines, " ")) {
		words += word + " "
	}
	const branch = "│ " // is repeated where a line of a tree is broken

	return regexp.MustCompile("^" + strings.ReplaceAll(pattern, branch, "") + "$").
		MatchString(strings.ReplaceAll(words, branch, ""))
}

func TestLike(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		page, lines []string
		want        bool
	}{
		{nil, nil, true},
		{nil, []string{"a"}, false},
		{[]string{"a"}, nil, false},
		{[]string{"…"}, nil, true},
		{[]string{"a", "…", "c"}, []string{"a", "b", "b", "c"}, true},
		{[]string{"a", "…", "c"}, []string{"a", "b", "c", "d"}, false},
		{[]string{"…", "b"}, []string{"a", "c"}, false},
	} {
		if got := like(c.page, c.lines); got != c.want {
			t.Errorf("%q, %q: %v", c.page, c.lines, got)
		}
	}
}

// TestTutorial types every command of docs/tutorial.md into one shell and compares what it prints with the page.
func TestTutorial(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatalf("look for bash, which the tutorial uses: got error %v, want none", err)
	}
	page, err := os.ReadFile(tutorial)
	noError(t, err)
	all := steps(string(page))
	if len(all) < 20 {
		t.Fatalf("the tutorial has %d commands", len(all))
	}
	clone := t.TempDir()
	program, err := exec.LookPath("prelet") // the test's own
	noError(t, err)
	examples, err := filepath.Abs("../../examples")
	noError(t, err)
	otherCA := fstest.MapFS{"other-ca.crt": {Data: osfile.Read(t, "testdata/other-ca.crt")}}
	machines := filepath.Join(clone, "bin/machines")
	for _, err := range []error{
		os.MkdirAll(machines, 0o755),
		os.Symlink(program, filepath.Join(clone, "bin/prelet")),
		os.CopyFS(filepath.Join(clone, "examples"), os.DirFS(examples)),
		os.CopyFS(filepath.Join(clone, "cmd/prelet/testdata"), otherCA),
		hwtree.BuildFile("../../testdata/hardware/spec/dgx-h100.json", machines+"/dgx-h100"),
		hwtree.BuildFile("../../testdata/hardware/spec/two-sockets.json", machines+"/two-sockets"),
	} {
		noError(t, err)
	}
	const mark = "\x1e"
	var script strings.Builder
	for _, s := range all {
		script.WriteString(
			s.command + "\nstatus=$?; [ $status = 0 ] || echo \"[exit status $status]\"; printf '" + mark + "'\n",
		)
	}
	c := exec.Command(bash, "--noprofile", "--norc", "-c", script.String())
	c.Dir = clone
	c.Env = slices.DeleteFunc(
		os.Environ(),
		func(v string) bool { return strings.HasPrefix(v, "CREDENTIALS_DIRECTORY=") },
	)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	printed := strings.Split(out.String(), mark)
	if len(printed) != len(all)+1 {
		t.Fatalf("%d of %d commands ran:\n%s", len(printed)-1, len(all), out.String())
	}
	clock := regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`)
	for i, s := range all {
		text := clock.ReplaceAllString(strings.TrimSuffix(printed[i], "\n"), "2026-11-20 10:14:39")
		var lines []string
		if text != "" {
			lines = strings.Split(text, "\n")
		}
		if !like(s.says, lines) {
			t.Errorf("$ %s\nprints\n%s\nand the tutorial says\n%s", s.command, text, strings.Join(s.says, "\n"))
		}
	}
}
