package runner

import (
	"context"
	"net"
	"os"

	"github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/prelet/prelet/internal/machine/detector/wire"
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/protocol"
)

// Bounds of a connection beyond those of each call.
const (
	maxHeaders = 64 << 10               // of one response
	maxWindow  = 2 * contract.MaxAnswer // bytes on their way; a fixed size keeps grpc-go from raising it to 16 MiB
)

// connect returns a client for a started detector. Everything that it starts ends with ctx. It never calls
// plugin.Client.Kill, which would wait for the detector: prelet ends the whole process group.
func connect(ctx context.Context, d *detector) (protocol.Client, error) {
	p, err := plugin.NewClient(clientConfig(ctx, d)).Client()
	if err != nil {
		return protocol.Client{}, protocol.Explain(ctx, err, contract.MaxAnswer)
	}

	client, err := p.Dispense(protocol.Name)
	if err != nil {
		return protocol.Client{}, err
	}

	return client.(protocol.Client), nil
}

// clientConfig returns the configuration of go-plugin's client. Each bound replaces a default of go-plugin or grpc-go
// that is larger, or none.
func clientConfig(ctx context.Context, d *detector) *plugin.ClientConfig {
	return &plugin.ClientConfig{
		Plugins: protocol.Plugins(protocol.Plugin{})[protocol.Version],
		Reattach: &plugin.ReattachConfig{
			Protocol:     plugin.ProtocolGRPC,
			Addr:         &net.UnixAddr{Net: "unix", Name: d.socket},
			ReattachFunc: func() (runner.AttachedRunner, error) { return d, nil },
			Test:         true,
		},
		SyncStdout: os.Stderr,
		SyncStderr: os.Stderr,
		Logger:     hclog.NewNullLogger(),
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
func ask(ctx context.Context, c protocol.Client, req wire.Request, reply *wire.Reply) error {
	if req.Ask == wire.Describe {
		d, err := c.Describe(ctx)
		if err == nil {
			reply.Describe = &d
		}

		return err
	}

	a, err := c.Detect(ctx, req.Request)
	if err != nil {
		return err
	}

	if len(a.Problems) > 0 { // then the rest of the answer has no meaning
		a = contract.Answer{Problems: a.Problems}
	}
	reply.Answer = &a

	return nil
}
