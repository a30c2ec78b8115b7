// Package runner implements prelet-detect: it runs as the detector's own user, confines itself, starts one detector,
// asks it one question and prints one line. It trusts prelet, from which it has the request and the open program, and
// nothing that comes from the detector.
//
// go-plugin's client speaks the protocol, with a runner of this package, which starts the detector and checks its
// handshake.
package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/status"

	"github.com/prelet/prelet/internal/detector/wire"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/sandbox"
)

// reserve returns how much earlier than prelet this process gives up, so that it can report why, also on a busy
// machine.
func reserve(all time.Duration) time.Duration {
	return min(200*time.Millisecond, all/8)
}

// Run reads a request, handles it and writes the reply. The process cannot be used for anything else, because it
// stays confined. The lines in without are left out of the sandbox, for tests.
func Run(in io.Reader, out io.Writer, without sandbox.Lines) error {
	// grpc-go would log to standard error, which is the detector's.
	silent := grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)
	grpclog.SetLoggerV2(silent)

	var req wire.Request
	d := json.NewDecoder(io.LimitReader(in, wire.MaxRequest))
	if err := d.Decode(&req); err != nil {
		return fmt.Errorf("reading the request: %w", err) // the hash was wrong, or prelet has ended
	}

	all := time.Duration(req.Millis) * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), all-reserve(all))
	defer cancel()

	req.Policy.Without = without
	r := &run{req: req}
	r.do(ctx)

	b, err := json.Marshal(r.reply)
	if err != nil {
		return err
	}
	_, err = out.Write(append(b, '\n'))
	return err
}

// run is the handling of one request.
type run struct {
	req   wire.Request
	reply wire.Reply
}

// do confines this process and handles the request.
func (r *run) do(ctx context.Context) {
	report := sandbox.Process(&r.req.Policy)

	d := &detector{
		policy: r.req.Policy,
		name:   r.req.Name,
		step:   wire.Start,
		ended:  make(chan struct{}),
	}
	err := r.call(ctx, d)
	r.reply.Contained = report.Contained
	r.reply.Lacks = report.Lacks
	r.reply.Findings = report.Failed

	for _, finding := range d.report.Failed {
		if !slices.Contains(report.Failed, finding) { // both processes may report the same
			r.reply.Findings = append(r.reply.Findings, finding)
		}
	}

	if status.Code(err) == codes.Unavailable && d.endsWithin(endTime) { // that is the cause
		err = fmt.Errorf("it ended during the call (%s)", d.how)
	}
	if err != nil {
		r.reply.Failed = d.step
		r.reply.Text = contract.Shorten(status.Convert(err).Message(), contract.MaxText)
	}
}

// endTime is how long a detector whose connection broke may take to end: its exit status is a better reason. On a
// loaded machine a process that crashed takes a while to be reaped.
const endTime = 500 * time.Millisecond

// call starts the detector and makes the one call.
func (r *run) call(ctx context.Context, d *detector) error {
	c, err := connect(ctx, d, r.req.Policy.Socket)
	if err != nil {
		return err
	}

	return r.ask(ctx, c)
}
