package runner

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
	host := plugin.NewClient(clientConfig(ctx, r, folder))
	p, err := host.Client()
	if err != nil {
		return protocol.Client{}, explain(ctx, err, contract.MaxAnswer)
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
	useRunner := func(hclog.Logger, *exec.Cmd, string) (runner.Runner, error) {
		return r, nil
	}

	return &plugin.ClientConfig{
		HandshakeConfig:  protocol.Handshake(),
		VersionedPlugins: protocol.Plugins(protocol.Plugin{}),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		RunnerFunc:       useRunner,
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

// limitStreams lets go-plugin read a detector's output after the handshake, until ctx ends. It refuses go-plugin's
// other stream, with which a detector could make this process allocate memory for each message.
func limitStreams(ctx context.Context) grpc.StreamClientInterceptor {
	const stdio = "/plugin.GRPCStdio/StreamStdio"

	return func(
		_ context.Context,
		desc *grpc.StreamDesc,
		conn *grpc.ClientConn,
		method string,
		open grpc.Streamer,
		options ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		if method != stdio {
			return nil, status.Errorf(codes.Unimplemented, "prelet does not use %s", method)
		}

		return open(ctx, desc, conn, method, options...)
	}
}

// ask makes the requested call.
func (r *run) ask(ctx context.Context, c protocol.Client) error {
	if r.req.Ask == wire.Describe {
		d, err := c.Describe(ctx)
		if err != nil {
			return explain(ctx, err, contract.MaxDescription)
		}

		r.reply.Describe = &d

		return nil
	}

	a, err := c.Detect(ctx, r.req.Request)
	if err != nil {
		return explain(ctx, err, contract.MaxAnswer)
	}

	if len(a.Problems) > 0 { // then the rest of the answer has no meaning
		a = contract.Answer{Problems: a.Problems}
	}
	r.reply.Answer = &a

	return nil
}

// errConnection means that a connection could not be made or broke.
var errConnection = errors.New("its socket does not answer")

// explain turns a gRPC error into words for a detector's developer. The limit is that of the call, in bytes. It returns
// other errors as they are.
func explain(ctx context.Context, err error, limit int) error {
	s, isStatus := status.FromError(err)
	if !isStatus {
		return err
	}

	text := strings.TrimSuffix(s.Message(), ".")
	text, isNotDecoded := strings.CutPrefix(text, "grpc: failed to unmarshal the received message: ")

	// grpc-go wraps errors of the connection in words that do not help.
	for _, wrapped := range []string{"error reading server preface: ", "error reading from server: "} {
		if _, cause, found := strings.Cut(text, wrapped); found {
			text = strings.TrimSuffix(cause, `"`)
		}
	}
	text = contract.Shorten(text, contract.MaxText)
	has := func(part string) bool {
		return strings.Contains(text, part)
	}
	isLate := ctx.Err() != nil || s.Code() == codes.DeadlineExceeded
	isTooLarge := s.Code() == codes.ResourceExhausted && has("larger than max")
	isCompressed := has("Decompressor is not installed") || has("compressed flag")
	isHTTP := has("unexpected HTTP status code") || has("unexpected content-type")
	isNotHTTP2 := has("http2") || has("PROTOCOL_ERROR")

	switch {
	case isLate:
		return errors.New("it exceeded its deadline")
	case isTooLarge:
		return fmt.Errorf("its answer is larger than %d KiB", limit>>10)
	case isNotDecoded:
		return fmt.Errorf("its answer cannot be read: %s", text)
	case isCompressed:
		return fmt.Errorf("its answer is compressed, which prelet does not accept: %s", text)
	case isHTTP:
		return fmt.Errorf("it speaks HTTP and not gRPC: %s", text)
	case s.Code() == codes.Unimplemented:
		return fmt.Errorf("it does not implement the method: %s", text)
	case s.Code() == codes.Unavailable && isNotHTTP2:
		return fmt.Errorf("it does not speak HTTP/2: %s", text)
	case s.Code() == codes.Unavailable:
		return fmt.Errorf("%w: %s", errConnection, text)
	case s.Code() == codes.Unknown:
		return errors.New(text) // the error of the detector's own function
	}

	return fmt.Errorf("%s (%s)", text, s.Code())
}
