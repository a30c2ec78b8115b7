// Package runner implements prelet-detect: it runs as the detector's own user, confines itself, starts one detector,
// asks it one question and prints one line. It trusts prelet, which passes it the request and the open program, and no
// output of the detector.
//
// It checks the detector's handshake, and go-plugin's client speaks the protocol.
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

	"github.com/prelet/prelet/internal/machine/detector/wire"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/protocol"
	"github.com/prelet/prelet/plugins/sandbox"
)

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
	early := min(200*time.Millisecond, all/8) // before prelet gives up, to report why, also on a busy machine
	ctx, cancel := context.WithTimeout(context.Background(), all-early)
	defer cancel()

	req.Policy.Without = without

	return json.NewEncoder(out).Encode(handle(ctx, req))
}

// handle confines this process, starts the detector and makes the one call.
func handle(ctx context.Context, req wire.Request) (reply wire.Reply) {
	reply.Report = sandbox.Process(&req.Policy)
	d := &detector{
		policy: req.Policy,
		name:   req.Name,
		ended:  make(chan struct{}),
	}

	err := d.start(ctx)
	for _, failed := range d.report.Failed {
		if !slices.Contains(reply.Report.Failed, failed) { // both processes may report the same
			reply.Report.Failed = append(reply.Report.Failed, failed)
		}
	}
	var client protocol.Client
	if err == nil {
		client, err = connect(ctx, d)
	}
	if err == nil {
		err = ask(ctx, client, req, &reply)
	}

	if status.Code(err) == codes.Unavailable && d.endsWithin(endTime) { // that is the cause
		err = fmt.Errorf("it ended during the call (%s)", d.how)
	}
	if err != nil {
		reply.Failed = d.step
		reply.Text = contract.Shorten(status.Convert(err).Message(), contract.MaxText)
	}

	return reply
}

// endTime is how long a detector whose connection broke may take to end: its exit status is a better reason. On a
// loaded machine a process that crashed takes a while to be reaped.
const endTime = 500 * time.Millisecond
