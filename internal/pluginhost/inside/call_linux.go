package inside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/prelet/prelet/internal/pluginhost/wire"
	"github.com/prelet/prelet/internal/world"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
)

// maxHeaders bounds what a detector may put beside its answer; gRPC would take 16 MiB.
const maxHeaders = 64 << 10

// ask makes the one call.
func (r *run) ask(ctx context.Context, socket string) error {
	conn, err := grpc.NewClient("passthrough:///detector",
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the folder is private to this user; see decision 0005
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithMaxHeaderListSize(maxHeaders))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := detectorv1.NewDetectorServiceClient(conn)
	if r.req.Ask == wire.Describe {
		d, err := client.Describe(ctx, &detectorv1.DescribeRequest{}, grpc.MaxCallRecvMsgSize(wire.MaxDescribe))
		if err != nil {
			return callError(ctx, err, wire.MaxDescribe)
		}
		r.reply.Describe, err = description(d)
		return err
	}
	req, err := request(r.req)
	if err != nil {
		return err
	}
	a, err := client.Detect(ctx, req, grpc.MaxCallRecvMsgSize(wire.MaxAnswer))
	if err != nil {
		return callError(ctx, err, wire.MaxAnswer)
	}
	r.reply.Answer, err = answer(a)
	return err
}

// callError is gRPC's error in the words of who mends it.
func callError(ctx context.Context, err error, most int) error {
	s := status.Convert(err)
	text := cut(strings.TrimSuffix(s.Message(), "."), wire.MaxText)
	switch {
	case ctx.Err() != nil || s.Code() == codes.DeadlineExceeded:
		return errors.New("it did not answer in its time")
	case s.Code() == codes.ResourceExhausted && strings.Contains(text, "larger than max"):
		return fmt.Errorf("its answer is larger than the %d KiB that are read", most>>10)
	case s.Code() == codes.Unimplemented:
		return fmt.Errorf("it does not know the call: %s", text)
	case s.Code() == codes.Unavailable:
		return fmt.Errorf("its socket does not answer: %s", text)
	case s.Code() == codes.Unknown:
		return errors.New(text) // what the detector's own function returned
	}
	return fmt.Errorf("%s (%s)", text, s.Code())
}

// description is through JSON in the proto's own names, which is the form of lock files.
func description(d *detectorv1.DescribeResponse) (*world.Description, error) {
	b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("its description has no JSON form: %w", err)
	}
	var out world.Description
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("its description cannot be kept: %w", err)
	}
	return &out, nil
}

func request(r wire.Request) (*detectorv1.DetectRequest, error) {
	out := &detectorv1.DetectRequest{Config: &structpb.Struct{Fields: map[string]*structpb.Value{}}}
	for k, v := range r.Config {
		x, err := value(v)
		if err != nil {
			return nil, fmt.Errorf("config.%s: %w", k, err)
		}
		out.Config.Fields[k] = x
	}
	for _, d := range r.Devices {
		p := &detectorv1.PciDevice{Address: d.Address, Class: d.Class}
		p.Vendor, p.Device, _ = strings.Cut(d.Device, ":")
		if d.Subsystem != nil {
			p.SubsystemVendor, p.SubsystemDevice, _ = strings.Cut(*d.Subsystem, ":")
		}
		if d.Driver != nil {
			p.Driver = *d.Driver
		}
		if d.NUMA != nil && *d.NUMA >= 0 && *d.NUMA <= math.MaxInt32 {
			n := uint32(*d.NUMA)
			p.Numa = &n
		}
		out.Devices = append(out.Devices, p)
	}
	return out, nil
}

// value is structpb.NewValue, which knows no json.Number.
func value(v any) (*structpb.Value, error) {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return nil, fmt.Errorf("%s is out of the range of numbers", v)
		}
		return structpb.NewNumberValue(f), nil
	case []any:
		l := &structpb.ListValue{}
		for _, e := range v {
			x, err := value(e)
			if err != nil {
				return nil, err
			}
			l.Values = append(l.Values, x)
		}
		return structpb.NewListValue(l), nil
	case map[string]any:
		s := &structpb.Struct{Fields: map[string]*structpb.Value{}}
		for k, e := range v {
			x, err := value(e)
			if err != nil {
				return nil, err
			}
			s.Fields[k] = x
		}
		return structpb.NewStructValue(s), nil
	}
	return structpb.NewValue(v)
}

func answer(a *detectorv1.DetectResponse) (*wire.Answer, error) {
	out := &wire.Answer{Attributes: a.GetAttributes(), Warnings: a.GetWarnings()}
	for _, d := range a.GetDevices() {
		out.Devices = append(out.Devices, world.DetectorDevice{Address: d.GetAddress(), Name: d.Name, Kind: d.Kind, Vendor: d.Vendor, Model: d.Model,
			Driver: d.Driver, MemoryBytes: d.MemoryBytes, NUMA: number(d.Numa), Interface: d.Interface, SpeedGbps: d.SpeedGbps, Link: d.Link,
			SRIOVTotalVFs: number(d.SriovTotalVfs), SRIOVNumVFs: number(d.SriovNumVfs), Attributes: d.GetAttributes(), Evidence: d.GetEvidence()})
		if s := d.SpeedGbps; s != nil && (math.IsNaN(*s) || math.IsInf(*s, 0)) {
			return nil, fmt.Errorf("device %q: its speed is no number", d.GetAddress())
		}
	}
	for _, f := range a.GetFacts() {
		x := wire.Fact{Name: f.GetName(), Evidence: f.GetEvidence(), Unknown: f.GetUnknown()}
		if f.GetValue() != nil {
			x.Value = f.GetValue().AsInterface()
		}
		if _, err := json.Marshal(x.Value); err != nil {
			return nil, fmt.Errorf("fact %q: its value is no number", x.Name)
		}
		out.Facts = append(out.Facts, x)
	}
	for _, l := range a.GetLabels() {
		out.Labels = append(out.Labels, wire.Label{Key: l.GetKey(), Value: l.GetValue(), Evidence: l.GetEvidence()})
	}
	for _, p := range a.GetProblems() {
		out.Problems = append(out.Problems, world.ConfigProblem{Path: p.GetPath(), Summary: p.GetSummary(), Detail: p.GetDetail()})
	}
	return out, nil
}

func number(n *uint32) *int {
	if n == nil {
		return nil
	}
	i := int(*n)
	return &i
}
