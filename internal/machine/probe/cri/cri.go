// Package cri reads the name, the version and the cgroup driver of a container runtime over its socket. Ask sends
// the two requests. The package must not start or change anything.
//
// A kubelet with KubeletCgroupDriverFromCRI, which is on since 1.31 and cannot be turned off since 1.34, takes its
// cgroup driver from the same response; an older one takes cgroupDriver from its configuration. The response matters
// for both, because pods do not start if the two drivers differ.
package cri

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/status"

	"github.com/prelet/prelet/internal/machine/probe/cri/wire"
)

// The methods that are called. Source: k8s.io/cri-api/pkg/apis/runtime/v1/api.proto.
const (
	versionMethod       = "/runtime.v1.RuntimeService/Version"
	runtimeConfigMethod = "/runtime.v1.RuntimeService/RuntimeConfig"
)

// maxMessage limits each response and its headers, in bytes. Real responses have less than 200.
const maxMessage = 16 << 10

// Runtime is a container runtime's own description. A missing field is "".
type Runtime struct {
	Name    string // containerd, cri-o
	Version string // 1.6.20~ds1, v2.0.1
	Driver  string // its cgroup driver, systemd or cgroupfs: from containerd 2.0 and CRI-O 1.28 on
	// NoConfig: it does not implement RuntimeConfig, so it cannot report its driver to a kubelet either.
	NoConfig bool
}

// connect returns a connection to the runtime at a socket that ends with ctx.
func connect(ctx context.Context, socket string) (*grpc.ClientConn, error) {
	silenceLibrary()

	return grpc.NewClient("passthrough:///runtime",
		grpc.WithContextDialer(dialUntil(ctx, socket)),
		grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithMaxHeaderListSize(maxMessage),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	)
}

// Ask queries the runtime at a socket until ctx ends. After an error, the fields received before it are set.
func Ask(ctx context.Context, socket string) (Runtime, error) {
	ctx, cancel := context.WithCancel(ctx)

	conn, err := connect(ctx, socket)
	if err != nil {
		cancel()

		return Runtime{}, err
	}
	defer conn.Close()
	defer cancel() // before Close, which waits up to 5 s for a runtime that does not read

	var (
		version wire.VersionResponse
		config  wire.RuntimeConfigResponse
	)
	errVersion := conn.Invoke(ctx, versionMethod, &wire.VersionRequest{}, &version)
	errConfig := conn.Invoke(ctx, runtimeConfigMethod, &wire.RuntimeConfigRequest{}, &config)

	return Runtime{
		Name:    keepPrintable(version.GetRuntimeName()),
		Version: keepPrintable(version.GetRuntimeVersion()),
		Driver:  driverName(config.GetLinux()),

		NoConfig: errVersion == nil && status.Code(errConfig) == codes.Unimplemented,
	}, errors.Join(errVersion, errConfig)
}

// dialUntil returns a dialer whose connections are closed when ctx ends.
func dialUntil(ctx context.Context, socket string) func(context.Context, string) (net.Conn, error) {
	return func(dialCtx context.Context, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(dialCtx, "unix", socket)
		if err != nil {
			return nil, err
		}

		context.AfterFunc(ctx, func() { _ = conn.Close() }) // a second close changes nothing

		return conn, nil
	}
}

// silenceLibrary keeps gRPC from logging errors of the runtime to stderr.
var silenceLibrary = sync.OnceFunc(func() {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
})

// driverName returns the kubelet's name of a cgroup driver, "" for an unknown or missing driver.
func driverName(linux *wire.LinuxRuntimeConfiguration) string {
	if linux == nil {
		return ""
	}

	switch linux.GetCgroupDriver() {
	case wire.CgroupDriver_SYSTEMD:
		return "systemd"
	case wire.CgroupDriver_CGROUPFS:
		return "cgroupfs"
	}

	return ""
}

// keepPrintable returns a short text of visible ASCII characters, and "" for any other text: messages show it on a
// terminal.
func keepPrintable(s string) string {
	if len(s) > 64 {
		return ""
	}

	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return ""
		}
	}

	return s
}
