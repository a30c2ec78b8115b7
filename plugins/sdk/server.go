package sdk

import (
	"cmp"
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
	"github.com/prelet/prelet/plugins/internal/cli"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
	"github.com/prelet/prelet/plugins/protocol"
)

// Serve runs a detector and does not return. When prelet starts the program, it serves gRPC. When a person starts it,
// it has the commands describe and detect. A detector's main needs nothing else.
func Serve(d Detector) {
	if os.Getenv(protocol.CookieKey) != protocol.CookieValue {
		status := command(d, os.Args[1:], os.Stdout, os.Stderr)
		os.Exit(status)
	}

	// Reject an invalid description here, so that the administrator sees it on standard error.
	if _, err := Describe(d); err != nil {
		fmt.Fprintf(os.Stderr, "%s\n%s", err, panicStack(err))
		os.Exit(cli.Failed)
	}

	if serve(d) {
		os.Exit(cli.OK)
	}
	os.Exit(cli.Failed)
}

// serve serves until the host ends the detector. It reports whether the detector could listen; otherwise go-plugin
// has written the reason to standard error.
func serve(d Detector) (listened bool) {
	stderr := os.Stderr
	silent := grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)
	grpclog.SetLoggerV2(silent)

	// go-plugin redirects os.Stdout and os.Stderr to pipes that only its own host reads. Undo that before the first
	// call: output of a detector belongs on standard error, of which prelet keeps the beginning and the end.
	restore := sync.OnceFunc(func() {
		os.Stdout = stderr
		os.Stderr = stderr
	})
	intercept := func(
		ctx context.Context,
		request any,
		_ *grpc.UnaryServerInfo,
		handle grpc.UnaryHandler,
	) (any, error) {
		restore()
		return handle(ctx, request)
	}

	service := &server{detector: d, stderr: stderr}
	logger := hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: stderr})
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  protocol.Handshake(),
		VersionedPlugins: protocol.Plugins(protocol.Plugin{Service: service}),
		Logger:           logger,
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
			listened = true
			limit := grpc.MaxRecvMsgSize(contract.MaxAnswer)
			options = append(options, limit, grpc.UnaryInterceptor(intercept))
			return grpc.NewServer(options...)
		},
	})

	return listened
}

// server implements the service detector.v1.
type server struct {
	detectorv1.UnimplementedDetectorServiceServer

	detector Detector
	stderr   io.Writer
}

// Describe implements detector.v1.
func (s *server) Describe(
	context.Context,
	*detectorv1.DescribeRequest,
) (*detectorv1.DescribeResponse, error) {
	d, err := Describe(s.detector)
	if err != nil {
		return nil, s.statusOf(err)
	}

	return protocol.ToProto[detectorv1.DescribeResponse](d)
}

// Validate implements detector.v1.
func (s *server) Validate(
	_ context.Context,
	r *detectorv1.ValidateRequest,
) (*detectorv1.ValidateResponse, error) {
	config := r.GetConfig().AsMap()
	_, problems, err := Validate(s.detector, config)
	if err != nil {
		return nil, s.statusOf(err)
	}

	return protocol.ToProto[detectorv1.ValidateResponse](contract.Answer{Problems: problems})
}

// Detect implements detector.v1.
func (s *server) Detect(
	ctx context.Context,
	p *detectorv1.DetectRequest,
) (*detectorv1.DetectResponse, error) {
	r, requestErr := protocol.FromProto[contract.Request](p)
	root, err := NewRoot(r.Root)
	if err = cmp.Or(requestErr, err); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}

	a, err := Detect(ctx, s.detector, r.Config, r.Devices, root)
	if err != nil {
		return nil, s.statusOf(err)
	}

	return protocol.ToProto[detectorv1.DetectResponse](a)
}

// statusOf returns the gRPC status of an error. The stack of a panic is too long for a status and is written to
// standard error.
func (s *server) statusOf(err error) error {
	if b := panicStack(err); b != nil {
		fmt.Fprintf(s.stderr, "%v\n%s", err, b)
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
