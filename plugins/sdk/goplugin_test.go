package sdk_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
	"github.com/prelet/prelet/plugins/reference"
	"github.com/prelet/prelet/plugins/wire"
)

// grpcPlugin is a detector for go-plugin's hosts.
type grpcPlugin struct{ plugin.NetRPCUnsupportedPlugin }

// GRPCServer implements plugin.GRPCPlugin.
func (grpcPlugin) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error { return nil }

// GRPCClient implements plugin.GRPCPlugin.
func (grpcPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return reference.Client{DetectorServiceClient: detectorv1.NewDetectorServiceClient(c)}, nil
}

// TestGoPlugin: what Serve says is what go-plugin's own host understands, from the handshake to the shutdown.
func TestGoPlugin(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	start := func(version int) (*plugin.Client, plugin.ClientProtocol, error) {
		c := plugin.NewClient(&plugin.ClientConfig{
			HandshakeConfig:  plugin.HandshakeConfig{MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue},
			VersionedPlugins: map[int]plugin.PluginSet{version: {"detector": grpcPlugin{}}},
			Cmd:              exec.Command(program, "detectortest-is-the-detector"), SkipHostEnv: true,
			AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, Logger: hclog.NewNullLogger(),
		})
		t.Cleanup(c.Kill)
		p, err := c.Client()
		return c, p, err
	}
	c, p, err := start(wire.Version)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Ping(); err != nil {
		t.Error(err)
	}
	one, err := p.Dispense("detector")
	if err != nil {
		t.Fatal(err)
	}
	d, err := one.(reference.Client).Describe(t.Context())
	if err != nil || d.Name != "toy" {
		t.Errorf("%+v %v", d, err)
	}
	if err := p.Close(); err != nil { // which asks it to end
		t.Error(err)
	}
	c.Kill()
	if !c.Exited() {
		t.Error("it has not ended")
	}
	if _, _, err := start(7); err == nil || !strings.Contains(err.Error(), "incompatible API version") {
		t.Errorf("a host of another version says %v", err)
	}
}
