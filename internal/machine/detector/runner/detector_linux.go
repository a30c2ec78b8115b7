package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-plugin/runner"

	"github.com/prelet/prelet/internal/machine/detector/wire"
	"github.com/prelet/prelet/plugins/protocol"
	"github.com/prelet/prelet/plugins/sandbox"
)

// detector is the process of a detector. go-plugin's client attaches to it: its own runner reads lines of any length,
// dials any address, waits for pipes that a grandchild may hold, and has one message for several failures.
type detector struct {
	runner.AttachedRunner // nil: in its test mode, go-plugin's client calls nothing but Wait

	policy sandbox.Policy
	name   string
	step   wire.Step // the current step, or the failed one

	report sandbox.Confinement // about its own part of the sandbox
	stdout *os.File
	socket string        // of the handshake
	ended  chan struct{} // closed when the process has ended
	how    string        // how it ended; set before ended is closed
}

// Wait implements runner.AttachedRunner.
func (d *detector) Wait(context.Context) error {
	<-d.ended
	return nil
}

// start starts the program and reads and checks the handshake.
func (d *detector) start(ctx context.Context) error {
	d.step = wire.Start
	if err := d.exec(); err != nil {
		return err
	}

	d.step = wire.Handshake
	if err := d.handshake(ctx); err != nil {
		return err
	}
	d.step = wire.Call

	return nil
}

// handshake reads the one line that a detector prints before anything else, and checks it.
func (d *detector) handshake(ctx context.Context) error {
	deadline, _ := ctx.Deadline()
	_ = d.stdout.SetReadDeadline(deadline)
	in := bufio.NewReaderSize(d.stdout, wire.MaxHandshake)

	line, err := in.ReadSlice('\n')
	switch {
	case err == nil:
	case errors.Is(err, bufio.ErrBufferFull):
		const text = "its first line on standard output has more than %d bytes, and is not a handshake"
		return fmt.Errorf(text, wire.MaxHandshake)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("it printed no handshake before its deadline")
	case d.endsWithin(time.Second):
		return fmt.Errorf("it ended before it was ready (%s)", d.how)
	default:
		return errors.New("it closed its standard output before it was ready")
	}
	d.socket, err = protocol.ParseHandshake(strings.TrimSpace(string(line)), d.policy.Socket)

	// The detector must not block on its other output.
	_ = d.stdout.SetReadDeadline(time.Time{})
	go func() { _, _ = io.Copy(io.Discard, in) }()

	return err
}

// endsWithin waits for the end of the process and reports whether it ended in time.
func (d *detector) endsWithin(limit time.Duration) bool {
	select {
	case <-d.ended:
		return true
	case <-time.After(limit):
		return false
	}
}
