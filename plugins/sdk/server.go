package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/wire"
	"github.com/prelet/prelet/plugins/wire/rpc"
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
	if err := serve(d); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve is a detector as go-plugin's hosts know one: it listens in the folder that the host made, says so in one line on standard
// output, and answers until it is told to end. There is one version of the protocol, which is answered whatever the host
// offers: a host that does not have it refuses the line.
func serve(d Detector) error {
	signal.Ignore(os.Interrupt) // a person's ^C is for the host, which ends its detectors
	folder := os.Getenv(wire.Folder)
	if folder == "" {
		folder = os.TempDir()
	}
	path := filepath.Join(folder, fmt.Sprintf("detector-%d", os.Getpid()))
	l, err := rpc.Listen(path)
	if err != nil {
		return err
	}
	s := &server{detector: d, stderr: os.Stderr}
	handshake := fmt.Sprintf("%d|%d|unix|%s|grpc\n", wire.Core, wire.Version, path)
	if _, err := os.Stdout.WriteString(handshake); err != nil {
		_ = l.Close()
		return err
	}
	// Standard output is for that one line. What a detector or a library prints goes to standard error, of which prelet keeps
	// the beginning.
	os.Stdout = os.Stderr
	r := rpc.Server{Most: contract.MaxAnswer, Last: wire.Shutdown, Methods: map[string]rpc.Handler{
		wire.Describe: s.describe,
		wire.Validate: s.validate,
		wire.Detect:   s.detect,
		wire.Shutdown: func(context.Context, []byte) ([]byte, error) { return nil, nil },
		// HealthCheckResponse{status: SERVING}
		wire.Health: func(context.Context, []byte) ([]byte, error) { return []byte{1 << 3, 1}, nil },
	}}
	return r.Serve(l)
}

// server is a detector on the wire.
type server struct {
	detector Detector
	stderr   *os.File
}

func (s *server) describe(context.Context, []byte) ([]byte, error) {
	d, err := Describe(s.detector)
	if err != nil {
		return nil, s.failed(err)
	}
	return wire.EncodeDescription(d), nil
}

func (s *server) validate(_ context.Context, b []byte) ([]byte, error) {
	config, err := wire.DecodeConfig(b)
	if err != nil {
		return nil, rpc.Errorf(rpc.Internal, "%v", err)
	}
	_, problems, err := Validate(s.detector, config)
	if err != nil {
		return nil, s.failed(err)
	}
	return wire.EncodeProblems(problems), nil
}

func (s *server) detect(ctx context.Context, b []byte) ([]byte, error) {
	r, err := wire.DecodeRequest(b)
	if err != nil {
		return nil, rpc.Errorf(rpc.Internal, "%v", err)
	}
	root, err := NewRoot(r.Root)
	if err != nil {
		return nil, rpc.Errorf(rpc.InvalidArgument, "%v", err)
	}
	a, err := Detect(ctx, s.detector, r.Config, r.Devices, root)
	if err != nil {
		return nil, s.failed(err)
	}
	return wire.EncodeAnswer(a), nil
}

// failed makes the status of an error, and tells standard error what does not belong into it.
func (s *server) failed(err error) error {
	if b := stack(err); b != nil {
		_, _ = io.WriteString(s.stderr, err.Error()+"\n"+string(b)) // nobody is left to tell if this fails
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return rpc.Errorf(rpc.DeadlineExceeded, "%v", err)
	case errors.Is(err, context.Canceled):
		return rpc.Errorf(rpc.Canceled, "%v", err)
	}
	return rpc.Errorf(rpc.Internal, "%v", err)
}
