package runner

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	plugin "github.com/hashicorp/go-plugin"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/prelet/prelet/plugins/contract"
)

// TestClientConfig has what go-plugin would allow, or do, by default.
func TestClientConfig(t *testing.T) {
	d := &detector{socket: "/folder/s"}

	c := clientConfig(t.Context(), d)

	if c.Cmd != nil || c.RunnerFunc != nil || c.Managed || c.AutoMTLS {
		t.Errorf("got Cmd %v, Managed %t, AutoMTLS %t; want a client that starts and ends nothing",
			c.Cmd, c.Managed, c.AutoMTLS)
	}
	if c.Logger == nil || c.Logger.IsError() {
		t.Error("got a logger that logs errors; want one that logs nothing")
	}
	if r := c.Reattach; !r.Test || r.Protocol != plugin.ProtocolGRPC || r.Addr.String() != "/folder/s" {
		t.Errorf("got %+v; want the socket of the handshake, gRPC, and no end of the process", r)
	}
	if got, err := c.Reattach.ReattachFunc(); got != d || err != nil {
		t.Errorf("got %v, %v; want the detector", got, err)
	}
}

// TestSettings: the client announces the bounds of its windows and of headers, which grpc-go would otherwise raise.
func TestSettings(t *testing.T) {
	window, headers, connection := uint32(0), uint32(0), uint32(0)
	_, err := detect(within(t, time.Minute), t, func(p peer) {
		_ = p.WriteSettings()
		for f := p.next(); f != nil; f = p.next() {
			switch f := f.(type) {
			case *http2.SettingsFrame:
				if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
					window = v
				}
				if v, ok := f.Value(http2.SettingMaxHeaderListSize); ok {
					headers = v
				}
			case *http2.WindowUpdateFrame:
				if f.StreamID == 0 {
					connection = 65535 + f.Increment // RFC 9113, 6.9.2
				}
			case *http2.HeadersFrame:
				if strings.HasSuffix(p.method(f), "/Detect") {
					p.answer(f.StreamID, message(t, "w"))
				}
			}
		}
	})
	must(t, err)

	if want := uint32(2 * contract.MaxAnswer); window != want || connection != want {
		t.Errorf("got windows of %d for a stream, %d for the connection; want %d for both", window, connection, want)
	}
	if want := uint32(64 << 10); headers != want {
		t.Errorf("got a limit of %d bytes of headers; want %d", headers, want)
	}
}

// TestLargeOutput: a message of a detector's output is bounded as an answer is, and does not keep an answer back.
func TestLargeOutput(t *testing.T) {
	// plugin.StdioData: the channel STDERR, and data.
	output := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 2)
	output = protowire.AppendBytes(
		protowire.AppendTag(output, 2, protowire.BytesType),
		make([]byte, contract.MaxAnswer),
	)

	refused := false
	a, err := detect(within(t, time.Minute), t, func(p peer) {
		_ = p.WriteSettings()
		var stdio, call uint32
		for f := p.next(); f != nil; f = p.next() {
			switch method := p.method(f); {
			case strings.HasSuffix(method, "/StreamStdio"):
				stdio = f.Header().StreamID
				p.begin(stdio)
				p.data(stdio, framed(0, output))
			case strings.HasSuffix(method, "/Detect"):
				call = f.Header().StreamID
			}
			if _, ok := f.(*http2.RSTStreamFrame); ok && f.Header().StreamID == stdio {
				refused = true
			}
			if refused && call != 0 {
				p.answer(call, message(t, "w"))
				call = 0
			}
		}
	})
	if err != nil || len(a.Warnings) != 1 {
		t.Errorf("got %+v, %v; want an answer with one warning, after the output was refused", a, err)
	}
}

// TestMain keeps grpc-go from logging, as prelet-detect does before its first connection.
func TestMain(m *testing.M) {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	m.Run()
}

// within returns a context of d.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)

	return ctx
}
