// Command goplugin is a detector without prelet's SDK: hashicorp/go-plugin and the generated code of detector.v1, and
// nothing else. prelet's tests run it, because any go-plugin server that speaks detector.v1 is a detector.
package main

import (
	"context"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
)

type detector struct {
	plugin.NetRPCUnsupportedPlugin
	detectorv1.UnimplementedDetectorServiceServer
}

// GRPCServer implements plugin.GRPCPlugin.
func (d detector) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	detectorv1.RegisterDetectorServiceServer(s, d)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin.
func (detector) GRPCClient(
	context.Context,
	*plugin.GRPCBroker,
	*grpc.ClientConn,
) (any, error) {
	return nil, nil
}

// Describe implements detector.v1.
func (detector) Describe(context.Context, *detectorv1.DescribeRequest) (*detectorv1.DescribeResponse, error) {
	number := &detectorv1.Type{Kind: detectorv1.Type_KIND_NUMBER}

	return &detectorv1.DescribeResponse{
		Name:    "goplugin",
		Version: "1.0.0",
		Facts: []*detectorv1.Attribute{
			{Name: "blocks", Type: number, Doc: "How many block devices there are."},
		},
		Match: &detectorv1.Match{Always: true},
	}, nil
}

// Detect implements detector.v1.
func (detector) Detect(_ context.Context, r *detectorv1.DetectRequest) (*detectorv1.DetectResponse, error) {
	if len(r.GetConfig().GetFields()) > 0 {
		return nil, status.Error(codes.InvalidArgument, "there is nothing to configure")
	}

	blocks, err := filepath.Glob(filepath.Join("/", r.GetRoot(), "sys/block/*"))
	if err != nil {
		return nil, err
	}
	count := structpb.NewNumberValue(float64(len(blocks)))

	return &detectorv1.DetectResponse{
		Facts: []*detectorv1.Fact{{Name: "blocks", Value: count, Evidence: "/sys/block"}},
	}, nil
}

func main() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{
			ProtocolVersion:  1,
			MagicCookieKey:   "PRELET_DETECTOR",
			MagicCookieValue: "detector.v1",
		},
		Plugins:    plugin.PluginSet{"detector": detector{}},
		GRPCServer: plugin.DefaultGRPCServer,
		Logger:     hclog.NewNullLogger(),
	})
}
