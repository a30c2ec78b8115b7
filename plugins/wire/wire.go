// Package wire is what both ends of a detector's connection must agree on: the handshake, the versions, and the gRPC
// service behind them. Hosts and the SDK import it; a vendor's own code does not. It reads and starts nothing.
package wire

import (
	"context"
	"errors"

	plugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
)

// The handshake. The cookie keeps a person who runs a detector by hand from a program that waits for ever; it is no
// secret.
const (
	CookieKey   = "PRELET_DETECTOR"
	CookieValue = "detector.v1"

	// Version is the version of the application protocol, the second field of the line that a detector prints: 1 is
	// the gRPC service detector.v1.DetectorService.
	Version = 1

	// PluginName is the one plugin that a detector serves.
	PluginName = "detector"
)

// Handshake returns go-plugin's form of it.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{ProtocolVersion: Version, MagicCookieKey: CookieKey, MagicCookieValue: CookieValue}
}

// Host returns what a host offers, by version of the protocol: go-plugin and the detector choose the highest that both
// have. What Dispense(PluginName) returns is a Client.
func Host() map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{Version: {PluginName: v1{}}}
}

// Detector returns what a detector offers.
func Detector(s detectorv1.DetectorServiceServer) map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{Version: {PluginName: v1{server: s}}}
}

// v1 implements plugin.GRPCPlugin for version 1.
type v1 struct {
	plugin.NetRPCUnsupportedPlugin
	server detectorv1.DetectorServiceServer
}

// GRPCServer implements plugin.GRPCPlugin.
func (p v1) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	if p.server == nil {
		return errors.New("wire: a host's plugin set serves nothing")
	}
	detectorv1.RegisterDetectorServiceServer(s, p.server)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin.
func (v1) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return Client{detectorv1.NewDetectorServiceClient(c)}, nil
}
