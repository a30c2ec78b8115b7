package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/prelet/prelet/plugins/contract"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
	"github.com/prelet/prelet/plugins/wire"
)

// Serve runs a detector and does not return: as prelet's when prelet started it, else as a command for people with
// describe and detect. It is the whole of a detector's main.
func Serve(d Detector) {
	if os.Getenv(wire.CookieKey) != wire.CookieValue {
		os.Exit(command(d, os.Args[1:], os.Stdout, os.Stderr))
	}
	// A description that prelet would refuse is told here, where the reason reaches who installs it.
	if _, err := Describe(d); err != nil {
		fmt.Fprintf(os.Stderr, "%s\n%s", err, stack(err))
		os.Exit(1)
	}
	s := &server{detector: d, stderr: os.Stderr}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  wire.Handshake(),
		VersionedPlugins: wire.Detector(s),
		Logger:           hclog.NewNullLogger(),
		GRPCServer: func(o []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(o, grpc.MaxRecvMsgSize(contract.MaxAnswer))...)
		},
	})
	os.Exit(0)
}

// server is a detector on the wire.
type server struct {
	detectorv1.UnimplementedDetectorServiceServer
	detector Detector
	stderr   *os.File
	once     sync.Once
}

// outputs undoes what go-plugin does to os.Stdout and os.Stderr: it sends both through the connection, where the last
// words of a detector that dies are lost. What a detector or a library prints goes to the process's own standard error,
// of which prelet keeps the beginning.
func (s *server) outputs() {
	s.once.Do(func() { os.Stdout, os.Stderr = s.stderr, s.stderr })
}

// Describe implements detector.v1.
func (s *server) Describe(context.Context, *detectorv1.DescribeRequest) (*detectorv1.DescribeResponse, error) {
	s.outputs()
	d, err := Describe(s.detector)
	if err != nil {
		return nil, s.failed(err)
	}
	return wire.DescriptionToProto(d), nil
}

// Validate implements detector.v1.
func (s *server) Validate(_ context.Context, r *detectorv1.ValidateRequest) (*detectorv1.ValidateResponse, error) {
	s.outputs()
	_, problems, err := Validate(s.detector, wire.StructFromProto(r.GetConfig()))
	if err != nil {
		return nil, s.failed(err)
	}
	return &detectorv1.ValidateResponse{Problems: wire.ProblemsToProto(problems)}, nil
}

// Detect implements detector.v1.
func (s *server) Detect(ctx context.Context, r *detectorv1.DetectRequest) (*detectorv1.DetectResponse, error) {
	s.outputs()
	root, err := NewRoot(r.GetRoot())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	a, err := Detect(ctx, s.detector, wire.StructFromProto(r.GetConfig()), wire.DevicesFromProto(r.GetDevices()), root)
	if err != nil {
		return nil, s.failed(err)
	}
	return wire.AnswerToProto(a), nil
}

// failed makes the status of an error, and tells standard error what does not belong into it.
func (s *server) failed(err error) error {
	if b := stack(err); b != nil {
		_, _ = io.WriteString(s.stderr, err.Error()+"\n"+string(b)) // nobody is left to tell if this fails
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Internal, err.Error())
}
