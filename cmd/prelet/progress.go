package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/model/secret"
)

// progressLine is the last line of a terminal, which shows the current wait of a command, or how many of its machines
// are done. It appears after one second. All output of the command passes through hold, which takes the line away
// first.
type progressLine struct {
	terminal io.Writer
	redact   func(string) string
	columns  int

	mu      sync.Mutex
	ticks   *time.Ticker // while there is something to show
	waits   []*shownWait // in the order of their begin
	reason  string       // why they last
	until   time.Time    // of the reason
	spinner *progressbar.ProgressBar
	done    int       // of the machines that are counted
	all     int       // 0: nothing is counted
	counted time.Time // the begin of the count
	isDrawn bool
	isInRow bool // the output has ended inside of a line
}

// shownWait is a wait that a progressLine shows.
type shownWait struct {
	what         string
	began, until time.Time
}

// How long something takes before it is shown, and how often the line is drawn.
const (
	showAfter = time.Second
	drawEvery = 200 * time.Millisecond
)

// newProgressLine returns the line of a terminal; nil for other writers.
func (a *cli) newProgressLine() *progressLine {
	if !printer.IsTerminal(a.stderr) || a.getenv("TERM") == "dumb" {
		return nil
	}

	return newProgressLine(a.stderr, printer.WidthOf(a.stderr, a.getenv), a.redact)
}

func newProgressLine(terminal io.Writer, columns int, redact func(string) string) *progressLine {
	p := &progressLine{terminal: terminal, columns: columns, redact: redact}
	p.spinner = progressbar.NewOptions(-1, // it draws only when it is asked to
		progressbar.OptionSetWriter(drawing{p}),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionSetSpinnerChangeInterval(0),
		progressbar.OptionSpinnerType(14),
		progressbar.OptionSetElapsedTime(false),
	)

	return p
}

// drawing is the terminal while the line is drawn.
type drawing struct{ line *progressLine }

// Write implements io.Writer. The line is locked.
func (d drawing) Write(text []byte) (int, error) {
	if !d.line.isDrawn {
		return len(text), nil
	}

	return d.line.terminal.Write(text)
}

// Wait implements machine.Progress.
func (p *progressLine) Wait(what string, until time.Time) (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()

	w := &shownWait{what, time.Now(), until}
	p.waits = append(p.waits, w)
	p.start()

	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waits = slices.DeleteFunc(p.waits, func(o *shownWait) bool { return o == w })
		p.reason = ""
	}
}

// Reason implements machine.Progress.
func (p *progressLine) Reason(why string, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reason, p.until = why, until
}

// Count implements machine.Progress.
func (p *progressLine) Count(done, all int) {
	p.mu.Lock()
	defer p.mu.Unlock()

	switch {
	case done == all:
		all = 0
	case p.all == 0:
		p.counted = time.Now()
		p.start()
	}
	p.done, p.all = done, all
}

// describeCount returns how much of the count is done, and how long the rest takes if it goes on as before.
func (p *progressLine) describeCount() string {
	text := fmt.Sprintf("%d/%d machines  %d%%", p.done, p.all, 100*p.done/p.all)
	if p.done > 0 {
		left := time.Since(p.counted) / time.Duration(p.done) * time.Duration(p.all-p.done)
		text += fmt.Sprintf("  about %s left", left.Round(time.Second))
	}

	return text
}

// start draws the line from time to time. The caller has locked it.
func (p *progressLine) start() {
	if p.ticks != nil {
		return
	}

	ticks := time.NewTicker(drawEvery)
	p.ticks = ticks
	go func() {
		for range ticks.C {
			p.draw()
		}
	}()
}

// draw draws the line, if something takes long.
func (p *progressLine) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.take()
	isLong := func(w *shownWait) bool { return time.Since(w.began) > showAfter }
	at := slices.IndexFunc(p.waits, isLong)
	switch {
	case p.isInRow:
	case p.all > 0 && time.Since(p.counted) > showAfter:
		p.show(p.describeCount())
	case at >= 0:
		p.show(p.redact(p.describe(at)))
	}
}

// show draws the line with a text, cut to the terminal.
func (p *progressLine) show(text string) {
	p.isDrawn = true
	p.spinner.Describe(secret.Cut(text, p.columns-4))
}

// describe returns a wait as text, with its reason and the number of others.
func (p *progressLine) describe(at int) string {
	w := *p.waits[at]
	if p.reason != "" {
		w.until = p.until
	}
	text := fmt.Sprintf("waiting since %s (%s)", w.began.Format(time.TimeOnly), time.Since(w.began).Round(time.Second))
	if !w.until.IsZero() {
		text += ", until " + w.until.Format(time.TimeOnly)
	}
	text += ", for " + w.what
	if others := len(p.waits) - 1; others > 0 {
		text += fmt.Sprintf(" and %d more", others)
	}
	if p.reason != "" {
		text += ": " + p.reason
	}

	return text
}

// take takes the line away. The caller has locked it.
func (p *progressLine) take() {
	if p.isDrawn {
		_, _ = io.WriteString(p.terminal, "\r\x1b[2K")
	}
	p.isDrawn = false
}

// hold takes the line away until release is called, after a text was written.
func (p *progressLine) hold(text string) (release func()) {
	p.mu.Lock()
	p.take()
	p.isInRow = !strings.HasSuffix(text, "\n")

	return p.mu.Unlock
}

// close takes the line away, and ends it.
func (p *progressLine) close() {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.take()
	p.isInRow = true
	if p.ticks != nil {
		p.ticks.Stop()
	}
}
