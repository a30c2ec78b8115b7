package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/prelet/prelet/plugins/contract"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
	"github.com/prelet/prelet/plugins/protocol"
)

// handleStream handles the streams of go-plugin's own services.
func handleStream(name string) grpc.StreamHandler {
	return func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		switch {
		case method == "/plugin.GRPCBroker/StartStream":
			panic("prelet opened the stream of go-plugin's broker")
		case method != "/plugin.GRPCStdio/StreamStdio":
		case name == "huge-stdio":
			return stream.SendMsg(stdioMessage(8 * contract.MaxAnswer))
		case name == "flood-stdio":
			for {
				err := stream.SendMsg(stdioMessage(1 << 19))
				if err != nil {
					return err
				}
			}
		}

		return status.Error(codes.Unimplemented, method)
	}
}

// stdioMessage returns go-plugin's message with a number of bytes for standard error. Its generated type is internal.
func stdioMessage(size int) proto.Message {
	const channel, data, standardError = 1, 2, 2
	b := protowire.AppendTag(nil, channel, protowire.VarintType)
	b = protowire.AppendVarint(b, standardError)
	b = protowire.AppendTag(b, data, protowire.BytesType)
	b = protowire.AppendBytes(b, make([]byte, size))
	m := &emptypb.Empty{}
	m.ProtoReflect().SetUnknown(b)

	return m
}

type server struct {
	detectorv1.UnimplementedDetectorServiceServer

	name string
}

// Describe implements the service.
func (s server) Describe(context.Context, *detectorv1.DescribeRequest) (*detectorv1.DescribeResponse, error) {
	d := Describe(s.name)
	switch s.name {
	case "nameless":
		d.Name = "../../etc"
	case "wordy":
		d.Doc = strings.Repeat("x", 1<<20)
	}

	response, err := protocol.ToProto[detectorv1.DescribeResponse](d)
	if s.name == "no-limit" {
		response.Config[0].Maximum = new(math.Inf(-1))
	}

	return response, err
}

// good returns the answer of the detector "good".
func good() contract.Answer {
	fact := contract.Fact{
		Name:     "sensors",
		Value:    []any{sensor(41.5)},
		Evidence: "/sys/class/hwmon",
	}
	label := contract.Label{
		Key:      Domain + "/firmware",
		Value:    "1.20",
		Evidence: "firmware",
	}

	return contract.Answer{
		Attributes: map[string]string{"firmware": "1.20"},
		Warnings:   []string{"the fan is loud"},
		Devices:    []contract.Device{{Name: new("Example 9000")}},
		Facts:      []contract.Fact{fact},
		Labels:     []contract.Label{label},
	}
}

// sensor returns an element of the fact "sensors".
func sensor(celsius float64) map[string]any {
	return map[string]any{
		"name":    "die",
		"celsius": celsius,
	}
}

// Detect implements the service.
func (s server) Detect(_ context.Context, r *detectorv1.DetectRequest) (*detectorv1.DetectResponse, error) {
	misbehave(s.name)
	switch s.name {
	case "says-nothing":
		return nil, status.Error(codes.Unknown, "")
	case "says-no":
		return nil, errors.New("the driver is older than 1.20; install a newer one")
	case "problem":
		a := contract.Answer{Problems: []contract.Problem{
			{Path: "seconds", Summary: "too long", Detail: "At most 60."},
		}}
		return protocol.ToProto[detectorv1.DetectResponse](a)
	case "crowd": // empty devices of two bytes each
		answer := &detectorv1.DetectResponse{}
		device := []byte{1<<3 | byte(protowire.BytesType), 0}
		devices := bytes.Repeat(device, contract.MaxAnswer/2)
		answer.ProtoReflect().SetUnknown(devices)
		return answer, nil
	}

	a := good()
	falsify(s.name, &a)
	attack(s.name, &a)
	if s.name == "tries" {
		a.Attributes = tries(r.GetConfig().AsMap())
		a.Attributes["root"] = r.GetRoot()
	}

	response, err := protocol.ToProto[detectorv1.DetectResponse](a)
	switch s.name {
	case "no-number":
		response.Facts[0].Value = structpb.NewNumberValue(math.NaN())
	case "no-speed":
		response.Devices[0].SpeedGbps = new(math.Inf(1))
	}

	return response, err
}

// misbehave crashes, hangs or floods.
func misbehave(name string) {
	switch name {
	case "chatty": // more than a pipe holds, so it takes the time of the stream
		began := time.Now()
		for range 1000 {
			fmt.Fprintln(os.Stderr, strings.Repeat("x", 1<<10))
		}
		fmt.Fprintln(os.Stderr, "the driver is older than 1.20")
		time.Sleep(max(time.Second, 10*time.Since(began))) // until the stream has the rest
		os.Exit(1)
	case "crash-call":
		fmt.Fprintln(os.Stderr, "ioctl failed: no such device\nassertion failed: table != NULL")
		os.Exit(134)
	case "hang-call":
		select {}
	case "hang-child": // the child holds its pipes
		_ = startChild(0)
		select {}
	case "flood-stdout":
		line := []byte(strings.Repeat("x", 60) + "\n")
		for {
			_, _ = os.Stdout.Write(line)
		}
	case "flood-stderr":
		line := []byte(strings.Repeat("x", 1<<20))
		for range 200 {
			_, _ = os.Stderr.Write(line)
		}
	}
}

// falsify makes an answer invalid or too large.
func falsify(name string, a *contract.Answer) {
	fact := &a.Facts[0]
	label := &a.Labels[0]

	switch name {
	case "bad-label":
		label.Key = Domain + "/gpu memory"
	case "foreign-label":
		label.Key = "other.example.org/x"
	case "role-label":
		label.Key = "node-role.kubernetes.io/control-plane"
	case "contrary":
		label.Value = "2.0"
	case "undescribed":
		fact.Name = "seats"
	case "wrong-type":
		fact.Value = "many"
	case "bad-address":
		a.Devices[0].Address = "../../1"
	case "placeholder":
		a.Attributes["firmware"] = "\ue000cred:bootstrap-token\ue001"
	case "terminal":
		a.Warnings = []string{"\x1b]0;owned\a\x1b[2J"}
	case "huge":
		a.Attributes["x"] = strings.Repeat("x", 100<<20)
	case "nulls":
		fact.Value = make([]any, contract.MaxAnswer/4-1000)
	case "warns": // one more than a list may have in a reply
		a.Warnings = make([]string, contract.MaxValues+1)
	case "many":
		for i := range 2000 {
			name := fmt.Sprint("device ", i)
			a.Devices = append(a.Devices, contract.Device{Name: &name})
		}
	}
}

// attack uses up resources or attacks other processes, and reports in the answer how that ended.
func attack(name string, a *contract.Answer) {
	count := func(key string, n int, err error) {
		a.Attributes[key] = fmt.Sprint(n)
		a.Attributes["last"] = describe(err)
	}
	switch name {
	case "grandchild":
		a.Attributes["start"] = describe(startChild(0))
	case "setsid":
		c := child("sleeper")
		c.SysProcAttr = &unix.SysProcAttr{Setsid: true}
		a.Attributes["start"] = describe(c.Start())
	case "kill-host":
		err := unix.Kill(os.Getppid(), unix.SIGKILL)
		a.Attributes["kill"] = describe(err)
	case "hog":
		a.Attributes["allocated"] = describe(exhaustMemory())
	case "fork-bomb":
		n, err := repeat(2000, startChild)
		count("children", n, err)
	case "shared-hog":
		n, err := repeat(2048, mapShared)
		count("mebibytes", n, err)
	case "frozen-hog":
		_, _ = repeat(1024, freezeMemory)
		select {} // until it is killed
	case "page-tables":
		_, _ = repeat(2, func(int) error { return child("reader").Start() })
		select {}
	case "mappings":
		err := splitMemory()
		n := 0
		if err == nil {
			n, err = repeat(64, fork)
		}
		count("children", n, err)
	case "fills": // it keeps the files for a while
		n, err := repeat(200_000, makeFile)
		count("files", n, err)
		time.Sleep(time.Second)
	case "nests": // needs a kernel without Landlock
		err := os.Chdir(socketDir())
		n := 0
		if err == nil {
			n, err = repeat(3000, makeNestedFolder)
		}
		if err == nil {
			err = os.Chmod(".", 0)
		}
		count("folders", n, err)
	}
}

// describe returns how an attempt ended: "ok", or its error.
func describe(err error) string {
	if err == nil {
		return "ok"
	}

	return strings.Join(strings.Fields(err.Error()), " ")
}
