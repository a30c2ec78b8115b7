package inside

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/prelet/prelet/internal/pluginhost/wire"
	"github.com/prelet/prelet/plugins/contract"
	protocol "github.com/prelet/prelet/plugins/wire"
	"github.com/prelet/prelet/plugins/wire/rpc"
)

// ask makes the one call.
func (r *run) ask(ctx context.Context, socket string) error {
	method, most, request := protocol.Describe, contract.MaxDescription, []byte(nil)
	if r.req.Ask != wire.Describe {
		method, most = protocol.Detect, contract.MaxAnswer
		request = protocol.EncodeRequest(protocol.Request{Config: r.req.Config, Devices: r.req.Devices, Root: r.req.Root})
	}
	conn, err := rpc.Dial(ctx, socket)
	if err != nil {
		return fmt.Errorf("%w: %w", errConnection, err)
	}
	said, err := rpc.Call(ctx, conn, method, request, most)
	if err != nil {
		return callError(ctx, rpc.StatusOf(err), most)
	}
	if r.req.Ask == wire.Describe {
		d, err := protocol.DecodeDescription(said)
		if err == nil {
			r.reply.Describe = &d
		}
		return err
	}
	a, err := protocol.DecodeAnswer(said)
	if len(a.Problems) > 0 { // nothing else is looked at then
		a = contract.Answer{Problems: a.Problems}
	}
	if err == nil {
		r.reply.Answer = &a
	}
	return err
}

// errConnection is a connection that could not be made, or broke.
var errConnection = errors.New("its socket does not answer")

// callError is a call's status in the words of who mends it.
func callError(ctx context.Context, s *rpc.Status, most int) error {
	text := cut(strings.TrimSuffix(s.Message, "."), contract.MaxText)
	switch {
	case ctx.Err() != nil || s.Code == rpc.DeadlineExceeded:
		return errors.New("it did not answer in its time")
	case s.Code == rpc.ResourceExhausted && strings.Contains(text, "larger than max"):
		return fmt.Errorf("its answer is larger than the %d KiB that are read", most>>10)
	case s.Code == rpc.Unimplemented:
		return fmt.Errorf("it does not know the call: %s", text)
	case s.Code == rpc.Unavailable:
		return fmt.Errorf("%w: %s", errConnection, text)
	case s.Code == rpc.Unknown:
		return errors.New(text) // what the detector's own function returned
	}
	return fmt.Errorf("%s (%s)", text, s.Code)
}
