// Package reference is the protocol as everybody else speaks it: gRPC, and the generated code of plugins/proto. The conformance
// kit asks detectors with it, so that they are judged by that and not by our own short form of it (packages wire and rpc), which
// its tests compare with it. Nothing that a boot waits for imports it.
package reference

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/prelet/prelet/plugins/contract"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
	"github.com/prelet/prelet/plugins/wire"
)

// Client asks a detector, in the words of package contract. It bounds what it receives and checks it; it keeps no
// deadline of its own: a context without one waits as long as the detector likes.
type Client struct {
	detectorv1.DetectorServiceClient
}

// Describe asks for the description. One that is too large or breaks its own rules is an error.
func (c Client) Describe(ctx context.Context) (contract.Description, error) {
	p, err := c.DetectorServiceClient.Describe(ctx, &detectorv1.DescribeRequest{}, grpc.MaxCallRecvMsgSize(contract.MaxDescription))
	if err != nil {
		return contract.Description{}, said("Describe", err)
	}
	d := DescriptionFromProto(p)
	if err := d.Check().Err(); err != nil {
		return d, fmt.Errorf("the description is not usable:\n%w", err)
	}
	return d, nil
}

// Validate asks what is wrong with a complete configuration beyond its schema. A detector without that method has no
// objection.
func (c Client) Validate(ctx context.Context, config map[string]any) (contract.Problems, error) {
	p, err := c.DetectorServiceClient.Validate(ctx, &detectorv1.ValidateRequest{Config: StructToProto(config)}, grpc.MaxCallRecvMsgSize(contract.MaxDescription))
	if status.Code(err) == codes.Unimplemented {
		return nil, nil
	}
	if err != nil {
		return nil, said("Validate", err)
	}
	return ProblemsFromProto(p.GetProblems()), nil
}

// Detect asks what there is. An answer that is too large, or breaks the description, is an error; problems of the
// configuration are in the answer.
func (c Client) Detect(ctx context.Context, d contract.Description, r wire.Request) (contract.Answer, error) {
	p, err := c.DetectorServiceClient.Detect(ctx, &detectorv1.DetectRequest{Config: StructToProto(r.Config), Devices: DevicesToProto(r.Devices), Root: r.Root},
		grpc.MaxCallRecvMsgSize(contract.MaxAnswer))
	if err != nil {
		return contract.Answer{}, said("Detect", err)
	}
	a := AnswerFromProto(p)
	if err := d.CheckAnswer(a).Err(); err != nil {
		return a, fmt.Errorf("the answer breaks the detector's own description (%d bytes):\n%w", proto.Size(p), err)
	}
	return a, nil
}

// said turns a gRPC error into words that a vendor can use. The status stays inside.
func said(method string, err error) error {
	switch s := status.Convert(err); s.Code() {
	case codes.Unimplemented:
		return fmt.Errorf("the detector has no method %s of detector.v1.DetectorService: %w", method, err)
	case codes.DeadlineExceeded:
		return fmt.Errorf("%s did not end inside its deadline: %w", method, err)
	case codes.ResourceExhausted:
		return fmt.Errorf("%s says more than is allowed: %w", method, err)
	case codes.Unavailable:
		return fmt.Errorf("the detector ended, or closed its connection, during %s: %w", method, err)
	}
	return fmt.Errorf("%s failed: %w", method, err)
}
