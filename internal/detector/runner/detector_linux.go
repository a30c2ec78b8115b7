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

	"github.com/prelet/prelet/internal/detector/wire"
	"github.com/prelet/prelet/plugins/protocol"
	"github.com/prelet/prelet/plugins/sandbox"
)

// detector is the process of a detector. It implements go-plugin's runner.Runner. go-plugin's own runner reads lines
// of any length, dials any address, waits for pipes that a grandchild may hold, and has one message for several
// failures.
type detector struct {
	policy sandbox.Policy
	name   string
	step   wire.Step // the one that runs, or has failed

	report sandbox.Report // about its own part of the sandbox
	stdout *os.File
	line   string        // the handshake
	ended  chan struct{} // closed when the process has ended
	how    string        // how it ended; set before ended is closed
}

// Start implements runner.Runner. It starts the program and reads and checks the handshake.
func (d *detector) Start(ctx context.Context) error {
	if err := d.exec(ctx); err != nil {
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
	case d.endsWithin(20 * time.Millisecond):
		return fmt.Errorf("it ended before it was ready (%s)", d.how)
	default:
		return errors.New("it closed its standard output before it was ready")
	}
	d.line = strings.TrimSpace(string(line))

	// The detector must not block on its other output.
	_ = d.stdout.SetReadDeadline(time.Time{})
	go func() { _, _ = io.Copy(io.Discard, in) }()

	_, err = protocol.ParseHandshake(d.line, d.policy.Socket)

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

// Wait implements runner.Runner.
func (d *detector) Wait(context.Context) error {
	<-d.ended
	return nil
}

// Kill implements runner.Runner. It does nothing: prelet ends the process group.
func (d *detector) Kill(context.Context) error {
	return nil
}

// Stdout implements runner.Runner. It is the handshake and nothing else.
func (d *detector) Stdout() io.ReadCloser {
	return io.NopCloser(strings.NewReader(d.line + "\n"))
}

// Stderr implements runner.Runner. It is empty: standard error is prelet's pipe.
func (d *detector) Stderr() io.ReadCloser {
	return io.NopCloser(strings.NewReader(""))
}

// Name implements runner.Runner.
func (d *detector) Name() string { return d.name }

// ID implements runner.Runner.
func (d *detector) ID() string { return d.name }

// Diagnose implements runner.Runner.
func (d *detector) Diagnose(context.Context) string {
	return ""
}

// PluginToHost implements runner.Runner. The address was checked with the handshake.
func (d *detector) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin implements runner.Runner.
func (d *detector) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
