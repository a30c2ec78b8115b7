package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/model/secret"
)

// A wait for a server is a line on the terminal of stderr, with what is waited for, since when, until when and why. It
// is gone at the end. Elsewhere it is not written.
func TestWaitsOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	site := filepath.Join(dir, "site.hcl")
	text := "cluster {\n  servers = [\"https://127.0.0.1:1\"]\n  retry   = \"5s\"\n  ca_cert_hashes = [\"sha256:" +
		strings.Repeat("0", 64) + "\"]\n}\nstage \"fetch-ca\" \"cluster\" {}\nstage \"write\" \"kubelet\" {}\n"
	noError(t, os.WriteFile(site, []byte(text), 0o600))
	args := []string{"plan", "--config", site, "--root", dir}

	master, terminal := openTerminal(t, 160)
	c := exec.Command("prelet", args...)
	c.Env = append(os.Environ(), "TERM=xterm")
	var stdout bytes.Buffer
	c.Stdout, c.Stderr = &stdout, terminal
	noError(t, c.Start())
	_ = terminal.Close()
	shown, _ := io.ReadAll(master)
	_ = c.Wait() // the server is unreachable

	line := regexp.MustCompile(`waiting since (..:..:..) \(\d+s\), until (..:..:..), for the cluster's CA: ` +
		`https://127.0.0.1:1: connection refused`)
	if got := line.FindSubmatch(shown); got == nil || string(got[1]) == string(got[2]) { // later may be after midnight
		t.Errorf("a wait on a terminal: got %q, want a line that matches %s", shown, line)
	}
	last := bytes.LastIndex(shown, []byte("waiting since"))
	if !bytes.Contains(shown[max(last, 0):], []byte("\r\x1b[2K")) || strings.Contains(stdout.String(), "since") {
		t.Errorf("a wait that is over: got %q and %q, want the line to be taken away, and none on stdout", shown, &stdout)
	}

	piped, _ := exec.Command("prelet", args...).CombinedOutput()
	if bytes.Contains(piped, []byte("since")) || bytes.ContainsAny(piped, "\r\x1b") {
		t.Errorf("a wait in a pipe: got %q, want no progress line", piped)
	}
}

// What is counted is shown after a second, and taken away before other output; inside of a line it is not drawn.
func TestProgressLine(t *testing.T) {
	t.Parallel()
	var terminal bytes.Buffer
	p := newProgressLine(&terminal, 80, strings.ToUpper)
	defer p.close()
	screen := printer.NewScreen(&terminal, secret.NewRedactor())
	screen.Hold = p.hold
	look := func() string {
		defer terminal.Reset()
		p.draw()
		return terminal.String()
	}

	p.Count(3, 10)
	if got := look(); got != "" {
		t.Errorf("at the begin: got %q, want nothing", got)
	}
	p.counted = time.Now().Add(-3 * showAfter)
	left := regexp.MustCompile(`3/10 machines  30%  about ([7-9]|\d\d+)s left`) // 7s, unless the test stood still
	if got := look(); !left.MatchString(got) {
		t.Errorf("after a time: got %q, want a match of %s", got, left)
	}
	p.columns = 24
	if got := look(); !strings.Contains(got, "3/10 machines") || strings.Contains(got, "left") {
		t.Errorf("in 24 columns: got %q, want it cut", got)
	}
	p.columns = 80
	_, _ = io.WriteString(screen, "pass ")
	if got := terminal.String(); got != "\r\x1b[2Kpass " {
		t.Errorf("output: got %q, want the line taken away before it", got)
	}
	terminal.Reset()
	if got := look(); got != "" {
		t.Errorf("inside of a line of output: got %q, want nothing", got)
	}
	_, _ = io.WriteString(screen, "x\n")
	p.Count(10, 10)
	terminal.Reset()
	if got := look(); got != "" {
		t.Errorf("at the end of a count: got %q, want nothing", got)
	}

	end := p.Wait("link ib0", time.Time{})
	p.waits[0].began = time.Now().Add(-2 * showAfter)
	if got := look(); !strings.Contains(got, "FOR LINK IB0") {
		t.Errorf("a wait: got %q, want it, redacted", got)
	}
	end()
	terminal.Reset()
	if got := look(); strings.Contains(got, "IB0") {
		t.Errorf("after a wait: got %q, want it gone", got)
	}
}
