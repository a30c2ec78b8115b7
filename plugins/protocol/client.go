package protocol

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/prelet/prelet/plugins/contract"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
)

// Client calls a detector with the types of package contract. It limits the size of what it receives and checks nothing
// else: contract.Description.Check and CheckAnswer do. Its errors are gRPC statuses. It sets no deadline of its own.
type Client struct {
	detectorv1.DetectorServiceClient
}

// NewClient returns a client that calls over conn.
func NewClient(conn grpc.ClientConnInterface) Client {
	return Client{detectorv1.NewDetectorServiceClient(conn)}
}

// Describe returns the detector's description.
func (c Client) Describe(ctx context.Context) (contract.Description, error) {
	limit := grpc.MaxCallRecvMsgSize(contract.MaxDescription)
	p, err := c.DetectorServiceClient.Describe(ctx, &detectorv1.DescribeRequest{}, limit)

	return DescriptionFromProto(p), err
}

// Validate returns what is wrong with a complete configuration beyond its schema. A detector without that method has no
// objection.
func (c Client) Validate(ctx context.Context, config map[string]any) (contract.Problems, error) {
	limit := grpc.MaxCallRecvMsgSize(contract.MaxDescription)
	p, err := c.DetectorServiceClient.Validate(ctx, &detectorv1.ValidateRequest{Config: StructToProto(config)}, limit)

	if status.Code(err) == codes.Unimplemented {
		return nil, nil
	}

	return ProblemsFromProto(p.GetProblems()), err
}

// Detect returns what the detector found. Problems of the configuration are in the answer.
func (c Client) Detect(ctx context.Context, r Request) (contract.Answer, error) {
	limit := grpc.MaxCallRecvMsgSize(contract.MaxAnswer)
	p, err := c.DetectorServiceClient.Detect(ctx, RequestToProto(r), limit)

	return AnswerFromProto(p), err
}
