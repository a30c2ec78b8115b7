package inside

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/prelet/prelet/internal/detector/wire"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/protocol"
)

// Bounds of a connection beyond those of each call.
const (
	maxHeaders = 64 << 10               // of one response
	maxWindow  = 2 * contract.MaxAnswer // bytes on their way; a fixed size keeps grpc-go from raising it to 16 MiB
)

// connect starts the detector and returns a client for it. Everything that it starts ends with ctx. It never calls
// plugin.Client.Kill, which would wait for the detector: prelet ends the whole process group.
func connect(ctx context.Context, r runner.Runner, folder string) (protocol.Client, error) {
	p, err := plugin.NewClient(clientConfig(ctx, r, folder)).Client()
	var notStarted *startError
	if err != nil && !errors.As(err, &notStarted) {
		err = explain(ctx, err, contract.MaxAnswer)
	}
	if err != nil {
		return protocol.Client{}, err
	}

	detector, err := p.Dispense(protocol.Name)
	if err != nil {
		return protocol.Client{}, err
	}

	return detector.(protocol.Client), nil
}

// clientConfig returns the configuration of go-plugin's client. Each bound replaces a default of go-plugin or grpc-go
// that is larger, or none.
func clientConfig(ctx context.Context, r runner.Runner, folder string) *plugin.ClientConfig {
	deadline, _ := ctx.Deadline()

	return &plugin.ClientConfig{
		HandshakeConfig:  protocol.Handshake(),
		VersionedPlugins: protocol.Plugins(protocol.Plugin{}),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		RunnerFunc:       func(hclog.Logger, *exec.Cmd, string) (runner.Runner, error) { return r, nil },
		StartTimeout:     time.Until(deadline),
		SkipHostEnv:      true,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: folder},
		SyncStdout:       os.Stderr,
		SyncStderr:       os.Stderr,
		Logger:           hclog.NewNullLogger(),
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(contract.MaxAnswer)),
			grpc.WithMaxHeaderListSize(maxHeaders),
			grpc.WithStaticStreamWindowSize(maxWindow),
			grpc.WithStaticConnWindowSize(maxWindow),
			grpc.WithDisableRetry(),
			grpc.WithStreamInterceptor(limitStreams(ctx)),
		},
	}
}

// limitStreams lets go-plugin read what a detector prints after the handshake, until ctx ends. It refuses go-plugin's
// other stream, with which a detector could make this process keep something for each message.
func limitStreams(ctx context.Context) grpc.StreamClientInterceptor {
	const stdio = "/plugin.GRPCStdio/StreamStdio"

	return func(_ context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
		options ...grpc.CallOption) (grpc.ClientStream, error) {
		if method != stdio {
			return nil, status.Errorf(codes.Unimplemented, "prelet does not use %s", method)
		}

		return open(ctx, desc, conn, method, options...)
	}
}

// ask makes the one call that the request wants.
func (r *run) ask(ctx context.Context, c protocol.Client) error {
	if r.req.Ask == wire.Describe {
		d, err := c.Describe(ctx)
		if err != nil {
			return explain(ctx, err, contract.MaxDescription)
		}

		r.reply.Describe = &d

		return checkFinite("its description", d)
	}

	a, err := c.Detect(ctx, protocol.Request{Config: r.req.Config, Devices: r.req.Devices, Root: r.req.Root})
	if err != nil {
		return explain(ctx, err, contract.MaxAnswer)
	}

	if len(a.Problems) > 0 { // nothing else in the answer counts then
		a = contract.Answer{Problems: a.Problems}
	}
	r.reply.Answer = &a

	return checkFinite("its answer", a)
}

// errConnection is a connection that could not be made, or broke.
var errConnection = errors.New("its socket does not answer")

// explain turns a gRPC error into words for the person who has to fix the detector. The limit is that of the call, in
// bytes.
func explain(ctx context.Context, err error, limit int) error {
	s := status.Convert(err)
	text := strings.TrimSuffix(s.Message(), ".")
	text, isNotDecoded := strings.CutPrefix(text, "grpc: failed to unmarshal the received message: ")

	// The connection's errors are wrapped in words of grpc-go's that say nothing to the person who reads them.
	for _, wrapped := range []string{"error reading server preface: ", "error reading from server: "} {
		if _, cause, found := strings.Cut(text, wrapped); found {
			text = strings.TrimSuffix(cause, `"`)
		}
	}
	text = protocol.Truncate(text, contract.MaxText)
	isNotHTTP2 := strings.Contains(text, "http2") || strings.Contains(text, "PROTOCOL_ERROR")

	switch {
	case ctx.Err() != nil || s.Code() == codes.DeadlineExceeded:
		return errors.New("it did not answer in its time")
	case s.Code() == codes.ResourceExhausted && strings.Contains(text, "larger than max"):
		return fmt.Errorf("its answer is larger than the %d KiB that are read", limit>>10)
	case isNotDecoded:
		return fmt.Errorf("its answer cannot be read: %s", text)
	case strings.Contains(text, "Decompressor is not installed"), strings.Contains(text, "compressed flag"):
		return fmt.Errorf("its answer is compressed, and prelet asks for none that is: %s", text)
	case strings.Contains(text, "unexpected HTTP status code"), strings.Contains(text, "unexpected content-type"):
		return fmt.Errorf("what answers there speaks HTTP, and not gRPC: %s", text)
	case s.Code() == codes.Unimplemented:
		return fmt.Errorf("it does not know the call: %s", text)
	case s.Code() == codes.Unavailable && isNotHTTP2:
		return fmt.Errorf("what it sends is not HTTP/2 as gRPC has it: %s", text)
	case s.Code() == codes.Unavailable:
		return fmt.Errorf("%w: %s", errConnection, text)
	case s.Code() == codes.Unknown:
		return errors.New(text) // what the detector's own function returned
	}

	return fmt.Errorf("%s (%s)", text, s.Code())
}
