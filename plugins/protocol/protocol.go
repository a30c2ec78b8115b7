// Package protocol is the wire protocol of a detector: hashicorp/go-plugin over gRPC on a Unix socket, with the
// service detector.v1.DetectorService. Both ends use it: the SDK serves with Plugin, prelet-detect and the
// conformance kit call with Client. It has the only conversion between the types of package contract and the
// generated messages.
//
// It reads no file and starts no process. A vendor's own code does not need it.
package protocol

import (
	"context"
	"strconv"

	plugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
)

// The handshake. Without the cookie a detector knows that a person has started it, and does not wait for a host. The
// cookie is not a secret.
const (
	CookieKey   = "PRELET_DETECTOR"
	CookieValue = "detector.v1"

	// Version is the version of the application protocol, the second field of the line that a detector prints: 1 is
	// the service detector.v1.DetectorService.
	Version = 1
)

// Name is the name of the only plugin of a detector, in go-plugin's terms.
const Name = "detector"

// Handshake is go-plugin's configuration of the cookie. Versions are negotiated by Plugins.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{MagicCookieKey: CookieKey, MagicCookieValue: CookieValue}
}

// Plugins returns p for each version of the application protocol that this package speaks.
func Plugins(p Plugin) map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{Version: {Name: p}}
}

// Plugin is a detector for go-plugin's server and client.
type Plugin struct {
	plugin.NetRPCUnsupportedPlugin

	// Service answers the calls. A client leaves it nil.
	Service detectorv1.DetectorServiceServer
}

// GRPCServer implements plugin.GRPCPlugin.
func (p Plugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	detectorv1.RegisterDetectorServiceServer(s, p.Service)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin. It returns a Client.
func (Plugin) GRPCClient(
	_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn,
) (any, error) {
	return NewClient(conn), nil
}

// Environment is the whole environment of a detector that prelet or the conformance kit starts. The folder is for the
// detector's socket and nothing else.
func Environment(folder string) []string {
	return []string{
		"PATH=/usr/bin:/bin",
		"LC_ALL=C.UTF-8",
		"GOMAXPROCS=2",
		"TMPDIR=" + folder,
		plugin.EnvUnixSocketDir + "=" + folder,
		"PLUGIN_PROTOCOL_VERSIONS=" + strconv.Itoa(Version),
		CookieKey + "=" + CookieValue,
	}
}
