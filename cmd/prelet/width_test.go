package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/testing/sample"
)

// openTerminal makes a terminal of a width. The caller closes its end once a process has it.
func openTerminal(t *testing.T, columns uint16) (master, terminal *os.File) {
	t.Helper()

	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminal can be made here: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns})
	}
	if err != nil {
		t.Fatalf("set up a terminal: got %v, want none", err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("open the terminal: got %v, want none", err)
	}

	return master, terminal
}

// onTerminal runs prelet on a terminal of a width, and returns its output without colours.
func onTerminal(t *testing.T, columns uint16, env []string, args ...string) string {
	t.Helper()

	master, terminal := openTerminal(t, columns)
	c := exec.Command("prelet", args...)
	c.Stdout, c.Stderr = terminal, terminal
	c.Env = append(os.Environ(), env...)
	noError(t, c.Start())
	_ = terminal.Close() // so that the read below ends with the process
	out, _ := io.ReadAll(master)
	_ = c.Wait() // some of the commands fail

	text := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(string(out), "")
	return strings.ReplaceAll(text, "\r\n", "\n")
}

// verbatimLine matches a line that is never broken: a command, a difference of a file, a line of a site, a hash.
var verbatimLine = regexp.MustCompile(`^ +(prelet |[+@-]|[0-9]* *│)|^Plan sha256:`)

// widest returns the number of columns of the longest line that can be broken.
func widest(text string) (columns int) {
	for line := range strings.Lines(text) {
		if verbatimLine.MatchString(line) {
			continue
		}
		columns = max(columns, utf8.RuneCountInString(strings.TrimRight(line, "\n")))
	}

	return columns
}

// Help, pages, plans and messages are as wide as the terminal, at most; COLUMNS overrides its width. In a pipe no line is
// broken, whatever COLUMNS is; JSON never is.
func TestTerminalWidth(t *testing.T) {
	t.Parallel()
	commands := [][]string{
		{"plan", "--help"},
		{"detectors", "check", "--help"},
		{"explain", "code/file-late"},
		{"status", "--root", "/srv"}, // a short path: a path is never broken
		{"validate", "../../internal/lab/testfile/page_head.txt"},
		{"history", "diff", "--help"},
		{"plan", "--from", "../../testdata/recordings/v1/gpu.prelet"},
	}

	chosen := sample.New(t)
	for name := range new(cli).commands() {
		if name != "plan" && !chosen.Has(sample.Quarter(1), name) {
			continue
		}
		got := onTerminal(t, 80, nil, name, "--help")
		if n := widest(got); n > 80 || n < 20 {
			t.Errorf("prelet %s --help on 80 columns: got lines of up to %d, want 20 to 80\n%s", name, n, got)
		}
	}
	for _, args := range commands {
		for _, columns := range []uint16{60, 80, 200} {
			if !chosen.Has(sample.Quarter(1), args, columns) {
				continue
			}
			got := onTerminal(t, columns, nil, args...)
			if n := widest(got); n > int(columns) || n < 20 {
				t.Errorf("prelet %s on %d columns: got lines of up to %d, want 20 to %d\n%s", args, columns, n, columns, got)
			}
		}
	}

	help := []string{"plan", "--help"}
	if n := widest(onTerminal(t, 200, nil, help...)); n <= 80 {
		t.Errorf("help on 200 columns: got %d columns, want more than 80", n)
	}
	if n := widest(onTerminal(t, 200, []string{"COLUMNS=60"}, help...)); n > 60 {
		t.Errorf("help with COLUMNS=60: got %d columns, want 60 or fewer", n)
	}

	for _, args := range commands {
		if !chosen.Has(sample.Quarter(1), args, "piped") {
			continue
		}
		piped := exec.Command("prelet", args...)
		piped.Env = append(os.Environ(), "COLUMNS=60")
		out, _ := piped.CombinedOutput() // some of the commands fail
		want := onTerminal(t, 80, []string{"COLUMNS=100000"}, args...)
		isProse := args[len(args)-1] == "--help" || args[0] == "explain" // keeps the lines that its writer has made
		if got := string(out); got != want && !isProse {
			t.Errorf("prelet %s in a pipe: got\n%s\nwant no line broken:\n%s", args, got, want)
		}
	}
	document := onTerminal(t, 60, nil, "plan", "--from", "../../testdata/recordings/v1/gpu.prelet", "-o", "json")
	if lines := strings.Count(strings.TrimSpace(document), "\n"); lines != 0 {
		t.Errorf("JSON on a terminal: got %d line breaks, want none\n%.300s", lines, document)
	}
}
