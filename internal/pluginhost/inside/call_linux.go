package inside

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/prelet/prelet/internal/pluginhost/wire"
	"github.com/prelet/prelet/plugins/contract"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
	protocol "github.com/prelet/prelet/plugins/wire"
)

// maxHeaders bounds what a detector may put beside its answer; gRPC would take 16 MiB.
const maxHeaders = 64 << 10

// ask makes the one call.
func (r *run) ask(ctx context.Context, socket string) error {
	conn, err := grpc.NewClient("passthrough:///detector",
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the folder is private to this user; see decision 0005
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithMaxHeaderListSize(maxHeaders))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := detectorv1.NewDetectorServiceClient(conn)
	if r.req.Ask == wire.Describe {
		d, err := client.Describe(ctx, &detectorv1.DescribeRequest{}, grpc.MaxCallRecvMsgSize(contract.MaxDescription))
		if err != nil {
			return callError(ctx, err, contract.MaxDescription)
		}
		said := protocol.DescriptionFromProto(d)
		r.reply.Describe = &said
		return nil
	}
	a, err := client.Detect(ctx, &detectorv1.DetectRequest{Config: protocol.StructToProto(r.req.Config), Devices: protocol.DevicesToProto(r.req.Devices)},
		grpc.MaxCallRecvMsgSize(contract.MaxAnswer))
	if err != nil {
		return callError(ctx, err, contract.MaxAnswer)
	}
	said := protocol.AnswerFromProto(a)
	r.reply.Answer = &said
	return nil
}

// errConnection is a connection that could not be made, or broke.
var errConnection = errors.New("its socket does not answer")

// callError is gRPC's error in the words of who mends it.
func callError(ctx context.Context, err error, most int) error {
	s := status.Convert(err)
	text := cut(strings.TrimSuffix(s.Message(), "."), contract.MaxText)
	switch {
	case ctx.Err() != nil || s.Code() == codes.DeadlineExceeded:
		return errors.New("it did not answer in its time")
	case s.Code() == codes.ResourceExhausted && strings.Contains(text, "larger than max"):
		return fmt.Errorf("its answer is larger than the %d KiB that are read", most>>10)
	case s.Code() == codes.Unimplemented:
		return fmt.Errorf("it does not know the call: %s", text)
	case s.Code() == codes.Unavailable:
		return fmt.Errorf("%w: %s", errConnection, text)
	case s.Code() == codes.Unknown:
		return errors.New(text) // what the detector's own function returned
	}
	return fmt.Errorf("%s (%s)", text, s.Code())
}
