package machine

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/detector"
	"github.com/prelet/prelet/internal/model/secret"
)

// Env is the environment of the commands of one process.
type Env struct {
	Version  string
	Getenv   func(string) string
	Redactor *secret.Redactor  // learns each secret that a command reads; all output passes through it
	Searched *sync.Map         // secrets of answers by SHA-256: machines of a fleet give equal ones; nil: not kept
	Say      func(line string) // prints one line while a command runs; it redacts
	Progress Progress          // nil without a terminal
	On       *Host             // the machine that commands work on; nil is this one
	// Serve runs a command line that another process asked for, with the output of that process; nil in a command that
	// runs for another process, and where the two files are missing.
	Serve          func(args []string, stdout, stderr *os.File) fault.Code
	Stdout, Stderr *os.File // of this process
	// Journaled is called when the machine's journal has the command's messages, so that they are not printed again.
	Journaled func()
	// Detectors changes where detectors are looked for and how they run; nil outside of tests.
	Detectors func(*detector.HostConfig)
	// GaveUp is set when an evaluation of the command has reached a limit; then no further one begins. nil: each is
	// tried.
	GaveUp *atomic.Bool
}

// Progress shows the waits of a command, and how many items are done, on a terminal.
type Progress interface {
	// Wait shows a wait until end is called. until is when it ends at the latest; zero: not known.
	Wait(what string, until time.Time) (end func())
	// Reason adds why the present waits last, and until when, until one of them ends.
	Reason(why string, until time.Time)
	// Count shows how many of all are done. All of them end it.
	Count(done, all int)
}

// Wait shows a wait until end is called.
func (e *Env) Wait(what string, until time.Time) (end func()) {
	if e == nil || e.Progress == nil {
		return func() {}
	}

	return e.Progress.Wait(what, until)
}

// Count shows how many of all are done.
func (e *Env) Count(done, all int) {
	if e.Progress != nil {
		e.Progress.Count(done, all)
	}
}

// CheckStopped returns the error of a command that a signal has stopped before it changed anything; nil if none did.
func CheckStopped(ctx context.Context) error {
	if !errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}

	return fault.Interrupted.Errorf("stopped by a signal: %s; nothing was changed", context.Cause(ctx))
}

// SayError prints an error that does not change the result of a command.
func (e *Env) SayError(err error) {
	if err != nil {
		e.Say(err.Error())
	}
}

// WithOwnRedactor returns the environment of one of several plans: a secret of one must not change another.
func (e *Env) WithOwnRedactor() *Env {
	out := *e
	out.Redactor = e.Redactor.NewChild()

	return &out
}
