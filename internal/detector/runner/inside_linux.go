// Package inside is prelet-detect: it runs as the detector's own user, confines itself, starts one detector, asks it
// one question and prints one line. It trusts prelet, who gives it the request and the open program, and nothing that
// comes from the detector.
//
// go-plugin's client speaks the protocol, with a runner of this package, which starts the detector and checks its
// handshake.
package inside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc/grpclog"

	"github.com/prelet/prelet/internal/detector/sandbox"
	"github.com/prelet/prelet/internal/detector/wire"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/protocol"
)

// early is how much sooner than prelet this process gives up, so that it can still say why, on a busy machine too.
func early(all time.Duration) time.Duration { return min(200*time.Millisecond, all/8) }

// Run reads the request, does what it asks and writes the reply. The process must have nothing else to do: it is
// confined for good. Without is for tests (confine.Policy).
func Run(in io.Reader, out io.Writer, without confine.Lines) error {
	began := time.Now()
	// grpc-go would log to standard error, which is the detector's.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))

	var req wire.Request
	d := json.NewDecoder(io.LimitReader(in, wire.MaxRequest))
	if err := d.Decode(&req); err != nil {
		return fmt.Errorf("no request came: %w", err) // the hash was wrong, or prelet is gone
	}

	all := time.Duration(req.Millis) * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), all-early(all))
	defer cancel()

	r := &run{req: req, began: began, reply: wire.Reply{Micros: map[wire.Step]int64{}}}
	r.policy = confine.Policy{
		Socket:  req.Socket,
		Memory:  req.Memory,
		Own:     req.Own,
		Devices: req.Allow.Devices,
		Read:    req.Allow.Read,
		Execute: req.Allow.Execute,
		Sockets: req.Allow.Sockets,
		Without: without,
	}
	r.do(ctx)

	b, err := json.Marshal(r.reply)
	if err == nil && len(b) >= wire.MaxReply {
		err = fmt.Errorf("in JSON it has more than %d KiB", wire.MaxReply>>10)
	}
	if err == nil {
		err = wire.Bounded(b)
	}
	if err != nil {
		r.reply.Answer, r.reply.Describe = nil, nil
		r.fail(ctx, wire.Call, fmt.Errorf("its answer cannot be passed on: %w", err))
		b, _ = json.Marshal(r.reply) // of texts and numbers alone
	}
	_, err = out.Write(append(b, '\n'))
	return err
}

type run struct {
	req    wire.Request
	policy confine.Policy
	began  time.Time
	reply  wire.Reply
}

func (r *run) lap(s wire.Step) { r.reply.Micros[s] = time.Since(r.began).Microseconds() }

func (r *run) fail(ctx context.Context, s wire.Step, err error) {
	r.reply.Failed, r.reply.Text = s, protocol.Truncate(err.Error(), contract.MaxText)
	r.reply.TimedOut = ctx.Err() != nil
}

func (r *run) do(ctx context.Context) {
	report := confine.Process(&r.policy)
	r.lap(wire.Sandbox)

	d := &detector{policy: r.policy, name: r.req.Name, lap: r.lap, ended: make(chan struct{})}
	err := r.call(ctx, d)
	r.reply.Lacks, r.reply.Findings = report.Lacks, report.Failed

	for _, finding := range d.report.Failed {
		if !slices.Contains(report.Failed, finding) { // not what both processes found
			r.reply.Findings = append(r.reply.Findings, finding)
		}
	}

	if err == nil {
		r.lap(wire.Call)
		return
	}
	r.reply.Answer, r.reply.Describe = nil, nil

	var s *startError
	if errors.As(err, &s) {
		r.fail(ctx, s.step, err)
		return
	}

	if errors.Is(err, errConnection) {
		select {
		case <-d.ended: // whatever the error says, that is why
			err = fmt.Errorf("it ended while it was asked (%s)", d.how)
		case <-time.After(50 * time.Millisecond):
		}
	}
	r.fail(ctx, wire.Call, err)
}

// call starts the detector and makes the one call.
func (r *run) call(ctx context.Context, d *detector) error {
	c, err := connect(ctx, d, r.req.Socket)
	if err != nil {
		return err
	}

	return r.ask(ctx, c)
}
