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
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/status"

	"github.com/prelet/prelet/plugins/contract"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
	"github.com/prelet/prelet/plugins/protocol"
)

// Serve runs a detector and does not return. Started by prelet, the program answers over gRPC; started by hand, it is a
// command for people with describe and detect. Serve is the whole of a detector's main.
func Serve(d Detector) {
	if os.Getenv(protocol.CookieKey) != protocol.CookieValue {
		os.Exit(command(d, os.Args[1:], os.Stdout, os.Stderr))
	}

	// Refuse here a description that prelet would refuse: on standard error the reason reaches who installs the
	// detector.
	if _, err := Describe(d); err != nil {
		fmt.Fprintf(os.Stderr, "%s\n%s", err, stack(err))
		os.Exit(1)
	}

	if !serve(d) {
		os.Exit(1)
	}
	os.Exit(0)
}

// serve answers until the host asks the detector to end. It reports whether the detector could listen; go-plugin has
// written the reason to standard error.
func serve(d Detector) (listened bool) {
	stderr := os.Stderr
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))

	// go-plugin points os.Stdout and os.Stderr at pipes that only a host of its own reads. Undo that before the first
	// call: what a detector prints belongs on standard error, of which prelet keeps the beginning and the end.
	restore := sync.OnceFunc(func() { os.Stdout, os.Stderr = stderr, stderr })
	intercept := func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		restore()
		return handle(ctx, r)
	}

	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  protocol.Handshake(),
		VersionedPlugins: protocol.Plugins(protocol.Plugin{Service: &server{detector: d, stderr: stderr}}),
		Logger:           hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: stderr}),
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
			listened = true
			limit := grpc.MaxRecvMsgSize(contract.MaxAnswer)
			return grpc.NewServer(append(options, limit, grpc.UnaryInterceptor(intercept))...)
		},
	})

	return listened
}

// server answers the calls of detector.v1.
type server struct {
	detectorv1.UnimplementedDetectorServiceServer

	detector Detector
	stderr   io.Writer
}

// Describe implements detector.v1.
func (s *server) Describe(context.Context, *detectorv1.DescribeRequest) (*detectorv1.DescribeResponse, error) {
	d, err := Describe(s.detector)
	if err != nil {
		return nil, s.statusOf(err)
	}

	return protocol.DescriptionToProto(d), nil
}

// Validate implements detector.v1.
func (s *server) Validate(_ context.Context, r *detectorv1.ValidateRequest) (*detectorv1.ValidateResponse, error) {
	_, problems, err := Validate(s.detector, r.GetConfig().AsMap())
	if err != nil {
		return nil, s.statusOf(err)
	}

	return &detectorv1.ValidateResponse{Problems: protocol.ProblemsToProto(problems)}, nil
}

// Detect implements detector.v1.
func (s *server) Detect(ctx context.Context, p *detectorv1.DetectRequest) (*detectorv1.DetectResponse, error) {
	r := protocol.RequestFromProto(p)

	root, err := NewRoot(r.Root)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}

	a, err := Detect(ctx, s.detector, r.Config, r.Devices, root)
	if err != nil {
		return nil, s.statusOf(err)
	}

	return protocol.AnswerToProto(a), nil
}

// statusOf returns the gRPC status of an error. The stack of a panic is too long for a status and goes to standard
// error.
func (s *server) statusOf(err error) error {
	if b := stack(err); b != nil {
		_, _ = io.WriteString(s.stderr, err.Error()+"\n"+string(b)) // a failure has nobody left to be reported to
	}

	code := codes.Internal
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	}

	return status.Error(code, err.Error())
}
