package protocol

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/prelet/prelet/plugins/contract"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
)

// Client calls a detector with the types of package contract. It limits the size of responses and checks nothing
// else: contract.Description.Check and CheckAnswer do. Its errors are those of Explain. It sets no deadline of its own.
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
	if err != nil {
		return contract.Description{}, Explain(ctx, err, contract.MaxDescription)
	}

	return FromProto[contract.Description](p)
}

// Validate returns the problems of a complete configuration beyond its declaration. A detector without that method
// accepts every configuration.
func (c Client) Validate(ctx context.Context, config map[string]any) (contract.Problems, error) {
	request, err := ToProto[detectorv1.ValidateRequest](contract.Request{Config: config})
	if err != nil {
		return nil, err
	}

	limit := grpc.MaxCallRecvMsgSize(contract.MaxDescription)
	p, err := c.DetectorServiceClient.Validate(ctx, request, limit)
	switch {
	case status.Code(err) == codes.Unimplemented:
		return nil, nil
	case err != nil:
		return nil, Explain(ctx, err, contract.MaxDescription)
	}
	a, err := FromProto[contract.Answer](p)

	return a.Problems, err
}

// Detect returns the detector's answer. Problems of the configuration are in the answer.
func (c Client) Detect(ctx context.Context, r contract.Request) (contract.Answer, error) {
	request, err := ToProto[detectorv1.DetectRequest](r)
	if err != nil {
		return contract.Answer{}, err
	}

	limit := grpc.MaxCallRecvMsgSize(contract.MaxAnswer)
	count := grpc.ForceCodecV2(boundedCodec{encoding.GetCodecV2(proto.Name)})
	p, err := c.DetectorServiceClient.Detect(ctx, request, limit, count)
	if err != nil {
		return contract.Answer{}, Explain(ctx, err, contract.MaxAnswer)
	}

	return FromProto[contract.Answer](p)
}

// maxElements is the number of devices, facts, labels and other elements of an answer that is decoded. It is more
// than the contract accepts.
const maxElements = 8 * contract.MaxDevices

// boundedCodec is protobuf's codec with a bound on the elements of a message. An empty device is two bytes on the
// wire and hundreds in memory.
type boundedCodec struct {
	encoding.CodecV2
}

// Unmarshal implements encoding.CodecV2.
func (c boundedCodec) Unmarshal(data mem.BufferSlice, v any) error {
	rest := data.Materialize()

	for n := 0; len(rest) > 0; n++ {
		_, _, size := protowire.ConsumeField(rest)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if n == maxElements {
			return fmt.Errorf("it has more than %d elements", maxElements)
		}
		rest = rest[size:]
	}

	return c.CodecV2.Unmarshal(data, v)
}
